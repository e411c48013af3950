-- SPDX-License-Identifier: MIT
-- lib.protocol.icmp.nd.header: the base class of Neighbor Discovery messages (RFC 4861): their options.
--
-- What differs from Snabb: damaged options, and options of unknown types, are no errors.
local header = require("lib.protocol.header")
local tlv = require("lib.protocol.icmp.nd.options.tlv")

local Nd = subClass(header)
Nd._name = "neighbor discovery"
Nd._ulp = {}

--- The options in the `size` bytes at `mem`, an array of lib.protocol.icmp.nd.options.tlv objects, which are views of
-- that memory. If they are damaged (one of length 0, or longer than the rest): an empty array and a message.
function Nd:options(mem, size)
   local options = {}
   while size > 0 do
      local option = tlv:new_from_mem(mem, size)
      if option == nil then return {}, "corrupt ND options" end
      options[#options + 1] = option
      mem = mem + option:length() * 8
      size = size - option:length() * 8
   end
   return options
end

return Nd
