-- SPDX-License-Identifier: MIT
-- Histograms, as programs of libmoon use them, over perigee.histogram: what values mean is up to the caller, usually ns.
local native = require "perigee.native"
local base = require "perigee.histogram"
local values = require "perigee.values"
local log = require "libmoon.log"

local histogram = {}

-- numSamples, sum and avg are fields, too.
local derived = {
  numSamples = function(self) return self.base:count() end,
  sum = function(self) return self.base:sum() end,
  avg = function(self) return self.base:average() end,
  minimum = function(self) return self.base:min() end,
  maximum = function(self) return self.base:max() end,
  stdDev = function(self) return self.base:standard_deviation() end,
}
local object = {}
object.__index = function(self, key)
  local field = derived[key]
  if field then return field(self) end
  return histogram[key]
end

local function create() return setmetatable({ base = base.new() }, object) end
function histogram.create() return create() end
histogram.new = histogram.create
setmetatable(histogram, { __call = create })

-- A measurement that failed has no value, and is not counted.
function histogram:update(value)
  if value then self.base:update(value) end
end

function histogram:percentile(percent)
  if percent < 0 or percent > 100 then native.throw(("a percentile of %s: expected 0 to 100"):format(percent)) end
  return self.base:percentile(percent)
end
function histogram:totals() return self.base:count(), self.base:sum(), self.base:average() end
function histogram:average() return self.base:average() end
function histogram:standardDeviation() return self.base:standard_deviation() end
function histogram:min() return self.base:min() end
function histogram:max() return self.base:max() end
function histogram:median() return self.base:median() end
function histogram:quartiles() return self.base:quartiles() end
function histogram:calc() end

-- Iterates over { k = value, v = times }, in rising order.
function histogram:samples()
  local step = self.base:samples()
  return function()
    local value, times = step()
    if value ~= nil then return { k = value, v = times } end
  end
end

function histogram:print(prefix)
  prefix = prefix and ("[%s] "):format(prefix) or ""
  if self.numSamples == 0 then return print(prefix .. "Samples: 0") end
  printf("%sSamples: %d, Average: %.1f ns, StdDev: %.1f ns, Quartiles: %.1f/%.1f/%.1f ns", prefix, self.numSamples, self.avg, self.stdDev,
    self:quartiles())
end

-- Writes "value,times" lines to a file, given open or by its name.
function histogram:save(file)
  local name = type(file) == "string" and file
  if name then
    log:info("Saving histogram to '%s'", name)
    local why
    file, why = io.open(name, "w")
    if not file then native.throw("a histogram cannot be written: " .. why) end
  end
  for sample in self:samples() do file:write(("%s,%s\n"):format(sample.k, sample.v)) end
  if name then file:close() end
end

values.class("libmoon.histogram", object, function(self) return { counts = self.base.counts } end, function(plain)
  local self = create()
  for value, times in pairs(plain.counts) do self.base:update(value, times) end
  return self
end)

return histogram
