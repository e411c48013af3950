# SPDX-License-Identifier: MIT
# lwaftr's end-to-end suite: what `lwaftr check` sends for what it gets, byte by byte, and its counters; with two ports and on a stick.
cd program/lwaftr/tests/end-to-end
for test in end-to-end.sh end-to-end-vlan.sh; do
  status=0
  ./$test >"$WORK/$test" 2>&1 || status=$?
  echo "$test: $(grep -c 'Test passed' "$WORK/$test") passed"
  [ "$status" = 0 ] || { tail -5 "$WORK/$test"; exit 1; }
done
