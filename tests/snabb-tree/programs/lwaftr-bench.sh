# SPDX-License-Identifier: MIT
# lwaftr from captures, without ports; the averages are in the file.
data=program/lwaftr/tests
$SNABB lwaftr bench -D 2 --bench-file "$WORK/bench.csv" $data/data/icmp_on_fail.conf $data/benchdata/ipv4-0550.pcap \
  $data/benchdata/ipv6-0550.pcap
[ "$(wc -l <"$WORK/bench.csv")" -ge 2 ]
