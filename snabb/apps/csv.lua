-- SPDX-License-Identifier: MIT
--
-- apps.csv: writes statistics of apps and links to files of comma-separated values, once a second.
--
-- What differs from Snabb: rows are in the order of names; drops are written; the columns of apps that only have a
-- meaning there (cpu, crashes, starttime) are 0, as they are in Snabb.

local config = require("core.config")
local engine = require("core.app")
local link = require("core.link")

local M = {}
local sorted_keys = require("core.lib").sorted_keys

--- Seconds between two rows of an app or a link.
M.interval = 1.0

local app_columns = "time,name,class,cpu,crashes,starttime"
local link_columns = "time,from_app,from_port,to_app,to_port,txbytes,txpackets,rxbytes,rxpackets,dropbytes,droppackets"

--- CSV: writes the files app.csv and link.csv in a directory. Argument: the directory's name. It needs no links.
M.CSV = {}
local CSV = M.CSV

local function open(directory, name, columns)
   local file = assert(io.open(directory .. "/" .. name, "w"))
   file:write(columns, "\n")
   file:flush()
   return file
end

--- Opens the files. Throws if it cannot.
function CSV:new(directory)
   if type(directory) ~= "string" then error("CSV: expected the name of a directory, got " .. tostring(directory)) end
   return setmetatable({
      appfile = open(directory, "app.csv", app_columns),
      linkfile = open(directory, "link.csv", link_columns),
   }, {__index = CSV})
end

--- Writes a row for every app and every link.
function CSV:write_rows()
   local now = engine.now()
   for _, name in ipairs(sorted_keys(engine.app_table)) do
      local zone = engine.app_table[name].zone or ""
      self.appfile:write(("%f,%s,%s,%d,%d,%d\n"):format(now, name, tostring(zone), 0, 0, 0))
   end
   self.appfile:flush()
   for _, spec in ipairs(sorted_keys(engine.link_table)) do
      local fa, fl, ta, tl = config.parse_link(spec)
      local s = link.stats(engine.link_table[spec])
      self.linkfile:write(("%f,%s,%s,%s,%s,%d,%d,%d,%d,%d,%d\n"):format(
         now, fa, fl, ta, tl, s.txbytes, s.txpackets, s.rxbytes, s.rxpackets, 0, s.txdrop))
   end
   self.linkfile:flush()
end

--- Writes rows if the last ones were written long enough ago.
function CSV:pull()
   local now = engine.now()
   if self.next_report and now < self.next_report then return end
   self.next_report = now + M.interval
   self:write_rows()
end

--- Closes the files.
function CSV:stop()
   self.appfile:close()
   self.linkfile:close()
end

local function lines(filename)
   local all = {}
   for line in io.lines(filename) do all[#all + 1] = line end
   return all
end

--- Writes the rows of a small network.
function M.selftest()
   local basic = require("apps.basic.basic_apps")
   local directory = os.tmpname()
   os.remove(directory)
   assert(os.execute("mkdir " .. directory))
   local c = config.new()
   config.app(c, "source", basic.Source, 100)
   config.app(c, "sink", basic.Sink)
   config.app(c, "report", CSV, directory)
   config.link(c, "source.output -> sink.input")
   engine.configure(c)
   local csv = engine.app_table.report
   engine.breathe()
   engine.breathe()
   csv:write_rows()
   engine.configure(config.new())
   local apps, links = lines(directory .. "/app.csv"), lines(directory .. "/link.csv")
   assert(#apps == 7 and apps[1] == app_columns and apps[2]:match("^[%d.]+,report,.*,0,0,0$"))
   assert(#links == 3 and links[1] == link_columns)
   local n = 2 * engine.pull_npackets
   local expected = ("source,output,sink,input,%d,%d,%d,%d,0,0"):format(100 * n, n, 100 * n, n)
   assert(links[3]:match("^[%d.]+,(.*)$") == expected, links[3])
   os.remove(directory .. "/app.csv")
   os.remove(directory .. "/link.csv")
   os.remove(directory)
   assert(not pcall(CSV.new, CSV, directory .. "/none") and not pcall(CSV.new, CSV))
end

return M
