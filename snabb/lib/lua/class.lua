-- SPDX-License-Identifier: MIT
-- lib.lua.class: classes with single inheritance, whose objects are recycled.
--
-- `subClass(base)` makes a class; it is a global function, too, once this module is loaded, as programs of Snabb
-- expect.
-- `Class:new()` takes an object from the class's free list, or makes one; `object:free()` puts it there.
-- `object:new()` reuses the object itself at once. A class that redefines `new` calls `Class:superClass().new(self)`
-- first; the object's field `_recycled` then tells whether it has been used before, and so still has its old fields.
-- `object:free()` of an object that is on the free list does nothing; in Snabb, it would be handed out twice.
local M = {}

local Elementary = {_name = "elementary class"}

--- A new object of the class, or a recycled one (then `_recycled` is true). Called on an object: that object, recycled.
function Elementary:new()
   if self == Elementary then error("Can't instantiate abstract class elementaryClass") end
   if self._instance then
      self._recycled, self._free = true, false
      return self
   end
   local freelist = self._freelist
   local index = freelist.index
   if index > 0 then
      local instance = freelist.list[index]
      freelist.index = index - 1
      instance._recycled, instance._free = true, false
      return instance
   end
   return setmetatable({_recycled = false, _instance = true, _free = false}, self._instance_mt)
end

--- The field `_name` of the class.
function Elementary:name()
   return self._name
end

--- Gives the object back to its class, for `new` to hand it out again: it must not be used any more.
function Elementary:free()
   if self._free then return end
   local freelist = self._freelist
   local index = freelist.index + 1
   freelist.list[index] = self
   freelist.index = index
   self._free = true
end

--- A new class that inherits all from `base` (default: the elementary class with new, free and name). It has the
-- methods
-- `class()`, which returns it, and `superClass()`, which returns `base`.
function M.subClass(base)
   base = base or Elementary
   local class = {_freelist = {index = 0, list = {}}}
   class._instance_mt = {__index = class}

   function class.class() return class end
   function class.superClass() return base end
   return setmetatable(class, {__index = base})
end

-- rawset: strict globals refuse new ones.
rawset(_G, "subClass", M.subClass)

function M.selftest()
   local Animal = subClass(nil)
   Animal._name = "animal"
   function Animal:new(sound)
      local object = Animal:superClass().new(self)
      object.sound = sound
      return object
   end
   function Animal:speak() return self.sound end
   local Dog = subClass(Animal)
   Dog._name = "dog"
   function Dog:speak() return Dog:superClass().speak(self).."!" end

   local cat, dog = Animal:new("miau"), Dog:new("wau")
   assert(cat:speak() == "miau" and dog:speak() == "wau!" and cat:name() == "animal" and dog:name() == "dog")
   assert(dog:class() == Dog and dog:superClass() == Animal and not dog._recycled)
   dog:free()
   dog:free()
   assert(not Animal:new("oink")._recycled, "free lists are per class")
   local again = Dog:new("wuff")
   assert(rawequal(again, dog) and again._recycled and again:speak() == "wuff!")
   assert(not rawequal(Dog:new("x"), dog))
   assert(rawequal(dog:new("y"), dog) and dog:speak() == "y!" and dog._recycled)
   local Plain = subClass()
   assert(Plain:new():class() == Plain and Plain:name() == "elementary class")
   assert(not pcall(Plain:superClass().new, Plain:superClass()))
end

return M
