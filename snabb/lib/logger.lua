-- SPDX-License-Identifier: MIT
-- lib.logger: a logger that limits the messages per second, and writes even fewer if there are very many more.
local lib = require("core.lib")
local token_bucket = require("lib.token_bucket")
local tsc = require("lib.tsc")

local M = {}
local Logger = {}

local schema = {
   rate = {default = 10},
   discard_report_rate = {default = 0.2},
   fh = {default = io.stdout},
   flush = {default = true},
   module = {},
   date = {default = true},
   date_fmt = {default = "%b %d %Y %H:%M:%S "},
   throttle = {default = true},
   throttle_config = {default = {}},
   clock = {default = tsc.seconds}
}
local throttle_schema = {excess = {default = 5}, increment = {default = 4}, min_rate = {default = 0.1}}

--- A new logger. `arg` is a table (all may be missing):
--   rate                  messages a second (10),
--   discard_report_rate   reports a second of how many have been discarded (0.2),
--   fh, flush             the file to write to (standard output), and whether to flush it after a message (true),
--   module                a name to begin messages with (none),
--   date, date_fmt        whether to begin with the date (true), and its format (as for os.date),
--   throttle              whether to lower the rate while too many are discarded (true), and
--   throttle_config       excess: how many times the rate are too many (5); increment: the part of the rate by which
-- it is raised
--                         again (4: a fourth); min_rate: the lowest rate (0.1),
--   clock                 a function that returns seconds (the monotonic clock).
function M.new(arg)
   local o = setmetatable(lib.parse(arg, schema), {__index = Logger})
   o.tb = token_bucket.new({rate = o.rate, clock = o.clock})
   o.discard_tb = token_bucket.new({rate = o.discard_report_rate, clock = o.clock})
   o.discards = 0
   o.stamp = o.clock()
   o.preamble = o.module and o.module..": " or ""
   if o.throttle then o.throttle = lib.parse(o.throttle_config, throttle_schema) end
   return o
end

-- Lowers or raises the rate by how many messages a second have been discarded.
local function throttle(self, preamble)
   local limits, current = self.throttle, self.tb:get()
   local discard_rate, threshold = self.discards / (self.clock() - self.stamp), self.rate * self.throttle.excess
   if discard_rate > threshold and current > limits.min_rate then
      local rate = math.max(limits.min_rate, current / 2)
      local format = "%sMessage discard rate %.2f Hz exceeds threshold (%.2f Hz), "
         .."throttling logging rate to %.2f Hz%s\n"
      self.fh:write(format:format(preamble, discard_rate, threshold, rate,
                                  rate == limits.min_rate and " (minimum)" or ""))
      self.tb:set(rate)
   elseif discard_rate <= threshold and current < self.rate then
      local rate = math.min(self.rate, current + self.rate / limits.increment)
      self.fh:write(("%sUnthrottling logging rate to %.2f Hz%s\n")
         :format(preamble, rate, rate == self.rate and " (maximum)" or ""))
      self.tb:set(rate)
   end
end

--- Writes the string `message`, with what is to precede it and a newline, or discards it.
function Logger:log(message)
   if not self.tb:take(1) then
      self.discards = self.discards + 1
      return
   end
   local preamble = (self.date and os.date(self.date_fmt) or "")..self.preamble
   self.fh:write(preamble, message, "\n")
   if self.discards > 0 and self.discard_tb:take(1) then
      self.fh:write(preamble, ("%d messages discarded\n"):format(self.discards))
      if self.throttle then throttle(self, preamble) end
      self.discards = 0
      self.stamp = self.clock()
   end
   if self.flush then self.fh:flush() end
end

--- Whether a message would be written now. If not, it is counted as discarded: for callers that want to avoid making
-- messages in vain.
function Logger:can_log()
   if self.tb:can_take(1) then return true end
   self.discards = self.discards + 1
   return false
end

function M.selftest()
   local now, written = 0, ""
   local fh = {write = function (_, ...) written = written..table.concat({...}) end, flush = function () end}
   local logger = M.new({rate = 2, discard_report_rate = 1, fh = fh, module = "test", date = false,
                         clock = function () return now end})
   for i = 1, 30 do
      if i % 2 == 0 or logger:can_log() then logger:log("message "..i) end
   end
   assert(written == "test: message 1\ntest: message 2\n" and logger.discards == 28, written)
   now = 1
   written = ""
   logger:log("later")
   assert(written == [[
test: later
test: 28 messages discarded
test: Message discard rate 28.00 Hz exceeds threshold (10.00 Hz), throttling logging rate to 1.00 Hz
]], written)
   written = ""
   logger:log("a")
   logger:log("b")
   assert(written == "test: a\n" and logger.discards == 1)
   now, written = 10, ""
   logger:log("c")
   assert(written == [[
test: c
test: 1 messages discarded
test: Unthrottling logging rate to 1.50 Hz
]], written)
   written = ""
   local plain = M.new({fh = fh, date_fmt = "%Y ", throttle = false})
   plain:log("100%")
   assert(written:find("^%d%d%d%d 100%%\n$"))
   assert(not pcall(M.new, {speed = 1}))
end

return M
