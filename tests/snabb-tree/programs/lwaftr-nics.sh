# SPDX-License-Identifier: MIT
# Those tests of lwaftr's Python suite that want two network cards, here between two pairs of interfaces: `run`, `query`, `monitor`,
# `loadtest`.
# DPDK numbers its groups of AF_PACKET sockets by process number XOR interface number: two processes must not meet in one.
for n in 0 1; do
  ip link add nic$n index $((8192 * (n + 1))) type veth peer name peer$n
  for link in nic$n peer$n; do ip link set $link addrgenmode none up; done
done
export SNABB_PCI0=nic0 SNABB_PCI1=nic1
status=0
for test in query monitor run loadtest; do
  program/lwaftr/tests/selftest.sh $test || status=1
done
for n in 0 1; do ip link del nic$n; done
exit $status
