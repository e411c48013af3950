-- SPDX-License-Identifier: MIT
-- lib.cpuset: a set of CPUs that workers are given one each from, near to their devices if possible.
--
-- What differs from Snabb: CPUs are given in ascending order.
local numa = require("lib.numa")

local M = {}
local sorted_keys = require("core.lib").sorted_keys
local CPUSet = {}

--- A new, empty set.
function M.new()
   -- By node: {[cpu] = true (available) or false (in use)}.
   return setmetatable({by_node = {}}, {__index = CPUSet})
end

local global

--- The set of the process, always the same one.
function M.global_cpuset()
   global = global or M.new()
   return global
end

local function cpus_of(self, cpu)
   return self.by_node[numa.cpu_get_numa_node(cpu)] or {}
end

--- Binds the process to the NUMA node of the set's CPUs, and to its CPUs that are not isolated; says so. Does nothing
-- but say so if they are on several nodes, or there are none.
function CPUSet:bind_to_numa_node()
   local nodes = sorted_keys(self.by_node)
   if #nodes == 0 then
      print("No CPUs available; not binding to any NUMA node.")
   elseif #nodes > 1 then
      print("CPUs available from multiple NUMA nodes: "..table.concat(nodes, ","))
      print("Not binding to any NUMA node.")
   else
      local isolated, cpus = numa.isolated_cpus(), {}
      for _, cpu in ipairs(sorted_keys(numa.node_cpus(nodes[1]))) do
         if not isolated[cpu] then cpus[#cpus + 1] = cpu end
      end
      assert(#cpus > 0, "no CPUs available on NUMA node "..nodes[1])
      numa.bind_to_numa_node(nodes[1])
      numa.bind_to_cpu(cpus, "skip-perf-checks")
      print(("Bound main process to NUMA node: %s (CPU %s)"):format(nodes[1], cpus[1]))
   end
end

--- Adds the CPUs that the string `cpus` ("0-3,8") denotes.
function CPUSet:add_from_string(cpus)
   for _, cpu in ipairs(sorted_keys(numa.parse_cpuset(cpus))) do self:add(cpu) end
end

--- Adds a CPU. Errors: "CPU already in set".
function CPUSet:add(cpu)
   local node = numa.cpu_get_numa_node(cpu)
   local cpus = self.by_node[node] or {}
   self.by_node[node] = cpus
   if cpus[cpu] ~= nil then error("CPU already in set: "..cpu) end
   cpus[cpu] = true
end

--- Whether the CPU is in the set, in use or not.
function CPUSet:contains(cpu)
   return cpus_of(self, cpu)[cpu] ~= nil
end

--- Removes a CPU; warns if it is in use. Errors: "CPU not in set".
function CPUSet:remove(cpu)
   if not self:contains(cpu) then error("CPU not in set: "..cpu) end
   local cpus = cpus_of(self, cpu)
   if cpus[cpu] == false then print("Warning: removing bound CPU from set: "..cpu) end
   cpus[cpu] = nil
   if next(cpus) == nil then self.by_node[numa.cpu_get_numa_node(cpu)] = nil end
end

--- An array of all CPUs of the set, by node.
function CPUSet:list()
   local list = {}
   for _, node in ipairs(sorted_keys(self.by_node)) do
      for _, cpu in ipairs(sorted_keys(self.by_node[node])) do list[#list + 1] = cpu end
   end
   return list
end

--- Like `acquire`, on the node of the PCI devices at the addresses of the array `addresses`.
function CPUSet:acquire_for_pci_addresses(addresses, worker)
   return self:acquire(numa.choose_numa_node_for_pci_addresses(addresses), worker)
end

-- Takes an available CPU of the node.
local function take(self, node)
   for _, cpu in ipairs(sorted_keys(self.by_node[node] or {})) do
      if self.by_node[node][cpu] then
         self.by_node[node][cpu] = false
         return cpu
      end
   end
end

--- Takes an available CPU of the NUMA node `on_node` (nil: any) for the worker called `worker`, and returns it. If
-- there is none on that node: one of another, with a warning. If there is none at all: nil, with a warning.
function CPUSet:acquire(on_node, worker)
   if on_node ~= nil then
      local cpu = take(self, on_node)
      if cpu then return cpu end
   end
   for _, node in ipairs(sorted_keys(self.by_node)) do
      local cpu = take(self, node)
      if cpu then
         if on_node ~= nil then
            print("Warning: No CPU available on local NUMA node "..on_node)
            print("Warning: Assigning CPU "..cpu.." from remote node "..node)
         end
         return cpu
      end
   end
   local why = next(self.by_node) and "All assignable CPUs in use" or "No assignable CPUs declared"
   print(("Warning: %s; leaving data-plane worker '%s' without assigned CPU."):format(why, tostring(worker)))
   return nil
end

--- Gives back a CPU that `acquire` has taken. Errors: if it has not.
function CPUSet:release(cpu)
   local cpus = cpus_of(self, cpu)
   if cpus[cpu] == nil then error("CPU not in set: "..tostring(cpu)) end
   if cpus[cpu] then error("CPU is not in use: "..cpu) end
   cpus[cpu] = true
end

function M.selftest()
   local said = {}
   local print_before = print
   rawset(_G, "print", function (text) said[#said + 1] = text end)
   local ok, message = pcall(function ()
      local set = M.new()
      set:add_from_string("1,0")
      assert(set:contains(0) and set:contains(1) and not set:contains(2) and #set:list() == 2)
      assert(not pcall(set.add, set, 1) and not pcall(set.remove, set, 2) and not pcall(set.release, set, 0))
      local first = set:acquire(nil, "a")
      assert(first == 0 and set:acquire(nil, "b") == 1 and set:acquire(nil, "c") == nil)
      assert(said[1]:find("All assignable CPUs in use; leaving data-plane worker 'c'", 1, true))
      set:release(1)
      assert(set:acquire(99, "d") == 1 and said[2]:find("No CPU available on local NUMA node 99", 1, true))
      set:remove(1)
      assert(said[4]:find("removing bound CPU", 1, true) and table.concat(set:list(), ",") == "0")
      set:remove(0)
      assert(set:acquire(nil, "e") == nil and said[#said]:find("No assignable CPUs declared", 1, true))
      set:bind_to_numa_node()
      assert(said[#said] == "No CPUs available; not binding to any NUMA node.")
      assert(M.global_cpuset() == M.global_cpuset())
   end)
   rawset(_G, "print", print_before)
   assert(ok, message)
end

return M
