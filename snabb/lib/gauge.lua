-- SPDX-License-Identifier: MIT
-- lib.gauge: numbers of double precision in shared memory: the shm type "gauge".
local ffi = require("ffi")
local shm = require("core.shm")

local M = {}

local gauge_t = ffi.metatype(ffi.typeof("struct { double g; }"), {
   __tostring = function (gauge) return ("%f"):format(gauge.g) end
})

--- Creates the gauge `name` with the value `initial` (default 0) and returns it.
function M.create(name, initial)
   local gauge = shm.create(name, gauge_t)
   gauge.g = initial or 0
   return gauge
end

--- Opens the gauge `name` for reading.
function M.open(name)
   return shm.open(name, gauge_t, "readonly")
end

--- Sets the gauge to `value`.
function M.set(gauge, value)
   gauge.g = value
end

--- The gauge's value.
function M.read(gauge)
   return gauge.g
end

M.type = shm.register("gauge", M)

function M.selftest()
   local a = M.create("lib.gauge/gauge/a", 1.42)
   local reader = M.open("lib.gauge/gauge/a")
   local b = M.create("lib.gauge/gauge/b")
   assert(M.read(a) == 1.42 and M.read(reader) == 1.42 and M.read(b) == 0)
   M.set(a, 0.125)
   assert(M.read(reader) == 0.125 and M.read(b) == 0 and tostring(reader) == "0.125000")
   for _, gauge in ipairs {a, reader, b} do shm.unmap(gauge) end
   shm.unlink("lib.gauge")
end

return M
