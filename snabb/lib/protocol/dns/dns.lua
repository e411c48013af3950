-- SPDX-License-Identifier: MIT
-- lib.protocol.dns.dns: questions and resource records of DNS messages (RFC 1035; SRV: RFC 2782).
--
-- Records are objects that hold copies of what they were parsed from. Names are strings with dots.
--
-- What differs from Snabb: compressed names (RFC 1035, section 4.1.4) are followed if the parser knows where the
-- message begins; otherwise a pointer to the offset N reads "@N". Records of types other than A, PTR, SRV and TXT are
-- parsed as records with `data()`, where Snabb stops. Damaged records give nil and 0 or an error, never a read beyond
-- the end.
local ffi = require("ffi")
local bit = require("bit")
local lib = require("core.lib")
require("lib.lua.class")

local M = {A = 1, PTR = 12, TXT = 16, SRV = 33, CLASS_IN = 1}

local u8_p = ffi.typeof("const uint8_t *")
local MAX_LABEL, MAX_NAME, MAX_POINTERS = 63, 255, 32

local function get16(p, offset) return p[offset] * 256 + p[offset + 1] end
local function get32(p, offset) return get16(p, offset) * 65536 + get16(p, offset + 2) end
local function put16(n) return string.char(bit.band(bit.rshift(n, 8), 255), bit.band(n, 255)) end
local function put32(n) return put16(math.floor(n / 65536))..put16(n % 65536) end

--- The bytes, a string, that stand for the name `name` ("_tcp.local") in messages. Errors: if a label or the name is
-- too long or a label is empty.
function M.encode_name(name)
   local parts = {}
   if name ~= "" then
      for label in lib.split(name, "%.") do
         if #label < 1 or #label > MAX_LABEL then error("dns: labels have 1 to 63 bytes: '"..name.."'") end
         parts[#parts + 1] = string.char(#label)..label
      end
   end
   local bytes = table.concat(parts).."\0"
   if #bytes > MAX_NAME then error("dns: the name is longer than 255 bytes: '"..name.."'") end
   return bytes
end

--- The name at the pointer `data`, of which `size` bytes may be read, and the number of bytes that it takes there. nil
-- if it is damaged. `message` (`message_size` bytes): the message's begin, which compressed names refer to.
function M.decode_name(data, size, message, message_size)
   local labels, position, taken, pointers = {}, 0, nil, 0
   local length = 0
   while true do
      if position >= size then return nil end
      local byte = data[position]
      if byte == 0 then
         return table.concat(labels, "."), taken or position + 1
      elseif byte >= 0xc0 then
         if position + 1 >= size then return nil end
         local offset = get16(data, position) - 0xc000
         taken = taken or position + 2
         if not message then
            labels[#labels + 1] = "@"..offset
            return table.concat(labels, "."), taken
         end
         pointers = pointers + 1
         if pointers > MAX_POINTERS or offset >= message_size then return nil end
         data, size, position = message, message_size, offset
      elseif byte > MAX_LABEL or position + 1 + byte > size then
         return nil
      else
         length = length + 1 + byte
         if length > MAX_NAME then return nil end
         labels[#labels + 1] = ffi.string(data + position + 1, byte)
         position = position + 1 + byte
      end
   end
end

-- What questions and records have in common.
local Entry = subClass(nil)
Entry._name = "dns entry"

--- The name that it is about; with `value`, sets it first.
function Entry:name(value)
   if value ~= nil then self._owner = value end
   return self._owner
end

--- The type, such as dns.PTR; with `value`, sets it first.
function Entry:type(value)
   if value ~= nil then self._type = value end
   return self._type
end

--- The class, such as dns.CLASS_IN, with mDNS' top bit; with `value`, sets it first.
function Entry:klass(value)
   if value ~= nil then self._class = value end
   return self._class
end

--- The number of bytes that `encode` gives.
function Entry:sizeof()
   return #self:encode()
end

local Query = subClass(Entry)
Query._name = "query_record"
M.query_record = Query

--- A new question from the table `config`: name, type, class (default CLASS_IN).
function Query:new(config)
   local o = Query:superClass().new(self)
   o._owner, o._type, o._class = config.name or "", config.type or 0, config.class or M.CLASS_IN
   return o
end

--- The question at the pointer `data`, of which `size` bytes may be read, and its length in bytes; nil and 0 if it is
-- damaged.
-- `message`, `message_size`: as for decode_name.
function Query:new_from_mem(data, size, message, message_size)
   data = ffi.cast(u8_p, data)
   local name, length = M.decode_name(data, size, message, message_size)
   if not name or length + 4 > size then return nil, 0 end
   return Query:new({name = name, type = get16(data, length), class = get16(data, length + 2)}), length + 4
end

--- The question as a string of bytes.
function Query:encode()
   return M.encode_name(self._owner)..put16(self._type)..put16(self._class)
end

--- The question as a text.
function Query:tostring()
   return ("{name: %s; type: %d}"):format(self._owner, self._type)
end

local Record = subClass(Entry)
Record._name = "dns_record"
M.dns_record = Record

--- A new record from the table `config`: name, type, class (default CLASS_IN), ttl (seconds, default 0), data (a
-- string of bytes).
function Record:new(config)
   local o = Record:superClass().new(self)
   o._owner, o._type, o._class = config.name or "", config.type or o._default_type or 0, config.class or M.CLASS_IN
   o._ttl, o._data = config.ttl or 0, config.data or ""
   return o
end

--- The time in seconds that the record may be kept; with `value`, sets it first.
function Record:ttl(value)
   if value ~= nil then self._ttl = value end
   return self._ttl
end

--- The record's data, a string of bytes; with `value`, sets it first.
function Record:data(value)
   if value ~= nil then self._data = value end
   return self._data
end

--- The number of bytes of the record's data.
function Record:data_length()
   return #self._data
end

--- The record as a string of bytes.
function Record:encode()
   local fields = put16(self._type)..put16(self._class)..put32(self._ttl)..put16(#self._data)
   return M.encode_name(self._owner)..fields..self._data
end

--- The record as a text.
function Record:tostring()
   return ("{name: %s; type: %d; data: %s}"):format(self._owner, self._type, lib.hexdump(self._data))
end

-- Classes by type. `_parse(data, size, message, message_size)` fills in the object from the data; false if they are
-- damaged.
local classes = {}

local function record_class(name, type)
   local class = subClass(Record)
   class._name, class._default_type = name, type
   classes[type], M[name] = class, class
   return class
end

--- The record at the pointer `data`, of which `size` bytes may be read, and its length in bytes; nil and 0 if it is
-- damaged. `message`,
-- `message_size`: as for decode_name.
function Record:new_from_mem(data, size, message, message_size)
   data = ffi.cast(u8_p, data)
   local name, length = M.decode_name(data, size, message, message_size)
   if not name or length + 10 > size then return nil, 0 end
   local data_length = get16(data, length + 8)
   local total = length + 10 + data_length
   if total > size then return nil, 0 end
   local type = get16(data, length)
   local class = classes[type] or Record
   local bytes = data + length + 10
   local o = Record.new(class, {
      name = name, type = type, class = get16(data, length + 2), ttl = get32(data, length + 4),
      data = ffi.string(bytes, data_length)
   })
   if o._parse and o:_parse(bytes, data_length, message, message_size) == false then return nil, 0 end
   return o, total
end

local Address = record_class("a_record", M.A)

--- A new A record from the table `config`: as for dns_record, and address ("192.0.2.1").
function Address:new(config)
   local o = Record.new(self, config)
   if config.address then o:address(config.address) end
   return o
end

function Address:_parse(_, size)
   return size == 4
end

--- The address as a string; with `value`, sets it first. Errors: "malformed IPv4 address".
function Address:address(value)
   local ipv4 = require("lib.protocol.ipv4")
   if value ~= nil then
      local address, message = ipv4:pton(value)
      if not address then error(message) end
      self._data = ffi.string(address, 4)
   end
   return ipv4:ntop(ffi.cast("const char *", self._data))
end

--- The record as a text.
function Address:tostring()
   if self._owner == "" then return ("{address: %s}"):format(self:address()) end
   return ("{name: %s; address: %s}"):format(self._owner, self:address())
end

local Pointer = record_class("ptr_record", M.PTR)

--- A new PTR record from the table `config`: as for dns_record, and domain_name.
function Pointer:new(config)
   local o = Record.new(self, config)
   o:domain_name(config.domain_name or "")
   return o
end

function Pointer:_parse(data, size, message, message_size)
   self._domain_name = M.decode_name(data, size, message, message_size)
   return self._domain_name ~= nil
end

--- The name that the record points to; with `value`, sets it first.
function Pointer:domain_name(value)
   if value ~= nil then
      self._domain_name = value
      self._data = M.encode_name(value)
   end
   return self._domain_name
end

--- The record as a text.
function Pointer:tostring()
   if self._owner == "" then return ("{domain_name: %s}"):format(self._domain_name) end
   return ("{name: %s; domain_name: %s}"):format(self._owner, self._domain_name)
end

local Service = record_class("srv_record", M.SRV)

-- Makes the data from the fields.
local function encode_service(o)
   o._data = put16(o._priority)..put16(o._weight)..put16(o._port)..M.encode_name(o._target)
end

--- A new SRV record from the table `config`: as for dns_record, and priority, weight, port (default 0), target (a
-- name).
function Service:new(config)
   local o = Record.new(self, config)
   o._priority, o._weight, o._port = config.priority or 0, config.weight or 0, config.port or 0
   o._target = config.target or ""
   encode_service(o)
   return o
end

function Service:_parse(data, size, message, message_size)
   if size < 7 then return false end
   self._priority, self._weight, self._port = get16(data, 0), get16(data, 2), get16(data, 4)
   self._target = M.decode_name(data + 6, size - 6, message, message_size)
   return self._target ~= nil
end

local function service_field(o, field, value)
   if value ~= nil then
      o[field] = value
      encode_service(o)
   end
   return o[field]
end

--- The priority; with `value`, sets it first.
function Service:priority(value) return service_field(self, "_priority", value) end

--- The weight; with `value`, sets it first.
function Service:weight(value) return service_field(self, "_weight", value) end

--- The port; with `value`, sets it first.
function Service:port(value) return service_field(self, "_port", value) end

--- The name of the host; with `value`, sets it first.
function Service:target(value) return service_field(self, "_target", value) end

--- The record as a text.
function Service:tostring()
   return ("{target: %s; port: %d}"):format(self._target, self._port)
end

local Text = record_class("txt_record", M.TXT)

--- A new TXT record from the table `config`: as for dns_record, and chunks (a string or an array of some, of at most
-- 255 bytes each).
function Text:new(config)
   local o = Record.new(self, config)
   o:chunks(config.chunks or {})
   return o
end

function Text:_parse(data, size)
   self._chunks = {}
   local position = 0
   while position < size do
      local length = data[position]
      if position + 1 + length > size then return false end
      table.insert(self._chunks, ffi.string(data + position + 1, length))
      position = position + 1 + length
   end
end

--- The array of strings; with `value` (a string or an array of some), sets it first.
function Text:chunks(value)
   if value ~= nil then
      if type(value) == "string" then value = {value} end
      local parts = {}
      for i, chunk in ipairs(value) do
         if #chunk > 255 then error("dns: a text of more than 255 bytes") end
         parts[i] = string.char(#chunk)..chunk
      end
      self._chunks, self._data = value, table.concat(parts)
   end
   return self._chunks
end

--- The record as a text.
function Text:tostring()
   return ("{%s}"):format(table.concat(self._chunks, ";"))
end

M.DNS = {}

--- The record at the pointer `data`, of which `size` bytes may be read, and its length in bytes; nil and 0 if it is
-- damaged.
-- `message`, `message_size`: as for decode_name.
function M.DNS.parse_record(data, size, message, message_size)
   return Record:new_from_mem(data, size, message, message_size)
end

--- An array of up to `n` (default 1) records, which follow each other from the pointer `data` on, and their length in
-- bytes. It ends at the first damaged one. Arguments: as for parse_record.
function M.DNS.parse_records(data, size, n, message, message_size)
   local records, position = {}, 0
   data = ffi.cast(u8_p, data)
   for _ = 1, n or 1 do
      local record, length = Record:new_from_mem(data + position, size - position, message, message_size)
      if not record then break end
      records[#records + 1] = record
      position = position + length
   end
   return records, position
end

function M.selftest()
   require("lib.protocol.dns.selftest").run(M)
end

return M
