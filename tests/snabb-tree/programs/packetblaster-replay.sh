# SPDX-License-Identifier: MIT
# A capture into a port, again and again. Needs one that is no card.
grep -q perigee "$SNABB" || { echo 'needs a network card'; exit 77; }
$SNABB packetblaster replay -D 1 program/lwaftr/tests/benchdata/ipv4-0550.pcap net_null0
