-- SPDX-License-Identifier: MIT
-- The events of packets, for core.timeline, which describes the format. Names and arguments are Snabb's.

return [[
9,6|packets_preallocated: packets
Memory for this many packets was allocated.

9,1|packet_allocated:
A packet was taken from the free list.

9,1|packet_freed: length
A packet of length bytes went back to the free list.

9,5|freelist_empty:
The free list had no packet.

9,5|freelist_need_rebalance:
The free list holds more packets than this process allocated.

9,4|group_freelist_released: packets
Packets went from the free list to the group's.

9,4|group_freelist_reclaimed: packets
Packets came from the group's free list.
]]
