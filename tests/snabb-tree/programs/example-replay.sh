# SPDX-License-Identifier: MIT
# A capture to an interface; what arrives is counted at its other end.
ip link add replay type veth peer name other
for link in replay other; do ip link set $link up; done
$SNABB example_replay program/example_replay/input.pcap replay
arrived=$(ip -json -stats link show other | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])')
ip link del replay
echo "$arrived packets arrived"
[ "$arrived" -gt 100 ]
