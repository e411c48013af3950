# SPDX-License-Identifier: MIT
# The example that it prints: its header, compiled with a callback that counts; then packets. Needs a port that is no card for these.
$SNABB firehose --example | grep -q 'gcc -O2 -fPIC -shared'
$SNABB firehose --print-header >"$WORK/firehose.h"
cat >"$WORK/count.c" <<'C'
#include <stdio.h>
#include "firehose.h"
static int packets, bytes, first;
void firehose_start() { printf("Starting\n"); }
void firehose_stop() { printf("Stopping after %d packets, %d bytes, first %d\n", packets, bytes, first); }
void firehose_packet(const char *pci, char *data, int length) { packets++; bytes += length; first += data[14]; }
C
gcc -O2 -fPIC -shared -o "$WORK/count.so" "$WORK/count.c"
grep -q perigee "$SNABB" || { echo 'needs a network card'; exit 77; }
ip link add fire type veth peer name other
for link in fire other; do ip link set $link addrgenmode none up; done
$SNABB firehose --input fire --ring-size 64 --time 4 "$WORK/count.so" >"$WORK/out" &
program=$!
python3 - other <<'P'
import socket, sys, time
time.sleep(2)
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind((sys.argv[1], 0))
for n in range(1000):
    port.send(bytes.fromhex('ffffffffffff02000000000988b5') + bytes([n % 100]) + bytes(46 + n % 500))
    if n % 20 == 19:
        time.sleep(0.001)
P
wait $program
ip link del fire
cat "$WORK/out"
grep -q 'Stopping after 1000 packets, 310500 bytes, first 49500' "$WORK/out"
