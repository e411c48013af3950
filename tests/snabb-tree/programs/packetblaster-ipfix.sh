# SPDX-License-Identifier: MIT
# Flows for a probe, by processes with queues of a ConnectX card each. Needs a port that is no card.
grep -q perigee "$SNABB" || { echo 'needs a network card'; exit 77; }
$SNABB packetblaster ipfix -D 1 program/ipfix/tests/sanitized4k.pcap net_null0 0 2>&1 | tee "$WORK/out"
! grep -q 'stack traceback' "$WORK/out" # a process that dies is no error to it
