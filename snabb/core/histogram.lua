-- SPDX-License-Identifier: MIT
-- core.histogram: a histogram with logarithmic buckets, which can live in shared memory. The API is Snabb's.
--
-- One page of 4096 bytes: the minimum, the logarithm of the factor between buckets, the number of samples, and 509
-- buckets of which the first and the last take what is below the minimum and above the maximum.
--
-- Differs from Snabb: `quantile`, `summarize` and `report` are ours; a sample that is not a number counts in the first
-- bucket.

local ffi = require("ffi")
local shm = require("core.shm")

local M = {}

local BUCKETS, LAST = 509, 508
local log, exp, floor = math.log, math.exp, math.floor

ffi.cdef[[
struct perigee_snabb_histogram {
   double minimum;
   double growth_factor_log;
   uint64_t total;
   uint64_t buckets[509];
};
]]
local histogram_t = ffi.typeof("struct perigee_snabb_histogram")

--- The C type of a histogram.
M.t = histogram_t

--- The name of the kind of object in shared memory: "histogram".
M.type = shm.register("histogram", M)

local function growth (minimum, maximum)
   if not (type(minimum) == "number" and type(maximum) == "number" and minimum > 0 and maximum > minimum) then
      local given = tostring(minimum).." and "..tostring(maximum)
      error("histogram: expected 0 < minimum < maximum, not "..given, 3)
   end
   return log(maximum / minimum) / (BUCKETS - 2)
end

--- A new histogram whose buckets between *minimum* (more than 0) and *maximum* grow by a constant factor.
function M.new (minimum, maximum)
   return histogram_t(minimum, growth(minimum, maximum))
end

--- As `new`, in shared memory under *name*; if it is there already, it is emptied.
function M.create (name, minimum, maximum)
   local factor = growth(minimum, maximum)
   local histogram = shm.create(name, histogram_t)
   histogram.minimum, histogram.growth_factor_log = minimum, factor
   histogram:clear()
   return histogram
end

--- Open a histogram of this or another process for reading.
function M.open (name)
   return shm.open(name, histogram_t, true)
end

--- Count one sample.
function M.add (histogram, measurement)
   local bucket = 0
   if measurement > 0 then
      bucket = floor(log(measurement / histogram.minimum) / histogram.growth_factor_log) + 1
      if bucket > LAST then bucket = LAST elseif not (bucket > 0) then bucket = 0 end
   end
   histogram.total = histogram.total + 1
   histogram.buckets[bucket] = histogram.buckets[bucket] + 1
end

local function bounds (histogram, bucket)
   local minimum, factor_log = histogram.minimum, histogram.growth_factor_log
   if bucket == 0 then return 0, minimum end
   local low = minimum * exp(factor_log * (bucket - 1))
   if bucket == LAST then return low, math.huge end
   return low, minimum * exp(factor_log * bucket)
end

--- Iterate over all buckets, lowest first: `for count, low, high in h:iterate()`; *count* is a uint64_t. With
--- *previous*, an earlier snapshot, the counts are the differences to it.
function M.iterate (histogram, previous)
   local bucket = -1
   return function ()
      bucket = bucket + 1
      if bucket > LAST then return nil end
      local count = histogram.buckets[bucket]
      if previous then count = count - previous.buckets[bucket] end
      return count, bounds(histogram, bucket)
   end
end

--- Copy a histogram into *into*, or into a new one. Returns the copy.
function M.snapshot (histogram, into)
   into = into or histogram_t()
   ffi.copy(into, histogram, ffi.sizeof(histogram_t))
   return into
end

--- Set all counts to 0.
function M.clear (histogram)
   histogram.total = 0
   ffi.fill(histogram.buckets, 8 * BUCKETS)
end

--- A function that calls *thunk* and counts how long it took by the clock *now* (a function that returns a number).
function M.wrap_thunk (histogram, thunk, now)
   return function ()
      local start = now()
      thunk()
      histogram:add(now() - start)
   end
end

--- The value below which the share *q* (0 to 1) of the samples lies: the upper bound of its bucket (the maximum for
--- the last one). nil if there are no samples. *previous* as in `iterate`.
function M.quantile (histogram, q, previous)
   local total = histogram.total - (previous and previous.total or 0)
   if total == 0 then return nil end
   local rank, seen = q * tonumber(total), 0
   for count, low, high in M.iterate(histogram, previous) do
      seen = seen + tonumber(count)
      if seen > 0 and seen >= rank then return high == math.huge and low or high end
   end
end

--- {total, min, avg, max, p50, p90, p99, p999} of a histogram, estimated from its buckets (the middle of each); nil
--- if there are no samples. *previous* as in `iterate`.
function M.summarize (histogram, previous)
   local total, sum, least, most = 0, 0, nil, nil
   for count, low, high in M.iterate(histogram, previous) do
      local n = tonumber(count)
      if n > 0 then
         if high == math.huge then high = low end
         total, sum = total + n, sum + n * (low + high) / 2
         least, most = least or low, high
      end
   end
   if total == 0 then return nil end
   return {total = total, min = least, avg = sum / total, max = most, p50 = M.quantile(histogram, 0.5, previous),
           p90 = M.quantile(histogram, 0.9, previous), p99 = M.quantile(histogram, 0.99, previous),
           p999 = M.quantile(histogram, 0.999, previous)}
end

--- Print a line with `summarize`'s figures, each multiplied by *scale* and followed by *unit*.
function M.report (histogram, name, scale, unit)
   local s = M.summarize(histogram)
   if not s then
      print(("%s: no samples"):format(name))
      return
   end
   scale, unit = scale or 1, unit or ""
   print(("%s: %d samples, min %.2f%s, avg %.2f%s, p50 %.2f%s, p99 %.2f%s, max %.2f%s"):format(name, s.total,
      s.min * scale, unit, s.avg * scale, unit, s.p50 * scale, unit, s.p99 * scale, unit, s.max * scale, unit))
end

ffi.metatype(histogram_t, {
   __index = {add = M.add, iterate = M.iterate, snapshot = M.snapshot, clear = M.clear, wrap_thunk = M.wrap_thunk,
              quantile = M.quantile, summarize = M.summarize, report = M.report},
   __tostring = function (histogram)
      local s = M.summarize(histogram)
      if not s then return "no samples" end
      return ("min: %g / avg: %g / max: %g (%d samples)"):format(s.min, s.avg, s.max, s.total)
   end,
})

local function test_oracle ()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED") or "1")
   math.randomseed(seed)
   local h, samples, total = M.new(1e-6, 1), {}, 3000
   for i = 1, total do
      samples[i] = exp(math.random() * 20 - 16)
      h:add(samples[i])
   end
   table.sort(samples)
   local i, sum = 1, 0
   for count, low, high in h:iterate() do
      local expected = 0
      while samples[i] and samples[i] < high do
         assert(samples[i] >= low, "seed "..seed)
         i, expected = i + 1, expected + 1
      end
      assert(count == expected, "seed "..seed)
      sum = sum + expected
   end
   assert(sum == total and h.total == total)
   local factor = exp(h.growth_factor_log)
   for _, q in ipairs{0.05, 0.3, 0.5, 0.75} do
      local exact, found = samples[math.ceil(q * total)], h:quantile(q)
      assert(found >= exact * 0.999999 and found <= math.max(exact * factor, 1e-6) * 1.000001, "seed "..seed)
   end
end

local function test_shared ()
   local shared = M.create("selftest.histogram/h.histogram", 1, 1000)
   shared:add(50)
   local seen = M.open("selftest.histogram/h.histogram")
   assert(seen.total == 1 and seen.minimum == 1)
   M.create("selftest.histogram/h.histogram", 1, 1000)
   assert(seen.total == 0)
   local frame = shm.create_frame("selftest.histogram/frame", {latency = {M, 1e-6, 1}})
   frame.latency:add(0.1)
   local other = shm.open_frame("selftest.histogram/frame")
   assert(other.latency.total == 1)
   shm.delete_frame(other)
   shm.delete_frame(frame)
   shm.unlink("selftest.histogram")
end

function M.selftest ()
   local h = M.new(1e-6, 1)
   assert(ffi.sizeof(h) == 4096)
   h:add(1e-7); h:add(1e-6 + 1e-9); h:add(1 - 1e-9); h:add(1.5)
   assert(h.buckets[0] == 1 and h.buckets[1] == 1 and h.buckets[507] == 1 and h.buckets[508] == 1 and h.total == 4)
   h:add(0); h:add(-3); h:add(0 / 0); h:add(math.huge)
   assert(h.buckets[0] == 4 and h.buckets[508] == 2 and h.total == 8)
   local buckets, last = 0, 0
   for _, low, high in h:iterate() do
      assert(math.abs(low - last) <= 1e-12 * high or low == last)
      buckets, last = buckets + 1, high
   end
   assert(buckets == BUCKETS and last == math.huge)
   -- Differences to a snapshot.
   local before = h:snapshot()
   h:add(0.5); h:add(0.5)
   local n = 0
   for count, low, high in h:iterate(before) do
      if count ~= 0 then
         assert(count == 2 and low <= 0.5 and high >= 0.5)
         n = n + 1
      end
   end
   assert(n == 1 and before.total == 8 and h:summarize(before).total == 2)
   assert(h:snapshot(before) == before and before.total == 10)
   h:clear()
   assert(h.total == 0 and h.buckets[508] == 0 and h:quantile(0.5) == nil and h:summarize() == nil)
   assert(tostring(h) == "no samples")
   local now = 0
   local wrapped = h:wrap_thunk(function () now = now + 0.25 end, function () return now end)
   wrapped(); wrapped()
   assert(h.total == 2 and tostring(h):match("2 samples"))
   local s = h:summarize()
   assert(s.min <= 0.25 and s.max >= 0.25 and s.max < 0.26 and math.abs(s.avg - 0.25) < 0.01 and s.p50 == s.p999)
   for _, bad in ipairs{{0, 1}, {1, 1}, {-1, 1}, {2, 1}, {"a", 1}, {1}} do
      assert(not pcall(M.new, bad[1], bad[2]))
   end
   test_oracle()
   test_shared()
end

return M
