-- SPDX-License-Identifier: MIT
-- core.report: the engine's reports about itself, and the names of programs. core.app is built on it; reached as
-- engine.report, engine.report_links, engine.claim_name and so on.

local counter = require("core.counter")
local lib = require("core.lib")
local shm = require("core.shm")
local sys = require("core.sys")

local M = {}
local sorted_keys = lib.sorted_keys

-- A counter of the engine, over all threads.
local function total (engine, name)
   local sum = tonumber(counter.read(engine[name]))
   for _, worker in ipairs(engine.threads and engine.threads.others() or {}) do
      sum = sum + tonumber(counter.read(counter.open("workers/"..worker.."/engine/"..name..".counter")))
   end
   return sum
end
M.total = total

local last -- the counters at the last report of the load

--- Print packets and bits freed per second, packets per breath and bytes per packet since the last report.
function M.report_load (engine)
   local now = {time = engine.now()}
   for _, name in ipairs{"frees", "freebits", "freebytes", "breaths"} do now[name] = total(engine, name) end
   if last then
      local interval, frees = now.time - last.time, now.frees - last.frees
      local function rate (n, per) return per > 0 and math.floor(n / per) or 0 end
      print(("load: time: %-2.2fs  fps: %-9s fpGbps: %-3.3f fpb: %-3s bpp: %-4s sleep: %-4dus"):format(
         interval, lib.comma_value(rate(frees, interval)), (now.freebits - last.freebits) / interval / 1e9,
         lib.comma_value(rate(frees, now.breaths - last.breaths)),
         frees > 0 and tostring(rate(now.freebytes - last.freebytes, frees)) or "-", engine.sleep))
   end
   last = now
end

-- For links in other threads, the counters in shared memory are used.
local function links_everywhere (engine)
   local links = {}
   for name, l in pairs(engine.link_table) do
      links[name] = {tonumber(counter.read(l.stats.txpackets)), tonumber(counter.read(l.stats.txdrop))}
   end
   for _, name in ipairs(engine.threads and engine.threads.links() or {}) do
      if not links[name] then
         local frame = shm.open_frame("links/"..name)
         links[name] = {tonumber(counter.read(frame.txpackets)), tonumber(counter.read(frame.txdrop))}
         shm.delete_frame(frame)
      end
   end
   return links
end

--- Print for each link how many packets were sent on it, and how many dropped.
function M.report_links (engine)
   print("link report:")
   local links = links_everywhere(engine)
   for _, name in ipairs(sorted_keys(links)) do
      local sent, dropped = unpack(links[name])
      local loss = sent > 0 and dropped * 100 / (dropped + sent) or 0
      print(("%20s sent on %s (loss rate: %d%%)"):format(lib.comma_value(sent), name, loss))
   end
end

--- Let every app print its own report.
function M.report_apps (engine)
   print("apps report:")
   for _, name in ipairs(sorted_keys(engine.app_table)) do
      local app = engine.app_table[name]
      if app.report then
         print(name)
         app:report()
      end
   end
end

--- Print what *options* asks for: showload (also with no options), showlinks, showapps.
function M.report (engine, options)
   if not options or options.showload then M.report_load(engine) end
   if options and options.showlinks then M.report_links(engine) end
   if options and options.showapps then M.report_apps(engine) end
end

local function name_path (name)
   if type(name) ~= "string" or not name:match("^[%w_][%w_.%-]*$") then
      error(("program name %q: expected letters, digits, _ - and ."):format(tostring(name)), 3)
   end
   return shm.root.."/by-name/"..name
end

--- Claim a name by which other processes find this one. Errors if a living process has it. A name claimed before is
--- given up.
function M.claim_name (engine, name)
   if engine.program_name == name then return end
   local path, own = name_path(name), shm.root.."/"..sys.getpid()
   shm.mkdir("/by-name")
   local taken = sys.readlink(path)
   if taken and not sys.kill(tonumber(lib.basename(taken)), 0) then sys.remove(path) end
   if not sys.symlink(own, path) then error("Name already taken: "..name, 2) end
   if engine.program_name then M.unclaim_name(engine) end
   engine.program_name = name
   shm.mkdir("/"..sys.getpid())
   sys.symlink(path, own.."/name")
end

--- Give up a claimed name. Errors if there is none.
function M.unclaim_name (engine, name)
   name = name or engine.program_name
   if not name then error("No claim to name.", 2) end
   sys.remove(name_path(name))
   sys.remove(shm.root.."/"..sys.getpid().."/name")
   engine.program_name = false
end

--- The processes that have claimed a name and are alive: {name = pid}.
function M.enumerate_named_programs (_)
   local programs = {}
   for _, name in ipairs(shm.children("/by-name") or {}) do
      local folder = sys.readlink(shm.root.."/by-name/"..name)
      local pid = folder and tonumber(lib.basename(folder))
      if pid and sys.kill(pid, 0) then programs[name] = pid end
   end
   return programs
end

return M
