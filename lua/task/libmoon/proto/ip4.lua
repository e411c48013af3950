-- SPDX-License-Identifier: MIT
-- Constants of IPv4: numbers of protocols.
require "libmoon.packet"
return { PROTO_ICMP = 1, PROTO_TCP = 6, PROTO_UDP = 17, PROTO_GRE = 47, PROTO_ESP = 50, PROTO_AH = 51 }
