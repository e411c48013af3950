# SPDX-License-Identifier: MIT
# What runs, seen by `ps`, and by `top` on a terminal: its two views, and `q`.
$SNABB lwaftr bench -D 12 --name seen --bench-file "$WORK/bench.csv" program/lwaftr/tests/data/icmp_on_fail.conf \
  program/lwaftr/tests/benchdata/ipv4-0550.pcap program/lwaftr/tests/benchdata/ipv6-0550.pcap >"$WORK/out" 2>&1 &
bench=$!
for try in $(seq 40); do ! $SNABB ps | tee "$WORK/ps" | grep -q seen || break; sleep 0.25; done
cat "$WORK/ps"
grep -q seen "$WORK/ps"
cat >"$WORK/top.py" <<'P'
import os, pty, re, select, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], [sys.argv[1], 'top'])
screen = b''
def until(text, seconds=10):
    global screen
    end = time.time() + seconds
    while time.time() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                screen += os.read(terminal, 65536)
            except OSError:
                return False # it has ended
        if b'\x1b[6n' in screen: # it asks where the cursor is, which it put into the last corner
            os.write(terminal, b'\x1b[50;200R')
            screen = screen.replace(b'\x1b[6n', b'')
        if re.search(text, screen):
            return True
    sys.exit('top: nothing like %r in %r' % (text, screen[-3000:]))
until(rb'seen')
os.write(terminal, b't')
screen = b''
until(rb'breaths')
until(rb'rxpackets|txpackets')
os.write(terminal, b'q')
for wait in range(100):
    if os.waitpid(child, os.WNOHANG)[0]:
        print('top: both views, and its end')
        sys.exit(0)
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            os.read(terminal, 65536)
        except OSError:
            time.sleep(0.1) # nobody has the terminal any more
sys.exit('top goes on after q')
P
TERM=xterm python3 "$WORK/top.py" $SNABB
kill $bench
wait $bench || true
