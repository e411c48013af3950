-- SPDX-License-Identifier: MIT
-- TCP has no constants of its own here; its header is pkt.tcp.
require "libmoon.packet"
return {}
