-- SPDX-License-Identifier: MIT
-- apps.dpdk.group: which processes of a group (core.worker) have which queues of a Linux interface. A card gives every
-- process the flows of its queues; an interface gives every process all packets, so that each has to know its part.

local ffi = require("ffi")
local shm = require("core.shm")
local sys = require("core.sys")

local M = {}

local owner_t = ffi.typeof("struct { int32_t pid; }")

local function folder (device, pool)
   return ("group/ports/%s/%s"):format((device:gsub("[^%w_.%-]", "_")), pool)
end

-- The process that has a queue, if it lives.
local function owner (name)
   local ok, object = pcall(shm.open, name, owner_t, true)
   if not ok then return nil end
   local pid = object.pid
   shm.unmap(object)
   return pid ~= 0 and sys.alive(pid) and pid or nil
end

--- Write down that this process has a queue, a number, of a pool, a text. Errors if another one has it.
function M.claim (device, pool, queue)
   local name = folder(device, pool).."/"..queue
   local other = shm.exists(name) and owner(name)
   if other and other ~= sys.getpid() then
      error(("port %s: receive queue %d is in use by process %d, of the same group"):format(device, queue, other), 0)
   end
   local object = shm.create(name, owner_t)
   object.pid = sys.getpid()
   shm.unmap(object)
end

--- Take that back.
function M.release (device, pool, queue)
   shm.unlink(folder(device, pool).."/"..queue)
end

--- The numbers of a pool's queues that processes have, sorted, and whether there are others' among them.
function M.queues (device, pool)
   local list, others, path = {}, false, folder(device, pool)
   for _, name in ipairs(shm.children(path)) do
      local queue = tonumber(name)
      local pid = queue and owner(path.."/"..name)
      if pid then
         list[#list + 1] = queue
         others = others or pid ~= sys.getpid()
      end
   end
   table.sort(list)
   return list, others
end

function M.selftest ()
   local device, pool = "selftest,x=/y", "any"
   M.claim(device, pool, 10)
   M.claim(device, pool, 9)
   M.claim(device, pool, 9)
   local list, others = M.queues(device, pool)
   assert(table.concat(list, " ") == "9 10" and not others)
   -- Of another process, and of one that is gone.
   local function has (queue, pid)
      local object = shm.create(folder(device, pool).."/"..queue, owner_t)
      object.pid = pid
      shm.unmap(object)
   end
   has(11, sys.getppid())
   list, others = M.queues(device, pool)
   assert(table.concat(list, " ") == "9 10 11" and others)
   local ok, why = pcall(M.claim, device, pool, 11)
   assert(not ok and why:match("receive queue 11 is in use by process "..sys.getppid()), why)
   local dead = assert(sys.spawn("/bin/true", {"true"}, {}))
   assert(sys.reap(dead, true) == 0)
   has(11, dead)
   assert(#M.queues(device, pool) == 2)
   M.claim(device, pool, 11)
   for _, queue in ipairs{9, 10, 11} do M.release(device, pool, queue) end
   assert(#M.queues(device, pool) == 0)
   shm.unlink("group/ports/selftest_x__y")
end

return M
