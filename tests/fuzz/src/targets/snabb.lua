-- SPDX-License-Identifier: MIT
-- What Snabb programs read and keep, without packets: each byte chooses what is done, or a value of it. Returns the function that the target
-- calls with an input.
local ffi = require("ffi")
local config, lib, json = require("core.config"), require("core.lib"), require("lib.json")
local ctable, cltable = require("lib.ctable"), require("lib.cltable")
local trie = require("lib.lpm.lpm4_trie")
local mac_address = require("lib.macaddress")

local HEADERS = {}
for _, name in ipairs{"ethernet", "dot1q", "arp", "ipv4", "ipv6", "udp", "tcp", "gre", "esp", "esp_tail"} do
   HEADERS[#HEADERS + 1] = require("lib.protocol."..name)
end
local ethernet, ipv4, ipv6 = HEADERS[1], HEADERS[4], HEADERS[5]

local ODD = {
   0, 1, -1, 2, 7, 255, 256, 65535, 65536, 2 ^ 31, 2 ^ 32, 2 ^ 53, -2 ^ 53, 1e300, 0 / 0, 1 / 0, -1 / 0, 0.5, true, false, "", "x", "7", "a\0b",
   ("x"):rep(300), {}, {1, 2, {a = 3}}, {1.5, [7] = true}, function () end, 5LL, 0xffffffffffffffffULL, ffi.new("uint8_t[16]"),
}
local TEXTS = {
   "10.0.0.1", "10.0.0.0/8", "10.0.0.0/0", "255.255.255.255/32", "10.0.0.0/33", "1.2.3", "2001:db8::1", "::", "1::2::3", "::ffff:10.0.0.1",
   "02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "02:00", "{a = 1}", "{a = 'x', b = {1, 2}}", "{", "7", "nil", "", "a.x -> b.y", "a.x->b.y", "a -> b",
   "lib.x.y", "0-3,7", "a", "b-2", "app/1:2", "ä", " ",
}
local SCHEMAS = {
   {}, {a = {}}, {a = {required = true}}, {a = {default = 5}, b = {}}, {a = {default = "x"}, b = {required = true}},
}

-- Sizes of tables: none that there is memory for on some machines alone.
local SIZES = {0, 1, 2, 7, 1000, -1, 0.5, 1e300, 0 / 0, 1 / 0, -1 / 0, 2 ^ 53, true, "x", {}}

-- Panics in the target, where a promise is broken.
local function broken (what, ...)
   error("BROKEN: "..what..(" %s"):rep(select("#", ...)):format(...), 0)
end

return function (program)
   local at = 0
   local function byte ()
      at = at + 1
      return program:byte(at) or 0
   end
   local function pick (list) return list[byte() % #list + 1] end
   local function bytes (most)
      local n = byte() % (most + 1)
      local text = program:sub(at + 1, at + n)
      at = at + n
      return text
   end
   local function value () return ODD[byte() % (#ODD + 1) + 1] end
   local function text () if byte() < 60 then return bytes(30) end return pick(TEXTS) end

   local function try (f, ...)
      local ok, why = pcall(f, ...)
      if ok then return why end
      why = tostring(why)
      if why == "" or why:find("^BROKEN") then error(why, 0) end
   end

   -- JSON that is read is written, and read as the same.
   local function json_text ()
      local decoded
      if byte() < 128 then
         decoded = try(json.decode, bytes(200))
      else
         local pieces = {"{", "}", "[", "]", "\"a\"", ":", ",", "1", "-0.5e3", "null", "true", "\"\\ud800\\u0041\"", " ", "1e999"}
         local all = {}
         for i = 1, byte() % 24 do all[i] = pick(pieces) end
         decoded = try(json.decode, table.concat(all))
      end
      if decoded == nil then return end
      local encoded = try(json.encode, decoded)
      if encoded == nil then return end
      local ok, again = pcall(json.decode, encoded)
      if not ok then broken("what is written is not read:", encoded, again) end
      local twice = json.encode(again)
      if #twice ~= #encoded then broken("it is another text:", encoded, twice) end
   end
   local function json_value () try(json.encode, value()) end

   -- A description of a graph: names and links that are taken are printed and read again as the same.
   local graph = config.new()
   local function app ()
      local class = byte() < 200 and {config = pick(SCHEMAS), new = function () end} or value()
      try(config.app, graph, byte() < 200 and pick(TEXTS) or value(), class, byte() < 128 and text() or value(),
          byte() < 60 and {worker = value()} or nil)
   end
   local function link ()
      local spec = text()..pick{"", ".out -> ", " -> "}..text()..pick{"", ".in"}
      try(config.link, graph, byte() < 230 and spec or value())
   end
   local function whole ()
      local copy = config.copy(graph)
      for spec in pairs(copy.links) do
         local again = config.canonical_link(spec)
         if again ~= spec then broken("a link that is another when it is read again:", spec, again) end
      end
      try(config.graphviz, copy)
   end
   local function schema ()
      try(config.parse_app_arg, byte() < 128 and pick(TEXTS) or value(), byte() < 200 and pick(SCHEMAS) or value())
   end
   local function parse () try(lib.parse, byte() < 128 and {a = value(), b = value()} or value(), pick(SCHEMAS)) end

   -- A table of a type of C, and what has to be in it.
   local hash, has, count
   local function start_hash ()
      hash = ctable.new{key_type = ffi.typeof("uint32_t"), value_type = ffi.typeof("int32_t[2]"), initial_size = 8}
      has, count = {}, 0
   end
   local key, entry = ffi.new("uint32_t[1]"), ffi.new("int32_t[2]")
   local function set ()
      if not hash then start_hash() end
      local n = byte() % 64
      entry[0], entry[1] = byte(), n
      local ok = pcall(hash.add, hash, n, entry, true)
      if not ok then broken("an entry is not taken:", n) end
      if has[n] == nil then count = count + 1 end
      has[n] = entry[0]
   end
   local function remove ()
      if not hash then start_hash() end
      local n = byte() % 64
      hash:remove(n, true)
      if has[n] ~= nil then count = count - 1 end
      has[n] = nil
   end
   local function look ()
      if not hash then return end
      local seen = 0
      for found in hash:iterate() do
         seen = seen + 1
         if has[found.key] ~= found.value[0] then broken("another value is found:", found.key) end
      end
      if seen ~= count then broken("entries:", seen, count) end
      for n = 0, 63 do
         if (hash:lookup_ptr(n) ~= nil) ~= (has[n] ~= nil) then broken("an entry is lost or left:", n) end
      end
      hash:selfcheck()
   end
   local function resize () if hash then try(hash.resize, hash, byte() < 128 and byte() or pick(SIZES)) end end
   local function odd_hash ()
      local parameters = {key_type = ffi.typeof("uint32_t"), value_type = value(), initial_size = pick(SIZES)}
      try(ctable.new, byte() < 128 and parameters or value())
   end

   -- Prefixes of IPv4.
   local prefixes = trie.LPM4_trie:new()
   local function add () try(prefixes.add_string, prefixes, text(), byte() % 100 + 1) end
   local function drop () try(prefixes.remove_string, prefixes, text()) end
   local function search () try(prefixes.search_string, prefixes, text()) end
   local function odd_search () try(prefixes.search_string, prefixes, value()) end

   -- A header over bytes, and each of its fields. A header does not hold its bytes.
   local held
   local function header ()
      local class, content = pick(HEADERS), bytes(80)
      local memory = ffi.new("uint8_t[?]", math.max(#content, 1), content:byte(1, -1))
      held = memory
      local made = try(class.new_from_mem, class, memory, #content)
      if made == nil then return end
      if made:sizeof() > #content then broken("a header of more bytes than there are:", made:sizeof(), #content) end
      try(made.eq, made, made)
      try(made.clone, made)
      try(made.upper_layer, made)
      for _, name in ipairs{"src", "dst", "type", "id", "pcp", "vid", "oper", "version", "ihl", "total_length", "ttl", "protocol", "flags", "frag_off",
                            "checksum_ok", "hop_limit", "next_header", "payload_length", "src_port", "dst_port", "length", "key", "spi", "seq_no"} do
         local field = made[name]
         if type(field) == "function" then
            try(field, made)
            if byte() < 30 then try(field, made, value()) end
         end
      end
   end
   local function odd_header () local class = pick(HEADERS) try(class.new, class, value()) end
   local function address ()
      local given = text()
      for _, family in ipairs{ethernet, ipv4, ipv6} do
         local address = try(family.pton, family, given)
         if type(address) == "cdata" then
            local shown = family:ntop(address)
            local again = family:pton(shown)
            if type(again) ~= "cdata" or family:ntop(again) ~= shown then broken("an address is printed as another:", given, shown) end
         end
      end
      try(ipv4.pton_cidr, ipv4, given)
      try(mac_address.new, mac_address, byte() < 200 and given or value())
   end

   -- The rest of core.lib that neither waits nor starts anything.
   local function helpers ()
      local name = pick{"split", "yesno", "tointeger", "comma_value", "hexundump", "hexdump", "htonl", "ntohs", "bits", "bitset", "align",
                        "random_bytes_from_math_random", "equal", "array_copy", "lines"}
      if type(lib[name]) == "function" and name ~= "random_bytes_from_math_random" then
         try(lib[name], byte() < 128 and text() or value(), byte() < 128 and text() or value())
      end
   end
   local function keys () try(cltable.build, {key_type = value()}, value()) end

   local deeds = {
      json_text, json_text, json_value, app, app, link, link, whole, schema, parse, set, set, set, set, remove, remove, look, resize, odd_hash, add, add,
      drop, search, odd_search, header, header, header, odd_header, address, address, helpers, keys,
   }
   for _ = 1, 120 do
      if at >= #program then break end
      pick(deeds)()
   end
   whole()
   look()
end
