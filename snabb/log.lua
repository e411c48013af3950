-- SPDX-License-Identifier: MIT
-- log: messages of five levels to standard error, as programs for libmoon and its Snabb layer write them:
--   local log = require("log")
--   log:info("%d packets", n)
local M = {}

-- What messages begin with, by level, least important first.
local LEVELS = {"DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
local RANKS = {}
for rank, name in ipairs(LEVELS) do RANKS[name] = rank end

local threshold = RANKS.INFO

--- Messages below `level` ("DEBUG", "INFO", "WARN", "ERROR", "FATAL") are not written from now on. At first, that is
-- "INFO".
-- Errors: "unknown log level".
function M:setLevel(level)
   local rank = RANKS[tostring(level):upper()]
   if not rank then
      error("unknown log level '"..tostring(level).."', expected one of "..table.concat(LEVELS, ", "), 2)
   end
   threshold = rank
end

-- The message alone if there is nothing to fill in: it may have percent signs of its own.
local function fill_in(format, ...)
   format = tostring(format)
   if select("#", ...) == 0 then return format end
   local ok, text = pcall(string.format, format, ...)
   if ok then return text end
   local parts = {format}
   for i = 1, select("#", ...) do parts[#parts + 1] = tostring((select(i, ...))) end
   return table.concat(parts, " ")
end

local function write(level, ...)
   if RANKS[level] < threshold then return end
   io.stderr:write("[", level, "] ", fill_in(...), "\n")
end

--- Writes a message of the level DEBUG: `format` filled in as by string.format.
function M:debug(format, ...) write("DEBUG", format, ...) end

--- Writes a message of the level INFO: `format` filled in as by string.format.
function M:info(format, ...) write("INFO", format, ...) end

--- Writes a message of the level WARN: `format` filled in as by string.format.
function M:warn(format, ...) write("WARN", format, ...) end

--- Writes a message of the level ERROR: `format` filled in as by string.format.
function M:error(format, ...) write("ERROR", format, ...) end

--- Writes a message of the level FATAL: `format` filled in as by string.format. Then the process exits with status 1.
function M:fatal(format, ...)
   write("FATAL", format, ...)
   local main = package.loaded["core.main"]
   local exit = type(main) == "table" and main.exit or os.exit
   exit(1)
end

function M.selftest()
   local stderr, exit, main = io.stderr, os.exit, package.loaded["core.main"]
   local written, status = "", nil
   io.stderr = {write = function (_, ...) written = written..table.concat({...}) end}
   os.exit = function (code) status = code end
   package.loaded["core.main"] = nil
   local before = threshold
   local ok, message = pcall(function ()
      M:debug("hidden")
      M:info("%d packets, %s", 5, "all")
      M:warn("100%")
      M:error("%d", "no number", nil)
      M:setLevel("error")
      M:warn("hidden")
      M:setLevel("DEBUG")
      M:debug("shown")
      M:fatal("gone")
      assert(not pcall(M.setLevel, M, "LOUD"))
   end)
   io.stderr, os.exit, threshold = stderr, exit, before
   package.loaded["core.main"] = main
   assert(ok, message)
   assert(status == 1)
   assert(written == [=[
[INFO] 5 packets, all
[WARN] 100%
[ERROR] %d no number nil
[DEBUG] shown
[FATAL] gone
]=], written)
end

return M
