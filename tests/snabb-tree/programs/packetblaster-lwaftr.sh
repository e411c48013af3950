# SPDX-License-Identifier: MIT
# Traffic for an lwaftr, to an interface; what arrives is counted at its other end. (With --pcap its rate is infinite times no
# time: not a number, on which it waits for ever.)
ip link add blast type veth peer name other
for link in blast other; do ip link set $link up; done
$SNABB packetblaster lwaftr --src_mac 02:02:02:02:02:02 --dst_mac 02:42:df:27:05:00 --b4 2001:db8::40,10.10.0.0,1024 \
  --aftr 2001:db8:ffff::100 --count 10 --size 74 --rate 0.01 --int blast -D 2
arrived=$(ip -json -stats link show other | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])')
ip link del blast
echo "$arrived packets arrived"
[ "$arrived" -gt 1000 ]
