-- SPDX-License-Identifier: MIT
-- DNS queries, each for a name that no cache knows, to see what a server of one's own makes of them:
--   perigee gen eth1 --script dns.lua --destination 10.0.0.53 --destination-mac 02:00:00:00:00:02 --rate 1kpps -- [ZONE]
-- Without stamps: the whole payload is the query's.
local bit = require "bit"
local ffi = require "ffi"
local zone = (...) or "example.com"

-- RFC 1035 4.1: id, flags (recursion desired), one question: eight digits and the zone; an address (A) of the Internet (IN).
local labels = zone:gsub("([^.]+)%.?", function(label) return string.char(#label) .. label end)
local query = "\0\0\1\0\0\1\0\0\0\0\0\0" .. "\8" .. "00000000" .. labels .. "\0\0\1\0\1"
local DIGITS = "0123456789abcdef"

traffic = {
  sizes = 14 + 20 + 8 + #query + 4, -- the last four are the FCS
  source_port = "random:1024-65535",
  destination_port = 53,
  stamp = false,
}

function modify(burst, first)
  for slot = 0, burst.count - 1 do
    local at = burst.l3[slot] + 20 + 8
    if at + #query ~= burst.length[slot] then error("queries fit untagged IPv4 frames of the size that the script gives") end
    local payload, number = burst.data[slot] + at, first + slot
    ffi.copy(payload, query, #query)
    payload[0], payload[1] = bit.band(bit.rshift(number, 8), 255), bit.band(number, 255)
    for digit = 20, 13, -1 do
      payload[digit] = DIGITS:byte(bit.band(number, 15) + 1)
      number = bit.rshift(number, 4)
    end
  end
  burst:checksums()
end
