-- SPDX-License-Identifier: MIT
-- lib.token_bucket: a token bucket: `rate` tokens a second go in, up to `burst_size`, and those who take n tokens when
-- there are fewer must wait.
local lib = require("core.lib")
local tsc = require("lib.tsc")
local floor, min = math.floor, math.min

local M = {}
local TokenBucket = {}

local schema = {rate = {required = true}, burst_size = {}, clock = {default = tsc.seconds}}

--- A new bucket, full. `arg` is a table: rate (tokens per second, more than 0); burst_size (default: the rate; rounded
-- up); clock (a function that returns seconds; default: the monotonic clock).
function M.new(arg)
   local config = lib.parse(arg, schema)
   local bucket = setmetatable({_clock = config.clock}, {__index = TokenBucket})
   bucket:set(config.rate, config.burst_size)
   return bucket
end

local function check_positive(name, value)
   if type(value) ~= "number" or not (value > 0) then
      error("token_bucket: "..name.." must be a number greater than 0, not "..tostring(value), 3)
   end
end

--- Sets the rate (nil: as it is) and the burst size (nil: the rate), and fills the bucket.
function TokenBucket:set(rate, burst_size)
   if rate ~= nil then
      check_positive("rate", rate)
      self._rate = rate
   end
   if burst_size == nil then burst_size = self._rate end
   check_positive("burst_size", burst_size)
   self._burst_size = math.ceil(burst_size)
   self._tokens = self._burst_size
   self._stamp = self._clock()
end

--- The rate and the burst size.
function TokenBucket:get()
   return self._rate, self._burst_size
end

--- Whether there are `n` (default 1) tokens. The clock is read only if there were not the last time.
function TokenBucket:can_take(n)
   n = n or 1
   if n <= self._tokens then return true end
   local now, rate = self._clock(), self._rate
   -- Whole tokens only; the time of the rest stays for the next ones.
   local fresh = floor((now - self._stamp) * rate)
   if fresh < 1 then return false end
   self._stamp = self._stamp + fresh / rate
   self._tokens = min(self._tokens + fresh, self._burst_size)
   return n <= self._tokens
end

--- Takes `n` (default 1) tokens, if there are as many. Returns whether it has.
function TokenBucket:take(n)
   n = n or 1
   if not self:can_take(n) then return false end
   self._tokens = self._tokens - n
   return true
end

--- Takes all tokens there are, and returns their number.
function TokenBucket:take_burst()
   self:can_take(self._burst_size)
   local tokens = self._tokens
   self._tokens = 0
   return tokens
end

function M.selftest()
   local now = 100
   local bucket = M.new({rate = 10, burst_size = 4.5, clock = function () return now end})
   local rate, burst = bucket:get()
   assert(rate == 10 and burst == 5)
   assert(bucket:can_take(5) and not bucket:can_take(6) and bucket:take(4) and bucket:take() and not bucket:take())
   now = now + 0.25
   assert(bucket:can_take() and bucket:take(2) and not bucket:take())
   -- 0.05 seconds were left over.
   now = now + 0.0501
   assert(bucket:take() and not bucket:take())
   now = now + 1000
   assert(not bucket:can_take(6) and bucket:take_burst() == 5 and bucket:take_burst() == 0)
   -- Over a long time, the rate holds.
   local taken = 0
   for _ = 1, 10000 do
      now = now + 0.013
      if bucket:take() then taken = taken + 1 end
      if bucket:take() then taken = taken + 1 end
   end
   assert(math.abs(taken - 1300) <= 1, taken)
   bucket:set(0.5)
   rate, burst = bucket:get()
   assert(rate == 0.5 and burst == 1 and bucket:take() and not bucket:take())
   bucket:set(nil, 3)
   assert(bucket:get() == 0.5 and bucket:take(3) and not bucket:take())
   for _, bad in ipairs {0, -1, 0 / 0, "fast"} do assert(not pcall(M.new, {rate = bad})) end
   assert(not pcall(M.new, {}) and not pcall(M.new, {rate = 1, burst_size = 0}))
   assert(M.new({rate = 1e9}):take(1e9))
end

return M
