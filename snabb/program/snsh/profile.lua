-- SPDX-License-Identifier: MIT
-- program.snsh.profile: a sampling profiler on LuaJIT's jit.profile, for where LuaJIT's own module jit.p is not
-- installed. Options are jit.p's, of which these are known: "f" (by function, as without), "l" (by line), "iN" (a
-- sample each N milliseconds, 1 if omitted).

local M = {}

local samples, total, output, stop_profile

--- Start to take samples. *options* as above; the report goes to *file* (a name), or to standard error. Errors if
--- LuaJIT was built without jit.profile, or if the file cannot be written.
function M.start (options, file)
   options = options or ""
   local profile = require("jit.profile")
   samples, total = {}, 0
   output = file and assert(io.open(file, "w")) or io.stderr
   local what = options:find("l", 1, true) and "pl" or "pF"
   stop_profile = profile.stop
   local mode = (what == "pl" and "l" or "f")..(options:match("i%d+") or "i1")
   profile.start(mode, function (thread, count)
      local where = profile.dumpstack(thread, what, 1)
      samples[where] = (samples[where] or 0) + count
      total = total + count
   end)
end

--- Stop, and write the places with at least one sample in a hundred, most first. Returns the number of samples.
function M.stop ()
   if not stop_profile then return 0 end
   stop_profile()
   stop_profile = nil
   local places = {}
   for where, count in pairs(samples) do places[#places + 1] = {where = where, count = count} end
   table.sort(places, function (a, b) return a.count > b.count or a.count == b.count and a.where < b.where end)
   output:write(("%d samples\n"):format(total))
   for _, place in ipairs(places) do
      local share = 100 * place.count / total
      if share >= 1 then output:write(("%5.1f%%  %s\n"):format(share, place.where)) end
   end
   output:flush()
   if output ~= io.stderr then output:close() end
   return total
end

function M.selftest ()
   local name = os.tmpname()
   assert(M.stop() == 0)
   M.start("l", name)
   local start = os.clock()
   while os.clock() - start < 0.05 do
      for i = 1, 1000 do assert(i * i >= i) end
   end
   local count = M.stop()
   local text = io.open(name):read("*a")
   assert(tonumber(text:match("^(%d+) samples\n")) == count)
   if count > 0 then assert(text:match("%%  %S")) end
   os.remove(name)
   assert(not pcall(M.start, "f", "/none/such") and M.stop() == 0)
end

return M
