-- SPDX-License-Identifier: MIT
--
-- apps.rate_limiter.rate_limiter: limits a stream to a number of bytes per second, by a token bucket; what exceeds it
-- is dropped.

local counter = require("core.counter")
local engine = require("core.app")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")

local M = {}

--- RateLimiter: forwards packets from `input` to `output` while tokens are in the bucket, and frees the others. Counter
--- `txdrop`: packets freed. Configuration: `rate`, bytes per second; `bucket_capacity`, bytes; `initial_capacity`, the
--- bytes in the bucket at first (`bucket_capacity` by default).
M.RateLimiter = {
   config = {
      rate = {required = true},
      bucket_capacity = {required = true},
      initial_capacity = {},
   }
}
local RateLimiter = M.RateLimiter

local function check(what, n)
   if type(n) ~= "number" or not (n >= 0) then
      error(("RateLimiter: %s: expected a number of bytes, got %s"):format(what, tostring(n)), 3)
   end
   return n
end

--- Creates a limiter. Throws if a value is not a number of bytes.
function RateLimiter:new(conf)
   local o = setmetatable({shm = {txdrop = {counter}}}, {__index = RateLimiter})
   o:reset(conf.rate, conf.bucket_capacity, conf.initial_capacity)
   return o
end

--- Sets `rate` (bytes per second), `bucket_capacity` (bytes) and what is in the bucket (`initial_capacity`, or a full
--- bucket).
function RateLimiter:reset(rate, bucket_capacity, initial_capacity)
   self.rate = check("rate", rate)
   self.bucket_capacity = check("bucket_capacity", bucket_capacity)
   self.bucket_content = check("initial_capacity", initial_capacity or bucket_capacity)
end

--- Returns a table of `rx` and `tx`, the packets that came in and went out so far, and `time`, now in nanoseconds.
function RateLimiter:get_stat_snapshot()
   return {
      rx = link.stats(links.input(self, "input")).txpackets,
      tx = link.stats(links.output(self, "output")).txpackets,
      time = engine.now() * 1e9,
   }
end

--- Another name of get_stat_snapshot.
RateLimiter.snapshot = RateLimiter.get_stat_snapshot

--- Fills the bucket for the time that has passed, then forwards what it pays for.
function RateLimiter:push()
   local i, o = links.one_in_one_out(self)
   local now = engine.now()
   local content = self.bucket_content + self.rate * (now - (self.last_time or now))
   content = math.min(content, self.bucket_capacity)
   self.last_time = now
   for _ = 1, link.nreadable(i) do
      local p = link.receive(i)
      local length = p.length
      if length <= content then
         content = content - length
         link.transmit(o, p)
      else
         counter.add(self.shm.txdrop)
         packet.free(p)
      end
   end
   self.bucket_content = content
end

--- Sends packets at times that the test sets.
function M.selftest()
   local harness = require("apps.test.harness")
   local real_now, time = engine.now, 100
   local h = harness.new(RateLimiter, {rate = 1000, bucket_capacity = 250, initial_capacity = 100}, {"input"},
                         {"output"})
   local function send(count, size) -- pushes directly: the test does not depend on the engine's clock
      for _ = 1, count do link.transmit(h.app.input.input, packet.resize(packet.allocate(), size)) end
      engine.now = function () return time end
      h.app:push()
      engine.now = real_now
      local n = 0
      while not link.empty(h.app.output.output) do
         packet.free(link.receive(h.app.output.output))
         n = n + 1
      end
      return n, tonumber(counter.read(h.app.shm.txdrop))
   end
   local passed, dropped = send(4, 40)
   assert(passed == 2 and dropped == 2)
   passed, dropped = send(1, 20)
   assert(passed == 1 and dropped == 2)
   time = time + 0.125 -- 125 bytes
   passed, dropped = send(3, 50)
   assert(passed == 2 and dropped == 3)
   time = time + 10 -- no more than the bucket holds
   passed, dropped = send(10, 50)
   assert(passed == 5 and dropped == 8)
   h.app:reset(0, 60)
   passed, dropped = send(2, 60)
   assert(passed == 1 and dropped == 9)
   local s = h.app:snapshot()
   assert(s.rx == 20 and s.tx == 11 and s.time > 0)
   h:stop()
   for _, bad in ipairs({{rate = "fast", bucket_capacity = 1}, {rate = -1, bucket_capacity = 1}, {rate = 1}}) do
      local ok, err = pcall(RateLimiter.new, RateLimiter, bad)
      assert(not ok and tostring(err):match("expected a number of bytes"), err)
   end
end

return M
