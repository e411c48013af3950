# SPDX-License-Identifier: MIT
# A running lwaftr, asked by `config`: part of its configuration, a softwire that comes and goes, its state.
schema=--schema=snabb-softwire-v3
conf=program/lwaftr/tests/data/icmp_on_fail.conf bench=program/lwaftr/tests/benchdata
$SNABB lwaftr bench -D 12 --name asked --bench-file /dev/null $conf $bench/ipv4-0550.pcap $bench/ipv6-0550.pcap &
for try in $(seq 40); do
  sleep 0.25
  $SNABB config get $schema asked /softwire-config/external-interface 2>/dev/null | tee "$WORK/out" | grep -q reassembly && break
done
grep -q max-fragments-per-packet "$WORK/out"
table=/softwire-config/binding-table/softwire
key='[ipv4=1.2.3.4][psid=7]'
$SNABB config add $schema asked "$table" '{ ipv4 1.2.3.4; psid 7; b4-ipv6 ::1; br-address 8:9:a:b:c:d:e:f; port-set { psid-length 16; } }'
$SNABB config get $schema asked "$table$key/b4-ipv6" | grep -qx '::1'
$SNABB config remove $schema asked "$table$key"
! $SNABB config get $schema asked "$table$key/b4-ipv6" 2>/dev/null
$SNABB config get-state $schema asked /softwire-state | grep -q in-ipv4-packets
wait
