-- SPDX-License-Identifier: MIT
-- What programs of libmoon find among the globals: texts, byte order, time, addresses, tables.
local ffi = require "ffi"
local bit = require "bit"
local native = require "perigee.native"
local colors = require "libmoon.colors"
local band, bor, rshift, lshift, arshift, tobit = bit.band, bit.bor, bit.rshift, bit.lshift, bit.arshift, bit.tobit

ffi.cdef [[
struct libmoon_timeval { long tv_sec, tv_usec; };
int gettimeofday(struct libmoon_timeval *, void *);
]]

-- Texts ---------------------------------------------------------------------------------------------------------------------

function printf(text, ...) print(text:format(...)) end
function errorf(text, ...) error(text:format(...), 2) end
function trim(text) return (text:gsub("^%s+", ""):gsub("%s+$", "")) end

function mapVarArg(f, ...)
  local all = { ... }
  for i = 1, select("#", ...) do all[i] = f(all[i]) end
  return unpack(all, 1, select("#", ...))
end
function map(list, f)
  for key, value in pairs(list) do list[key] = f(value) end
  return list
end
function tostringall(...) return mapVarArg(tostring, ...) end
function tonumberall(...) return mapVarArg(tonumber, ...) end

-- One line of values between commas; those with commas or quotes are quoted.
function toCsv(...)
  local cells = { tostringall(...) }
  for i, cell in ipairs(cells) do
    if cell:find '[,"\n]' then cells[i] = '"' .. cell:gsub('"', '""') .. '"' end
  end
  return table.concat(cells, ",")
end
function printCsv(...) print(toCsv(...)) end

function strSplit(text, pattern)
  local parts, at = {}, 1
  while true do
    local first, last = text:find(pattern, at)
    if not first then break end
    -- It would match there for ever.
    if last < first then
      error(("the pattern %q matches between characters, expected one that matches some"):format(pattern), 2)
    end
    table.insert(parts, text:sub(at, first - 1))
    at = last + 1
  end
  table.insert(parts, text:sub(at))
  return parts
end

-- Bytes as hexadecimal digits, 16 a line; `separators` are the offsets where another colour starts.
function dumpHex(data, bytes, stream, separators, wireshark)
  data, stream = ffi.cast("const uint8_t *", data), stream or io.stdout
  local color, nth = separators and getColorCode(1) or "", 1
  for start = 0, bytes - 1, 16 do
    local line = { (wireshark and "  %06x   " or "  0x%04x:   "):format(start), color }
    for i = start, math.min(start + 15, bytes - 1) do
      if separators and separators[nth] == i then
        nth = nth + 1
        color = getColorCode(nth)
        table.insert(line, color)
      end
      table.insert(line, (wireshark and "%02x " or i % 2 == 1 and "%02x " or "%02x"):format(data[i]))
    end
    stream:write(table.concat(line), separators and getColorCode() or "", "\n")
  end
  stream:write("\n")
end

-- Byte order and numbers ----------------------------------------------------------------------------------------------------

function bswap16(n) return bor(rshift(n, 8), lshift(band(n, 0xff), 8)) end
hton16, ntoh16 = bswap16, bswap16
bswap = bit.bswap
hton, ntoh = bit.bswap, bit.bswap

-- (value + 1) % limit, without a branch.
function incAndWrap(value, limit) return band(value + 1, arshift(value - limit + 1, 31)) end

-- The one's complement checksum (RFC 1071) of bytes, as a header stores it.
function checksum(data, length)
  local words, sum = ffi.cast("const uint16_t *", data), 0
  for i = 0, rshift(length, 1) - 1 do sum = sum + words[i] end
  if band(length, 1) == 1 then sum = sum + ffi.cast("const uint8_t *", data)[length - 1] end
  sum = band(sum, 0xffff) + rshift(sum, 16)
  sum = sum + rshift(sum, 16)
  return band(bit.bnot(sum), 0xffff)
end

-- Numbers from `first` to `last`, as results.
function range(last, first)
  local all = {}
  for i = first or 1, last do table.insert(all, i) end
  return unpack(all)
end

-- Frame sizes without FCS in the proportion 7 : 4 : 1.
function imixSize()
  local n = math.random(12)
  return n <= 7 and 60 or n <= 11 and 590 or 1514
end

-- Gaps, in bytes of a 10 Gbit/s link: exponentially distributed; those of a rate; those of a time.
function poissonDelay(average) return math.floor(-math.log(1 - math.random()) * average + 0.5) end
function rateToByteDelay(rate, size) return 10 ^ 10 / 8 / (rate * 10 ^ 6) - (size or 60) - 24 end
function timeToByteDelay(time, rate, size) return time * 1.25 * ((rate or 10000) / 10 ^ 4) - (size or 60) - 24 end

-- Time ----------------------------------------------------------------------------------------------------------------------

local timeval = ffi.new "struct libmoon_timeval"
function gettimeofday()
  ffi.C.gettimeofday(timeval, nil)
  return tonumber(timeval.tv_sec), tonumber(timeval.tv_usec)
end
-- Seconds since 1970, with microseconds.
function time()
  local seconds, microseconds = gettimeofday()
  return seconds + microseconds / 10 ^ 6
end
wallTime = time
function getMonotonicTime() return require("perigee.task").now() end
function getTimeMicros()
  local seconds, microseconds = gettimeofday()
  return os.date("%H:%M:%S", seconds) .. (".%06d"):format(microseconds)
end

-- Polls until f(...) returns something true, at most `wait` ms; then it returns that.
function waitForFunc(wait, f, ...)
  local task = require "perigee.task"
  local stop = task.now() + (wait or 0) / 1000
  repeat
    local results = { f(...) }
    if results[1] then return unpack(results) end
    task.sleep(0.001)
  until task.now() >= stop or not task.running()
end

-- Addresses -----------------------------------------------------------------------------------------------------------------

-- As a number, the first byte of a MAC address is the lowest: what the frame's bytes are, read as a little-endian number.
function parseMacAddress(text, number)
  local bytes = { tostring(text):match "^(%x%x?)[-:](%x%x?)[-:](%x%x?)[-:](%x%x?)[-:](%x%x?)[-:](%x%x?)$" }
  if #bytes ~= 6 then return nil end
  if not number then
    local address = ffi.new "union mac_address"
    for i = 1, 6 do address.uint8[i - 1] = tonumber(bytes[i], 16) end
    return address
  end
  local sum = 0
  for i = 6, 1, -1 do sum = sum * 256 + tonumber(bytes[i], 16) end
  return sum
end

-- An IPv4 address as a number (as bit operations make them: above 127.255.255.255 it is negative), or nil.
function parseIP4Address(text)
  local a, b, c, d = tostring(text):match "^(%d+)%.(%d+)%.(%d+)%.(%d+)$"
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  if not d or a > 255 or b > 255 or c > 255 or d > 255 then return nil end
  return tobit(((a * 256 + b) * 256 + c) * 256 + d)
end

-- An IPv6 address in the host's byte order, or nil.
function parseIP6Address(text)
  text = tostring(text)
  local ok, bytes = pcall(native.address, text)
  if not ok or #bytes ~= 16 then return nil end
  local address = ffi.new "union ip6_address"
  for i = 1, 16 do address.uint8[16 - i] = bytes:byte(i) end
  return address
end

-- The address, and whether it is IPv4.
function parseIPAddress(text)
  local address = parseIP4Address(text)
  if address then return address, true end
  return parseIP6Address(text), false
end

function ip4ToString(ip)
  return ("%d.%d.%d.%d"):format(band(rshift(ip, 24), 0xff), band(rshift(ip, 16), 0xff), band(rshift(ip, 8), 0xff), band(ip, 0xff))
end

-- Tables --------------------------------------------------------------------------------------------------------------------

function mergeTables(into, ...)
  into = into or {}
  for _, from in ipairs { ... } do
    for key, value in pairs(from) do into[key] = value end
  end
  return into
end

function concatArrays(...)
  local all = {}
  for _, list in ipairs { ... } do
    for _, value in ipairs(list) do table.insert(all, value) end
  end
  return all
end

function deepCopy(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, entry in pairs(value) do copy[deepCopy(key)] = deepCopy(entry) end
  return setmetatable(copy, getmetatable(value))
end

function unpackAll(list) return unpack(list, 1, table.maxn(list)) end

-- Others --------------------------------------------------------------------------------------------------------------------

function fileExists(path)
  local file = io.open(path, "r")
  if file then file:close() end
  return file ~= nil
end

function strError(number)
  ffi.cdef "char *strerror(int);"
  return ffi.string(ffi.C.strerror(math.abs(number)))
end

function checkDpdkError(result, what)
  if result == 0 then return true end
  require("libmoon.log"):warn("Error %s: %s", what or "", strError(result))
  return false
end

return colors
