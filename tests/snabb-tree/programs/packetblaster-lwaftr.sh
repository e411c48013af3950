# SPDX-License-Identifier: MIT
# Traffic for an lwaftr, into a file.
$SNABB packetblaster lwaftr --src_mac 02:02:02:02:02:02 --dst_mac 02:42:df:27:05:00 --b4 2001:db8::40,10.10.0.0,1024 \
  --aftr 2001:db8:ffff::100 --count 10 --size 74 --rate 1 --pcap "$WORK/out.pcap"
[ "$(stat -c %s "$WORK/out.pcap")" -gt 1000 ]
