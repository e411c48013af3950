# SPDX-License-Identifier: MIT
# Load out of one port and back in by another: at what rate is it lost? Needs ports that are no cards: a pair of interfaces.
grep -q perigee "$SNABB" || { echo 'needs two network cards'; exit 77; }
ip link add nic0 type veth peer name nic1
for link in nic0 nic1; do ip link set $link addrgenmode none up; done
capture=program/lwaftr/tests/benchdata/ipv4-0550.pcap
$SNABB loadtest transient -D 0.3 -b 2e7 -s 1e7 --program ramp_up --bench-file "$WORK/load.csv" \
  $capture there back nic0 $capture back there nic1
awk -F, 'NR > 1 && $1 > 0 { rows++; if ($3 <= 0 || $7 <= 0) bad++ } END { print rows, "rows,", bad + 0, "without packets"; exit bad || rows < 4 }' "$WORK/load.csv"
$SNABB loadtest find-limit -D 0.3 -b 2e7 -p 5e6 -r 1 $capture there back nic0 $capture back there nic1 | tee "$WORK/out"
awk "END { exit !(\$1 > 0) }" "$WORK/out"
