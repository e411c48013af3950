-- SPDX-License-Identifier: MIT
-- One class of service after the other, to see how a network treats each of them:
--   perigee gen eth1 --to eth2 --rate 10kpps --seconds 8 --script sweep.lua -- [SECONDS]
-- IPv4. The class changes every second, or every SECONDS.
local packet = require "perigee.packet"

-- Default, CS1 (low effort), AF11, AF21, AF31, AF41, EF, CS6 (RFC 4594).
local CLASSES = { 0, 8, 10, 18, 26, 34, 46, 48 }
local each = tonumber((...)) or 1

traffic = { sizes = 128, flows = 100, source_port = "1024-1123" }

function modify(burst, _, seconds)
  local class = CLASSES[math.floor(seconds / each) % #CLASSES + 1]
  for slot = 0, burst.count - 1 do packet.ipv4(burst, slot).tos = class * 4 end
  burst:checksums()
end
