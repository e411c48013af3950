-- SPDX-License-Identifier: MIT
-- Tables that all tasks share: namespaces:get([name]). What is stored is copied, what is read is a copy. ns.lock is a lock,
-- ns:forEach(f) calls f(key, value) for all.
local native = require "perigee.native"
local values = require "perigee.values"
local lock = require "libmoon.lock"

local namespaces = {}
local names, locks = setmetatable({}, { __mode = "k" }), {}

local function full(self, key)
  if type(key) ~= "string" then native.throw("a namespace's keys are strings, found a " .. type(key)) end
  return ("libmoon.namespace\0%s\0%s"):format(names[self], key)
end

local function for_each(self, f)
  local prefix = full(self, "")
  for _, name in ipairs(native.shared_names()) do
    if name:sub(1, #prefix) == prefix then
      local text = native.shared(name)
      if text then f(name:sub(#prefix + 1), (values.decode_all(text))) end
    end
  end
end

local namespace = {}
function namespace:__index(key)
  if key == "forEach" then return for_each end
  if key == "lock" then
    local name = names[self]
    locks[name] = locks[name] or lock.named("namespace " .. name)
    return locks[name]
  end
  local text = native.shared(full(self, key))
  if text then return (values.decode_all(text)) end
end
function namespace:__newindex(key, value)
  if key == "forEach" or key == "lock" then native.throw(key .. " is a namespace's own") end
  native.set_shared(full(self, key), value ~= nil and values.encode_all(key, value) or nil)
end

-- Without a name, it is the one of the line that asks: the same in every task.
function namespaces:get(name)
  if not name then
    local caller = debug.getinfo(2, "Sl")
    name = ("%s:%d"):format(caller.short_src, caller.currentline)
  end
  local self = setmetatable({}, namespace)
  names[self] = name
  return self
end

return namespaces
