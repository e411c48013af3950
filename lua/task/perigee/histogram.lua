-- SPDX-License-Identifier: MIT
-- Histograms of numbers, such as latencies: every value is counted as it is, or rounded to a bucket.
--
--   local h = histogram.new()          h:update(value [, times])
--   h:percentile(99.9), h:median(), h:quartiles(), h:average(), h:standard_deviation(), h:min(), h:max(), h:count(), h:sum()
--   for value, times in h:samples() do ... end                  in rising order
--   h:merge(other), h:print(prefix), h:save("latencies.csv")
local values = require "perigee.values"

local histogram = {}
histogram.__index = histogram

-- `bucket`: values are rounded down to multiples of it.
function histogram.new(bucket)
  return setmetatable({ counts = {}, bucket = bucket }, histogram)
end

function histogram:update(value, times)
  if self.bucket then value = math.floor(value / self.bucket) * self.bucket end
  self.counts[value] = (self.counts[value] or 0) + (times or 1)
  self.sorted = nil
end

function histogram:merge(other)
  for value, times in pairs(other.counts) do self:update(value, times) end
  return self
end

-- The values in rising order, and what follows from all of them; made when it is asked for.
local function calculate(self)
  if self.sorted then return self.sorted end
  local sorted = { values = {}, count = 0, sum = 0 }
  for value, times in pairs(self.counts) do
    table.insert(sorted.values, value)
    sorted.count = sorted.count + times
    sorted.sum = sorted.sum + value * times
  end
  table.sort(sorted.values)
  local squares, average = 0, sorted.sum / sorted.count
  for value, times in pairs(self.counts) do squares = squares + (value - average) ^ 2 * times end
  sorted.average = average
  sorted.deviation = sorted.count > 1 and math.sqrt(squares / (sorted.count - 1)) or 0
  self.sorted = sorted
  return sorted
end

function histogram:count() return calculate(self).count end
function histogram:sum() return calculate(self).sum end
function histogram:average() return calculate(self).average end
function histogram:standard_deviation() return calculate(self).deviation end
function histogram:min() return calculate(self).values[1] end
function histogram:max() local all = calculate(self).values return all[#all] end

-- The smallest value that this percentage of all samples does not exceed; nil without samples.
function histogram:percentile(percent)
  local sorted = calculate(self)
  local wanted, seen = percent / 100 * sorted.count, 0
  for _, value in ipairs(sorted.values) do
    seen = seen + self.counts[value]
    if seen >= wanted then return value end
  end
end
function histogram:median() return self:percentile(50) end
function histogram:quartiles() return self:percentile(25), self:percentile(50), self:percentile(75) end

-- Iterates over values and how often each was seen, in rising order.
function histogram:samples()
  local sorted, i = calculate(self).values, 0
  return function()
    i = i + 1
    if sorted[i] ~= nil then return sorted[i], self.counts[sorted[i]] end
  end
end

function histogram:__tostring()
  if self:count() == 0 then return "no samples" end
  return ("samples: %d, average: %.1f, standard deviation: %.1f, min: %s, quartiles: %s/%s/%s, 99 %%: %s, max: %s"):format(
    self:count(), self:average(), self:standard_deviation(), self:min(), self:percentile(25), self:percentile(50),
    self:percentile(75), self:percentile(99), self:max())
end

function histogram:print(prefix) print((prefix and prefix .. " " or "") .. tostring(self)) end

-- Writes "value,times" lines.
function histogram:save(path)
  local file = assert(io.open(path, "w"))
  for value, times in self:samples() do file:write(("%s,%d\n"):format(value, times)) end
  file:close()
end

values.class("histogram", histogram, function(self) return { counts = self.counts, bucket = self.bucket } end,
  function(plain) return setmetatable(plain, histogram) end)

return histogram
