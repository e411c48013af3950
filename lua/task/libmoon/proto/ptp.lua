-- SPDX-License-Identifier: MIT
-- Constants of PTP (IEEE 1588): types of messages.
require "libmoon.packet"
return { TYPE_SYNC = 0, TYPE_DELAY_REQ = 1, TYPE_FOLLOW_UP = 8, TYPE_DELAY_RESP = 9 }
