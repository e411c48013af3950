-- SPDX-License-Identifier: MIT
-- Messages with a level: log:info(format, ...), warn, error, debug; log:fatal throws. setLevel("WARN") hides those below.
require "libmoon.colors"

local log = { DEBUG = 0, INFO = 1, WARN = 2, ERROR = 3, FATAL = 4 }
log.level, log.fileLevel, log.file = log.INFO, log.DEBUG, "debug.log"

local function text(message, ...)
  return select("#", ...) > 0 and tostring(message):format(...) or (tostring(message):gsub("%%%%", "%%"))
end

function log:setLevel(level) self.level = self[level] or self.INFO end
function log:setFileLevel(level) self.fileLevel = self[level] or self.DEBUG end
function log:fileEnable() self.fileEnabled = true end
function log:fileDisable() self.fileEnabled = false end

local function to_file(self, level, line)
  if not self.fileEnabled or self[level] < self.fileLevel then return end
  local file = assert(io.open(self.file, "a"))
  file:write(getTimeMicros(), " ", line, "\n")
  file:close()
end

local function levels(level, label, paint)
  return function(self, message, ...)
    local line = label .. text(message, ...)
    if self[level] >= self.level then
      print(paint(line))
      io.stdout:flush()
    end
    to_file(self, level, line)
  end
end

local function plain(line) return line end
log.debug = levels("DEBUG", "[DEBUG] ", plain)
log.info = levels("INFO", "[INFO]  ", white)
log.warn = levels("WARN", "[WARN]  ", yellow)
log.error = levels("ERROR", "[ERROR] ", bred)

function log:fatal(message, ...)
  local line = text(message, ...)
  to_file(self, "FATAL", "[FATAL] " .. line)
  error(line, 2)
end

return log
