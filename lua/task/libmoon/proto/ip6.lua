-- SPDX-License-Identifier: MIT
-- Constants of IPv6: numbers of next headers.
require "libmoon.packet"
return { PROTO_TCP = 6, PROTO_UDP = 17, PROTO_ICMP = 58, PROTO_ESP = 50 }
