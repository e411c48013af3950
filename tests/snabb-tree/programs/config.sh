# SPDX-License-Identifier: MIT
# A running lwaftr, asked by `config`: parts of its configuration got and set, a softwire that comes and goes, its state, a whole new
# configuration, a session of `listen`, a benchmark of that, its end.
schema=--schema=snabb-softwire-v3
conf=program/lwaftr/tests/data/icmp_on_fail.conf bench=program/lwaftr/tests/benchdata
$SNABB lwaftr bench -D 60 --name asked --bench-file /dev/null $conf $bench/ipv4-0550.pcap $bench/ipv6-0550.pcap &
lwaftr=$!
for try in $(seq 40); do
  sleep 0.25
  $SNABB config get $schema asked /softwire-config/external-interface 2>/dev/null | tee "$WORK/out" | grep -q reassembly && break
done
grep -q max-fragments-per-packet "$WORK/out"
get() { $SNABB config get $schema asked "$1"; }
# A leaf.
leaf=/softwire-config/external-interface/error-rate-limiting/packets
$SNABB config set $schema asked $leaf 500000
[ "$(get $leaf)" = 500000 ]
# An entry of a list.
table=/softwire-config/binding-table/softwire
key='[ipv4=1.2.3.4][psid=7]'
$SNABB config add $schema asked "$table" '{ ipv4 1.2.3.4; psid 7; b4-ipv6 ::1; br-address 8:9:a:b:c:d:e:f; port-set { psid-length 16; } }'
get "$table$key/b4-ipv6" | grep -qx '::1'
$SNABB config remove $schema asked "$table$key"
! get "$table$key/b4-ipv6" 2>/dev/null
# State. Counters of the data plane grow.
count() { $SNABB config get-state $schema asked /softwire-state/in-ipv4-packets; }
before=$(count)
for try in $(seq 20); do sleep 0.25; [ "$(count)" = "$before" ] || break; done
[ "$(count)" -gt "$before" ]
# Everything.
sed "s/packets 600000;/packets 400000;/" $conf >"$WORK/new.conf"
! cmp -s $conf "$WORK/new.conf"
$SNABB config load $schema asked "$WORK/new.conf"
[ "$(get $leaf)" = 400000 ]
# A session: one request a line, in JSON.
request='{ "id": "7", "verb": "get", "path": "'$leaf'" }'
{ printf '%s\n' "$request"; sleep 2; } | $SNABB config listen $schema asked | tee "$WORK/out" || true # its end is an error to it
grep -q '"status":"ok"' "$WORK/out"
for n in $(seq 50); do printf '{ "id": "%s", "verb": "get", "path": "%s" }\n' $n $leaf; done >"$WORK/requests"
$SNABB config bench $schema asked "$WORK/requests" | tee "$WORK/out"
$SNABB config shutdown asked
wait $lwaftr
