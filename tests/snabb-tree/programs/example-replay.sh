# SPDX-License-Identifier: MIT
# A capture to an interface; what arrives is counted at its other end.
ip link add replay type veth peer name other
for link in replay other; do ip link set $link addrgenmode none up; done # the kernel itself sends nothing
capture=program/example_replay/input.pcap
packets=$(python3 -c '
import struct, sys
data, n = open(sys.argv[1], "rb").read()[24:], 0
while data:
    data, n = data[16 + struct.unpack("<I", data[8:12])[0]:], n + 1
print(n)' $capture)
$SNABB example_replay $capture replay
arrived=$(ip -json -stats link show other | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])')
ip link del replay
echo "$arrived of $packets packets arrived"
[ "$arrived" = "$packets" ]
