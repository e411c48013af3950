# SPDX-License-Identifier: MIT
# A generated configuration, compiled, and given to `lwaftr bench` as it was compiled.
$SNABB lwaftr generate-configuration --output "$WORK/softwires.conf" 192.168.1.100 200 8:9:a:b:c:d:e:f 2001:db8:: 6
grep -c 'softwire {' "$WORK/softwires.conf"
conf=program/lwaftr/tests/data/icmp_on_fail.conf bench=program/lwaftr/tests/benchdata
$SNABB lwaftr compile-configuration $conf "$WORK/compiled.o"
cp $conf "$WORK/compiled.conf"
touch -r $conf "$WORK/compiled.conf"
$SNABB lwaftr bench -D 3 --bench-file "$WORK/bench.csv" "$WORK/compiled.conf" $bench/ipv4-0550.pcap $bench/ipv6-0550.pcap
[ "$(wc -l <"$WORK/bench.csv")" -ge 2 ]
