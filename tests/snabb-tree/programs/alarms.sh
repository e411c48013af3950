# SPDX-License-Identifier: MIT
# An lwaftr that cannot resolve its next hop raises an alarm; an operator acknowledges it, and `listen` is told. (`get-state` ends in
# an assertion of lib.yang.data on both, `purge` and `compress` know no schema that supports them.)
for n in 0 1; do
  ip link add w$n type veth peer name peer$n
  for link in w$n peer$n; do ip link set $link addrgenmode none up; done
done
sed 's/device test;/device w1; external-device w0;/' program/lwaftr/tests/data/tunnel_icmp_withoutmac.conf >"$WORK/run.conf"
$SNABB lwaftr run --name alarming -D 60 --conf "$WORK/run.conf" &
lwaftr=$!
until worker=$(ls -d "$SNABB_SHM_ROOT"/*/alarms-worker-channel 2>/dev/null); do
  [ $SECONDS -lt 20 ] || { echo 'there is no worker'; exit 1; }
  sleep 0.2
done
worker=$(basename "$(dirname "$worker")")
# To a terminal it writes line by line.
timeout 60 script -qfec "$SNABB alarms listen alarming" "$WORK/heard" >/dev/null &
# Only an alarm that has been raised can be acknowledged.
acknowledge() { $SNABB alarms set-operator-state --schema snabb-softwire-v3 alarming "$worker" ndp-resolution ack; }
until [ "$(acknowledge 2>/dev/null)" = true ]; do
  [ $SECONDS -lt 40 ] || { acknowledge; echo 'no alarm was raised'; exit 1; }
  sleep 0.5
done
until grep operator-action "$WORK/heard" | grep '"state":"ack"'; do
  [ $SECONDS -lt 50 ] || { cat "$WORK/heard"; echo 'nobody told the listener'; exit 1; }
  acknowledge
  sleep 0.5
done
kill $lwaftr
