-- SPDX-License-Identifier: MIT
-- lib.json: reads and writes JSON (RFC 8259).
--
-- What differs from Snabb, which has JSON4Lua: what is read must be JSON, with the exception of comments /* */ and
-- strings in single quotes, which that takes, too; \u escapes of pairs of surrogates are one character; objects are
-- written with their keys in order; what JSON has no form for is an error.
local M = {}

--- The value that stands for null in tables; `decode` gives nil for null.
function M.null() return M.null end

local ESCAPES = {
   ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"
}

local function encode_string(s)
   return '"'..s:gsub('[%c"\\\127]', function (c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end)..'"'
end

local function encode_number(n)
   if n ~= n or n == math.huge or n == -math.huge then error("json: cannot encode "..tostring(n)) end
   local short = ("%.14g"):format(n)
   return tonumber(short) == n and short or ("%.17g"):format(n)
end

-- The length of the array `t`; nil if it is none.
local function array_length(t)
   local count, last = 0, 0
   for key in pairs(t) do
      if type(key) ~= "number" or key < 1 or key % 1 ~= 0 then return nil end
      count, last = count + 1, math.max(last, key)
   end
   -- Mostly holes: not an array.
   if last > 2 * count + 8 then return nil end
   return last
end

local encode_value

local function encode_table(t, open)
   if open[t] then error("json: cannot encode a table that contains itself") end
   open[t] = true
   local parts, length = {}, array_length(t)
   if length then
      for i = 1, length do parts[i] = encode_value(t[i], open) end
   else
      local keys = {}
      for key in pairs(t) do keys[#keys + 1] = key end
      table.sort(keys, function (a, b) return tostring(a) < tostring(b) end)
      for _, key in ipairs(keys) do
         parts[#parts + 1] = encode_string(tostring(key))..":"..encode_value(t[key], open)
      end
   end
   open[t] = nil
   local text = table.concat(parts, ",")
   return length and "["..text.."]" or "{"..text.."}"
end

function encode_value(value, open)
   local kind = type(value)
   if value == nil or value == M.null then return "null" end
   if kind == "string" then return encode_string(value) end
   if kind == "number" then return encode_number(value) end
   if kind == "boolean" then return tostring(value) end
   if kind == "table" then return encode_table(value, open) end
   error("json: cannot encode a "..kind)
end

--- The JSON of `value`: nil, a boolean, number, string, or a table of these, which is an array if its keys are 1, 2, 3
-- and so on (an empty one, too), else an object. `json.null` is null. Errors: "json: cannot encode".
function M.encode(value)
   return encode_value(value, {})
end

local function fail(s, position, message)
   local line = select(2, s:sub(1, position - 1):gsub("\n", "\n")) + 1
   error(("json: line %d, character %d: %s"):format(line, position, message), 0)
end

-- The position of the next character that is neither space nor part of a comment.
local function skip(s, position)
   while true do
      position = s:find("[^ \t\r\n]", position) or #s + 1
      if s:sub(position, position + 1) ~= "/*" then return position end
      local _, last = s:find("*/", position + 2, true)
      if not last then fail(s, position, "unterminated comment") end
      position = last + 1
   end
end

local function utf8(code)
   if code < 0x80 then return string.char(code) end
   local bytes, first = {}, 0x40
   while code >= first do
      table.insert(bytes, 1, string.char(0x80 + code % 64))
      code, first = math.floor(code / 64), first / 2
   end
   -- 0xc0, 0xe0, 0xf0: as many ones as there are bytes.
   return string.char(256 - 2 * first + code)..table.concat(bytes)
end

local UNESCAPES = {
   b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["'"] = "'", ["\\"] = "\\", ["/"] = "/"
}

-- The character of the escape at `position`, which is that of the letter u; and the position of the escape's last
-- character.
local function decode_unicode(s, position)
   local high = tonumber(s:match("^u(%x%x%x%x)", position) or "", 16)
   if not high then fail(s, position, "expected four hexadecimal digits after \\u") end
   local low = tonumber(s:match("^\\u(%x%x%x%x)", position + 5) or "", 16)
   if high >= 0xd800 and high < 0xdc00 and low and low >= 0xdc00 and low < 0xe000 then
      return utf8(0x10000 + (high - 0xd800) * 0x400 + low - 0xdc00), position + 10
   end
   return utf8(high), position + 4
end

local function decode_string(s, position)
   local quote, parts, from = s:sub(position, position), {}, position + 1
   while true do
      local at = s:find("["..quote.."\\%c]", from)
      local c = at and s:sub(at, at)
      if c == nil then fail(s, position, "unterminated string") end
      parts[#parts + 1] = s:sub(from, at - 1)
      if c == quote then return table.concat(parts), at + 1 end
      if c ~= "\\" and c ~= "\127" then fail(s, at, "control character in a string") end
      local escape = s:sub(at + 1, at + 1)
      if c == "\127" then
         parts[#parts + 1], from = c, at + 1
      elseif escape == "u" then
         local last
         parts[#parts + 1], last = decode_unicode(s, at + 1)
         from = last + 1
      elseif UNESCAPES[escape] then
         parts[#parts + 1], from = UNESCAPES[escape], at + 2
      else
         fail(s, at, "unknown escape \\"..escape)
      end
   end
end

local decode_value

local function decode_array(s, position, depth)
   local array, count = {}, 0
   position = skip(s, position + 1)
   if s:sub(position, position) == "]" then return array, position + 1 end
   while true do
      count = count + 1
      array[count], position = decode_value(s, position, depth)
      position = skip(s, position)
      local c = s:sub(position, position)
      if c == "]" then return array, position + 1 end
      if c ~= "," then fail(s, position, "expected , or ]") end
      position = position + 1
   end
end

local function decode_object(s, position, depth)
   local object = {}
   position = skip(s, position + 1)
   if s:sub(position, position) == "}" then return object, position + 1 end
   while true do
      position = skip(s, position)
      if not s:find("^[\"']", position) then fail(s, position, "expected a string as key") end
      local key
      key, position = decode_string(s, position)
      position = skip(s, position)
      if s:sub(position, position) ~= ":" then fail(s, position, "expected :") end
      object[key], position = decode_value(s, position + 1, depth)
      position = skip(s, position)
      local c = s:sub(position, position)
      if c == "}" then return object, position + 1 end
      if c ~= "," then fail(s, position, "expected , or }") end
      position = position + 1
   end
end

local CONSTANTS = {{"true", true}, {"false", false}, {"null", nil}}
local MAX_DEPTH = 150

function decode_value(s, position, depth)
   position = skip(s, position)
   local c = s:sub(position, position)
   if depth >= MAX_DEPTH then fail(s, position, "nested too deeply") end
   if c == "{" then return decode_object(s, position, depth + 1) end
   if c == "[" then return decode_array(s, position, depth + 1) end
   if c == '"' or c == "'" then return decode_string(s, position) end
   local digits = s:match("^%-?%d+%.?%d*[eE]?[+-]?%d*", position)
   if digits and tonumber(digits) then return tonumber(digits), position + #digits end
   for _, constant in ipairs(CONSTANTS) do
      if s:sub(position, position + #constant[1] - 1) == constant[1] then
         return constant[2], position + #constant[1]
      end
   end
   if position > #s then fail(s, position, "unexpected end") end
   fail(s, position, "expected a value")
end

--- The value that the string `s` holds in JSON from the position `start` (default 1) on, and the position after it.
-- null is nil.
-- Errors: "json: line L, character C: " and what was expected.
function M.decode(s, start)
   return decode_value(s, start or 1, 0)
end

function M.selftest()
   local lib = require("core.lib")
   local value = {
      name = "a\"b\\c\n\1", list = {1, 2.5, -3e100, true, false, {}}, nested = {x = {y = "z"}}, big = 2^53, f = 0.1
   }
   local text = M.encode(value)
   assert(text == '{"big":9007199254740992,"f":0.1,"list":[1,2.5,-3e+100,true,false,[]],'
      ..'"name":"a\\"b\\\\c\\n\\u0001","nested":{"x":{"y":"z"}}}', text)
   assert(lib.equal(M.decode(text), value))
   assert(M.encode({M.null, 1}) == "[null,1]" and M.encode(nil) == "null")
   assert(M.encode({[1] = 1, [3] = 3}) == "[1,null,3]")
   assert(M.encode({[1000000] = 1}) == '{"1000000":1}')
   local source = ' /* c */ [1, "\\u00e9\\ud83d\\ude00\\u20ac", null, {"a" : \'b\'}] rest'
   local decoded, after = M.decode(source)
   assert(decoded[2] == "\195\169\240\159\152\128\226\130\172" and decoded[3] == nil and decoded[4].a == "b")
   assert(source:sub(after) == " rest")
   assert(M.decode("xx 7", 3) == 7 and M.decode("-0.5e1") == -5)
   for bad, wanted in pairs {
      [""] = "unexpected end", ["[1"] = "expected , or ]", ["{1:2}"] = "expected a string", ['{"a" 1}'] = "expected :",
      ['{"a":1'] = "expected , or }", ['"abc'] = "unterminated string", ["nul"] = "expected a value",
      ['"\\x"'] = "unknown escape", ['"\\u12"'] = "four hexadecimal", ["/* "] = "unterminated comment",
      ["[1,]"] = "expected a value",
      ['"a\nb"'] = "control character", ["\n\n?"] = "line 3", [("["):rep(1000)] = "nested too deeply"
   } do
      local ok, message = pcall(M.decode, bad)
      assert(not ok and message:find(wanted, 1, true), bad..": "..tostring(message))
   end
   local loop = {}
   loop[1] = loop
   for _, bad in ipairs {loop, print, 0 / 0, {1 / 0}} do assert(not pcall(M.encode, bad)) end
end

return M
