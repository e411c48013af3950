# SPDX-License-Identifier: MIT
# What runs, seen by `ps` and `top`.
$SNABB lwaftr bench -D 4 --name seen --bench-file "$WORK/bench.csv" program/lwaftr/tests/data/icmp_on_fail.conf \
  program/lwaftr/tests/benchdata/ipv4-0550.pcap program/lwaftr/tests/benchdata/ipv6-0550.pcap >"$WORK/out" 2>&1 &
sleep 2
$SNABB ps | grep -q seen
wait
