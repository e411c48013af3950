-- SPDX-License-Identifier: MIT
-- Command lines, with the interface of the argparse module that libmoon carries: what `configure(parser)` is given.
--
--   parser:argument("dev", "Devices to use."):args("+"):convert(tonumber)
--   parser:option("-r --rate", "Rate in Mbit/s."):default(1000):convert(tonumber)
--   parser:flag("-v --verbose"), parser:mutex(option, option), parser:description(text), parser:epilog(text)
--   local args = parser:parse()
local Element, Parser = {}, {}
Element.__index, Parser.__index = Element, Parser

local function property(class, name)
  class[name] = function(self, value)
    self["_" .. name] = value
    return self
  end
end
for _, name in ipairs { "description", "default", "convert", "count", "target", "argname", "choices", "action", "init", "show_default",
  "defmode", "overwrite", "hidden" } do property(Element, name) end
for _, name in ipairs { "name", "description", "epilog", "usage", "add_help", "require_command", "command_target" } do property(Parser, name) end

-- Several values become one text, with a space between.
function Element:combine()
  self._combine = true
  return self
end

-- "1-2", "2+", "?", "*", "+", 3: how often.
local function bounds(text)
  text = tostring(text)
  if text == "?" then return 0, 1 elseif text == "*" then return 0, math.huge elseif text == "+" then return 1, math.huge end
  local least, most = text:match "^(%d+)%-(%d+)$"
  if least then return tonumber(least), tonumber(most) end
  least = text:match "^(%d+)%+$"
  if least then return tonumber(least), math.huge end
  least = tonumber(text) or error(("how often is %q? Expected a number, 1-2, 1+, ?, * or +"):format(text), 3)
  return least, least
end

function Element:args(how_many)
  self._least, self._most = bounds(how_many)
  return self
end

-- Properties may be given as a table, too: parser:option "-r" { default = 3 }.
function Element:__call(properties)
  if type(properties) == "string" then return self:description(properties) end
  for name, value in pairs(properties) do
    if type(name) == "string" and self[name] then self[name](self, value) end
  end
  return self
end

local function element(names, description, default, convert)
  local self = setmetatable({ names = {}, _description = description, _default = default, _convert = convert, _least = 1, _most = 1 }, Element)
  for name in names:gmatch "%S+" do table.insert(self.names, name) end
  return self
end

local function key(self)
  if self._target then return self._target end
  for _, name in ipairs(self.names) do
    if name:sub(1, 2) == "--" then return (name:sub(3):gsub("%-", "_")) end
  end
  return (self.names[1]:gsub("^%-+", ""):gsub("%-", "_"))
end

function Parser:argument(...)
  local argument = element(...)
  table.insert(self._arguments, argument)
  return argument
end
function Parser:option(...)
  local option = element(...)
  option.is_option = true
  table.insert(self._options, option)
  return option
end
function Parser:flag(...)
  local flag = self:option(...)
  flag._least, flag._most, flag.is_flag = 0, 0, true
  return flag
end

-- At most one of these may be given.
function Parser:mutex(...)
  table.insert(self._mutexes, { ... })
  return self
end
function Parser:group(_, ...) return self end
function Parser:command(...)
  local names, description = ...
  local command = self.make(names:match "%S+", description)
  command.names = {}
  for name in names:gmatch "%S+" do table.insert(command.names, name) end
  table.insert(self._commands, command)
  return command
end

-- The words to read; without them, those of the command line.
function Parser:args(...)
  self._words = { ... }
  return self
end

-- How a value is shown in help.
local function placeholder(self)
  local name = self._argname or (self.is_option and key(self) or self.names[1])
  if type(name) == "table" then name = table.concat(name, "> <") end
  local text = "<" .. name .. ">"
  if self._most == 0 then return "" end
  if self._most == math.huge then text = text .. " ..." elseif self._most > 1 then text = text .. (" " .. text):rep(self._most - 1) end
  return self._least == 0 and "[" .. text .. "]" or text
end

function Parser:get_usage()
  if self._usage then return self._usage end
  local parts = { "Usage: " .. (self._name or "script") }
  for _, option in ipairs(self._options) do
    table.insert(parts, ("[%s]"):format((option.names[1] .. " " .. placeholder(option)):gsub("%s+$", "")))
  end
  for _, argument in ipairs(self._arguments) do table.insert(parts, placeholder(argument)) end
  if #self._commands > 0 then table.insert(parts, "<command> ...") end
  return table.concat(parts, " ")
end

function Parser:get_help()
  local lines = { self:get_usage(), "" }
  if self._description then table.insert(lines, self._description .. "\n") end
  local function section(title, list, show)
    if #list == 0 then return end
    table.insert(lines, title)
    for _, entry in ipairs(list) do
      local default = entry._default ~= nil and not entry.is_flag and (" (default: %s)"):format(tostring(entry._default)) or ""
      table.insert(lines, ("   %-24s %s%s"):format(show(entry), entry._description or "", default))
    end
    table.insert(lines, "")
  end
  section("Arguments:", self._arguments, placeholder)
  section("Options:", self._options, function(option)
    return (table.concat(option.names, ", ") .. " " .. placeholder(option)):gsub("%s+$", "")
  end)
  section("Commands:", self._commands, function(command) return table.concat(command.names, ", ") end)
  if self._epilog then table.insert(lines, self._epilog) end
  return table.concat(lines, "\n")
end

-- Ends the program with a message.
function Parser:error(message)
  error(("%s\n%s"):format(message, self:get_usage()), 0)
end

local function convert(parser, self, text)
  if self._choices then
    local found = false
    for _, choice in ipairs(self._choices) do found = found or choice == text end
    if not found then parser:error(("%s is %q, expected one of %s"):format(self.names[1], text, table.concat(self._choices, ", "))) end
  end
  if not self._convert then return text end
  local value, why
  if type(self._convert) == "function" then value, why = self._convert(text) else value = self._convert[text] end
  if value == nil then parser:error(("%s is %q: %s"):format(self.names[1], text, why or "expected another kind of value")) end
  return value
end

-- The values of one mention, as they go into the result.
local function values_of(parser, self, texts)
  if self._most == 0 then return true end
  local values = {}
  for i, text in ipairs(texts) do values[i] = convert(parser, self, text) end
  if self._combine then return #values > 0 and table.concat(map(values, tostring), " ") or nil end
  if self._most == 1 then return values[1] end
  return values
end

local function store(parser, result, self, texts)
  local name, value = key(self), values_of(parser, self, texts)
  local action, most = self._action, select(2, bounds(self._count or "0-1"))
  if type(action) == "function" then return action(result, name, value, self._overwrite ~= false) end
  if action == "count" or self.is_flag and most > 1 then
    result[name] = (type(result[name]) == "number" and result[name] or 0) + 1
  elseif action == "store_false" then
    result[name] = false
  elseif action == "append" or not self.is_flag and most > 1 then
    result[name] = type(result[name]) == "table" and result[name] or {}
    table.insert(result[name], value)
  elseif action == "concat" then
    result[name] = concatArrays(result[name] or {}, value)
  else
    result[name] = value
  end
end

local function find(list, name)
  for _, entry in ipairs(list) do
    for _, known in ipairs(entry.names) do
      if known == name then return entry end
    end
  end
end

-- Words into (element, words) pairs and the words that belong to none.
local function read_options(parser, words, seen, result, mention)
  local rest, i, only_arguments = {}, 1, false
  local function is_option(word) return not only_arguments and #word > 1 and word:sub(1, 1) == "-" and not tonumber(word) end
  while i <= #words do
    local word = words[i]
    i = i + 1
    if word == "--" and not only_arguments then
      only_arguments = true
    elseif is_option(word) then
      local name, value = word:match "^(%-%-[^=]+)=(.*)$"
      local option = find(parser._options, name or word)
      if not option and word:sub(2, 2) ~= "-" then
        -- -r100, or flags side by side: -ab
        name, value = word:sub(1, 2), word:sub(3)
        option = find(parser._options, name)
        if option and option._most == 0 then
          table.insert(words, i, "-" .. value)
          value = nil
        end
      end
      if not option then parser:error(("unknown option %s"):format(word)) end
      local texts = { value }
      while #texts < option._most and i <= #words and not is_option(words[i]) and (#texts < option._least or value == nil) do
        table.insert(texts, words[i])
        i = i + 1
      end
      if #texts < option._least then
        parser:error(("%s has %d values, expected %s"):format(name or word, #texts, placeholder(option)))
      elseif option._most == 0 and value then
        parser:error(("%s takes no value, found %q"):format(name, value))
      end
      mention(option, texts)
    else
      local command = #parser._commands > 0 and #rest >= #parser._arguments and find(parser._commands, word)
      if command then
        local name = command._target or command.names[1]
        result[name] = true
        if parser._command_target then result[parser._command_target] = name end
        for _, option in ipairs(parser._options) do table.insert(command._options, option) end
        for k, v in pairs(command:args(unpack(words, i)):parse()) do result[k] = v end
        return rest, true
      end
      table.insert(rest, word)
    end
  end
  return rest, false
end

-- Shares the words among the arguments: each gets what it needs, and the first that may have more the rest.
local function share_out(parser, rest, mention)
  local needed = 0
  for _, argument in ipairs(parser._arguments) do needed = needed + argument._least end
  local spare, at = #rest - needed, 1
  for _, argument in ipairs(parser._arguments) do
    local n = argument._least + math.max(math.min(spare, argument._most - argument._least), 0)
    spare = spare - (n - argument._least)
    local texts = {}
    for _ = 1, n do
      if rest[at] == nil then parser:error(("%s is missing"):format(placeholder(argument))) end
      table.insert(texts, rest[at])
      at = at + 1
    end
    if n > 0 then mention(argument, texts) elseif argument._most > 1 and not argument._combine then mention(argument, {}) end
  end
  if rest[at] ~= nil then parser:error(("found %q, which no argument is left for"):format(rest[at])) end
end

-- The values by their names.
function Parser:parse(words)
  local all, result, seen = {}, {}, {}
  for i, word in ipairs(words or self._words or {}) do all[i] = tostring(word) end
  local function mention(entry, texts)
    if entry.is_help then
      print(self:get_help())
      error(self.stopped, 0)
    end
    for _, group in ipairs(self._mutexes) do
      for _, other in ipairs(group) do
        local together = false
        for _, member in ipairs(group) do together = together or member == entry end
        if together and other ~= entry and seen[other] then
          self:error(("%s cannot be given together with %s"):format(entry.names[1], other.names[1]))
        end
      end
    end
    seen[entry] = (seen[entry] or 0) + 1
    store(self, result, entry, texts)
  end
  local rest, command = read_options(self, all, seen, result, mention)
  if not command or #rest > 0 then share_out(self, rest, mention) end
  if #self._commands > 0 and self._require_command ~= false and not command then self:error "a command is required" end
  for _, list in ipairs { self._options, self._arguments } do
    for _, entry in ipairs(list) do
      local name = key(entry)
      if not seen[entry] then
        if entry._init ~= nil then result[name] = entry._init end
        if result[name] == nil and entry._default ~= nil then
          result[name] = type(entry._default) == "string" and convert(self, entry, entry._default) or entry._default
        end
        if entry.is_option and entry._count and bounds(entry._count) > 0 then self:error(entry.names[1] .. " is required") end
      end
    end
  end
  return result
end

-- As parse, but false and a message instead of an error.
function Parser:pparse(words)
  local ok, result = pcall(self.parse, self, words)
  return ok, result
end

function Parser:__call(properties)
  for name, value in pairs(properties) do
    if type(name) == "string" and self[name] then self[name](self, value) end
  end
  return self
end

-- What `parse` throws after it has printed the help.
Parser.stopped = setmetatable({}, { __tostring = function() return "help was asked for" end })

function Parser.make(name, description, epilog)
  local self = setmetatable({ _name = name, _description = description, _epilog = epilog, _arguments = {}, _options = {}, _mutexes = {},
    _commands = {} }, Parser)
  local help = self:flag("-h --help", "Show this help message and exit.")
  help.is_help = true
  return self
end

return setmetatable({ stopped = Parser.stopped }, { __call = function(_, ...) return Parser.make(...) end })
