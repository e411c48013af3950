# SPDX-License-Identifier: MIT
# lwaftr's end-to-end suite: what `lwaftr check` sends for what it gets, byte by byte, and its counters; with two ports and on a stick. All
# tests, also after one that fails. Those with ndp_ns_and_recap.pcap do, on Snabb as here: there the tree expects that it asks for a neighbor
# by broadcast, and it does so by multicast.
cd program/lwaftr/tests/end-to-end
sed -i 's/^   echo $1; exit 1$/   echo "$1"; return 1/; s/^   scmp \(.*\)$/   scmp \1/' core-end-to-end.sh
sed -i 's/^      "Failure: \(.*\)"$/      "Failure: \1" || return 0/; s/^         "Failure: \(.*\)"$/         { quit_with_msg "Failure: \1"; return 0; }/; s/|| quit_with_msg \\$/|| \\/' core-end-to-end.sh
bash -n core-end-to-end.sh
status=0
for test in end-to-end.sh end-to-end-vlan.sh; do
  ./$test >"$WORK/$test" 2>&1 || { tail -5 "$WORK/$test"; status=1; }
  grep -q 'All end-to-end lwAFTR tests passed' "$WORK/$test" || status=1 # it has come to its end
  echo "$test: $(grep -c 'Test passed' "$WORK/$test") passed, $(grep -c '^Failure' "$WORK/$test") failed"
  grep '^Failure' "$WORK/$test" | grep -v ndp_ns_and_recap && status=1
done
exit $status
