-- SPDX-License-Identifier: MIT
-- lib.index_set: gives values indices from 0 on, the lowest one that is not in use.
local IndexSet = {}
IndexSet.__index = IndexSet

-- Fields of the set itself begin with two underscores; all others are values, with their indices.
local OWN = {__nxt = true, __max = true, __name = true, __used = true}

--- A new set of at most `max` values; `name` is for messages.
function IndexSet:new(max, name)
   return setmetatable({__nxt = 0, __max = max, __name = name or "index set", __used = {}}, self)
end

--- The value that has the index `index`; nil if none has.
function IndexSet:search(index)
   return self.__used[index]
end

--- The index of the value `v`, and whether it is new. Errors: "NAME overflow".
function IndexSet:add(v)
   assert(not OWN[v] and v ~= nil, "not a value for an index set")
   local index = rawget(self, v)
   if index then return index, false end
   index = self.__nxt
   if index >= self.__max then error(self.__name.." overflow") end
   self[v] = index
   self.__used[index] = v
   while self.__used[self.__nxt] ~= nil do self.__nxt = self.__nxt + 1 end
   return index, true
end

--- Removes the value `v`. Returns the index that it had; nil if it was not there.
function IndexSet:pop(v)
   local index = rawget(self, v)
   if index == nil or OWN[v] then return nil end
   self[v] = nil
   self.__used[index] = nil
   self.__nxt = math.min(self.__nxt, index)
   return index
end

function IndexSet.selftest()
   local set = IndexSet:new(4, "test")
   for i = 0, 3 do
      local index, new = set:add("value "..i)
      assert(index == i and new == true and set:search(i) == "value "..i)
   end
   local again, new = set:add("value 2")
   assert(again == 2 and new == false)
   local ok, message = pcall(set.add, set, "one more")
   assert(not ok and message:find("test overflow", 1, true))
   assert(set:pop("value 1") == 1 and set:pop("value 1") == nil and set:pop("value 3") == 3 and set:search(1) == nil)
   assert(set:add("x") == 1 and set:add("y") == 3 and not pcall(set.add, set, "z"))
   assert(set["value 0"] == 0 and set:search(7) == nil and not pcall(set.add, set, "__max"))
end

return IndexSet
