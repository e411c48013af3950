-- SPDX-License-Identifier: MIT
--
-- apps.test.harness: puts one app into a network of its own, feeds its inputs with given bytes and takes what its
-- outputs send. For selftests. Snabb has no such module.

local ffi = require("ffi")
local config = require("core.config")
local engine = require("core.app")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")

local M = {}

--- Feed: sends the packets queued in its table `queue` (strings) to its link `output`. No argument.
M.Feed = {}
local Feed = M.Feed

--- Creates a feed whose queue is empty.
function Feed:new()
   return setmetatable({queue = {}}, {__index = Feed})
end

--- Sends the whole queue, as far as the link takes it.
function Feed:pull()
   local queue, o = self.queue, links.output(self, "output")
   while #queue > 0 and not link.full(o) do
      link.transmit(o, packet.from_string(table.remove(queue, 1)))
   end
end

--- Collect: keeps the bytes of the packets that come in on `input` as strings, in the table `got`. No argument.
M.Collect = {}
local Collect = M.Collect

--- Creates a collector that has nothing yet.
function Collect:new()
   return setmetatable({got = {}}, {__index = Collect})
end

--- Takes all waiting packets.
function Collect:push()
   local i = links.input(self, "input")
   while not link.empty(i) do
      local p = link.receive(i)
      self.got[#self.got + 1] = ffi.string(p.data, p.length)
      packet.free(p)
   end
end

local Harness = {}
Harness.__index = Harness

local function hex(s)
   return (s:gsub(".", function (c) return ("%02x "):format(c:byte()) end))
end

-- Packets in use before the network was made: as many must be when it is gone.
local before

local function clear()
   engine.configure(config.new())
   local now = packet.outstanding()
   local leaked = before and now - before or 0
   before = now
   if leaked > 0 then error(("%d packets were not freed"):format(leaked), 3) end
end

--- Configures the engine with one app "dut" of `class` with the argument `arg`; `inputs` and `outputs` are arrays of
--- link names. Returns the harness; its field `app` is the app.
function M.new(class, arg, inputs, outputs)
   clear()
   local c = config.new()
   config.app(c, "dut", class, arg)
   for _, name in ipairs(inputs) do
      config.app(c, "in_" .. name, M.Feed)
      config.link(c, "in_" .. name .. ".output -> dut." .. name)
   end
   for _, name in ipairs(outputs) do
      config.app(c, "out_" .. name, M.Collect)
      config.link(c, "dut." .. name .. " -> out_" .. name .. ".input")
   end
   engine.configure(c)
   return setmetatable({app = engine.app_table.dut, config = c}, Harness)
end

--- Feeds the input `name` with the strings of the array `packets` and lets the engine breathe until they are in, and
--- what they cause is out.
function Harness:send(name, packets)
   local feed = engine.app_table["in_" .. name]
   for _, bytes in ipairs(packets) do table.insert(feed.queue, bytes) end
   repeat engine.breathe() until #feed.queue == 0
   -- An app that forwards in `pull` sees in the next breath what came in during this one.
   if self.app.pull then engine.breathe() end
end

--- Returns what the output `name` sent since the last call, an array of strings.
function Harness:take(name)
   local collect = engine.app_table["out_" .. name]
   local got = collect.got
   collect.got = {}
   return got
end

--- Takes what the output `name` sent and throws unless it is exactly the strings of the array `packets`.
function Harness:expect(name, packets)
   local got = self:take(name)
   for k = 1, math.max(#got, #packets) do
      if got[k] ~= packets[k] then
         error(("%s: packet %d of %d (expected %d)\n  is       %s\n  expected %s"):format(name, k, #got, #packets,
            got[k] and hex(got[k]) or "missing", packets[k] and hex(packets[k]) or "nothing"), 2)
      end
   end
end

--- Stops all apps. Throws if packets were leaked.
function Harness:stop()
   clear()
   before = nil
end

--- Runs an app of its own that turns each packet around, and checks what comes out.
function M.selftest()
   local Turn = {}
   function Turn:new() return setmetatable({}, {__index = Turn}) end
   function Turn:push()
      while not link.empty(self.input.rx) do
         local p = link.receive(self.input.rx)
         local turned = ffi.string(p.data, p.length):reverse()
         packet.free(p)
         link.transmit(self.output.tx, packet.from_string(turned))
      end
   end
   local h = M.new(Turn, nil, {"rx"}, {"tx"})
   h:send("rx", {"abc", "12345"})
   h:expect("tx", {"cba", "54321"})
   h:expect("tx", {})
   h:send("rx", {"xy"})
   assert(not pcall(h.expect, h, "tx", {"xy"}))
   h:stop()
   local Leak = {}
   function Leak:new() return setmetatable({kept = {}}, {__index = Leak}) end
   function Leak:push() table.insert(self.kept, link.receive(self.input.rx)) end
   h = M.new(Leak, nil, {"rx"}, {})
   h:send("rx", {"kept"})
   local kept = h.app.kept[1]
   local ok, err = pcall(h.stop, h)
   assert(not ok and tostring(err):match("1 packets were not freed"), err)
   packet.free(kept)
   before = nil
end

return M
