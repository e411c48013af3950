-- SPDX-License-Identifier: MIT
-- Values on their way from one VM to another: numbers, strings, booleans, 64-bit integers, tables of them, and objects that all tasks
-- know (devices, queues, rings, pipes, and whatever a class says how to carry). What cannot be carried is named by its path.
local ffi = require "ffi"
local buffer = require "string.buffer"
local throw = require("perigee.native").throw

local values = {}

local MAX_DEPTH = 90 -- of nested tables; the encoder's own limit is 100
local OBJECT = "\0object" -- key under which a carried object's class stands

-- By metatable (or ctype): {name, pack(object) -> plain value}; by name: unpack(plain value) -> object.
local by_metatable, by_ctype, by_name = {}, {}, {}

-- A class whose objects may be carried: `pack` makes a plain value of an object, `unpack` an object of that, in another VM.
function values.class(name, metatable, pack, unpack)
  by_metatable[metatable] = { name = name, pack = pack }
  by_name[name] = unpack
end

-- Pointers to objects of the host, the same for all tasks.
function values.pointer_class(name)
  local ctype = ffi.typeof(name .. " *")
  by_ctype[tonumber(ctype)] = {
    name = name,
    pack = function(pointer) return ffi.cast("uint64_t", ffi.cast("uintptr_t", pointer)) end,
  }
  by_name[name] = function(address) return ffi.cast(ctype, ffi.cast("uintptr_t", address)) end
end

-- May the encoder have the value as it is?
local function plain(value, depth)
  local kind = type(value)
  if kind == "table" then
    if depth > MAX_DEPTH or getmetatable(value) ~= nil then return false end
    for key, entry in pairs(value) do
      if type(key) == "table" or not plain(key, depth) or not plain(entry, depth + 1) then return false end
    end
    return true
  end
  return kind == "number" or kind == "string" or kind == "boolean" or kind == "nil"
end

local function step(path, key)
  if type(key) == "string" and key:match("^[%a_][%w_]*$") then return path .. "." .. key end
  return ("%s[%s]"):format(path, type(key) == "string" and ("%q"):format(key) or tostring(key))
end

local carry

local function carry_table(value, path, open)
  if open[value] then
    throw(("%s is %s again: a table that contains itself cannot be sent; send what the other task needs of it"):format(path, open[value]))
  end
  open[value] = path
  local copy = {}
  for key, entry in pairs(value) do
    if type(key) == "table" or type(key) == "cdata" then
      throw(("%s has a %s as a key: keys that can be sent are strings, numbers and booleans"):format(path, type(key)))
    end
    copy[key] = carry(entry, step(path, key), open)
  end
  open[value] = nil
  return copy
end

-- A plain copy of a value, or an error that names what cannot be sent.
carry = function(value, path, open)
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" or kind == "nil" then return value end
  if kind == "table" then
    local class = by_metatable[getmetatable(value)]
    if not class then return carry_table(value, path, open) end
    return { [OBJECT] = class.name, carry(class.pack(value), path, open) }
  end
  if kind == "cdata" then
    local id = tonumber(ffi.typeof(value))
    if ffi.istype("int64_t", value) or ffi.istype("uint64_t", value) then return value end
    local class = by_ctype[id]
    if class then return { [OBJECT] = class.name, class.pack(value) } end
  end
  throw(("%s is a %s, which cannot be sent: values are numbers, strings, booleans, tables of them, devices, queues, rings and pipes")
    :format(path, kind == "cdata" and tostring(ffi.typeof(value)) or kind))
end

-- The modules of classes that a task may not have loaded yet, where these have other names.
local module_of = {
  histogram = "perigee.histogram", ["libmoon.txQueue"] = "libmoon.device", ["libmoon.rxQueue"] = "libmoon.device",
  ["libmoon.limiter"] = "libmoon.software-ratecontrol", ["libmoon.packetRing"] = "libmoon.pipe",
  ["libmoon.slowPipe"] = "libmoon.pipe", ["libmoon.fastPipe"] = "libmoon.pipe",
}

local function revive(value)
  if type(value) ~= "table" then return value end
  local name = value[OBJECT]
  for key, entry in pairs(value) do
    if type(entry) == "table" then value[key] = revive(entry) end
  end
  if not name then return value end
  if not by_name[name] then require(module_of[name] or name) end
  return by_name[name](value[1])
end

-- The two kinds of message: as the encoder made it, or with objects to revive.
local PLAIN, CARRIED = 80, 67

local out = buffer.new()

-- Encodes a value into a buffer, which is good until the next call: its bytes and their number.
function values.encode(value, path)
  out:reset()
  if plain(value, 1) then
    out:putf("P"):encode(value)
  else
    local copy = carry(value, path or "the value", {})
    out:putf("C"):encode(copy)
  end
  return out:ref()
end

function values.decode(bytes, length)
  local kind = bytes[0]
  local value = buffer.new():set(bytes + 1, length - 1):decode()
  if kind == CARRIED then return revive(value) end
  assert(kind == PLAIN, "a message of an unknown kind")
  return value
end

-- Any number of values as a string, and back.
function values.encode_all(path, ...)
  local all = { n = select("#", ...), ... }
  local bytes, length = values.encode(all, path)
  return ffi.string(bytes, length)
end

function values.decode_all(text)
  local all = values.decode(ffi.cast("const uint8_t *", text), #text)
  return unpack(all, 1, all.n)
end

return values
