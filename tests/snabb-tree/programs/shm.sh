# SPDX-License-Identifier: MIT
# What a process has in shared memory, printed by another.
$SNABB snsh -e 'require("core.counter").create("seen/packets.counter", 42) require("core.counter").commit() os.execute("sleep 3")' &
sleep 1.5
$SNABB shm "${SNABB_SHM_ROOT:-/var/run/snabb}/$!/seen" | tee "$WORK/out"
wait
grep -q 42 "$WORK/out"
