# SPDX-License-Identifier: MIT
# Packets from a worker process to its parent.
$SNABB snsh apps/interlink/selftest.snabb 2 | tee "$WORK/out"
awk '/Mpps/ { found = 1; if ($1 <= 0) exit 1 } END { exit !found }' "$WORK/out"
