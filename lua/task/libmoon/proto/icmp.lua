-- SPDX-License-Identifier: MIT
-- Constants of ICMP (and, in icmp6, of ICMPv6): pairs of type and code.
require "libmoon.packet"
return {
  ECHO_REPLY = { type = 0, code = 0 }, ECHO_REQUEST = { type = 8, code = 0 }, DST_UNR_PORT_UNR = { type = 3, code = 3 },
  TIME_EXCEEDED_TTL_EXPIRED = { type = 11, code = 0 },
  icmp6 = { ECHO_REQUEST = { type = 128, code = 0 }, ECHO_REPLY = { type = 129, code = 0 } },
}
