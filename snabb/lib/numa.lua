-- SPDX-License-Identifier: MIT
-- lib.numa: binds the process to CPUs and to the memory of their NUMA node.
--
-- What differs from Snabb: unbinding gives the process back the CPUs that it had; a CPU set is checked for its syntax
-- ("0-" or "a" is an error that says so).
local ffi = require("ffi")
local lib = require("core.lib")

ffi.cdef [[
int perigee_numa_setaffinity(int pid, size_t size, const void *mask) __asm__("sched_setaffinity");
int perigee_numa_getaffinity(int pid, size_t size, void *mask) __asm__("sched_getaffinity");
int perigee_numa_setscheduler(int pid, int policy, const int *priority) __asm__("sched_setscheduler");
long perigee_numa_syscall(long number, ...) __asm__("syscall");
char *perigee_numa_strerror(int) __asm__("strerror");
]]
local C = ffi.C

-- Linux; the numbers of system calls are the architecture's.
local SYSCALL = ffi.arch == "arm64" and {get_mempolicy = 236, set_mempolicy = 237, migrate_pages = 238, getcpu = 168}
   or {get_mempolicy = 239, set_mempolicy = 238, migrate_pages = 256, getcpu = 309}
local MPOL = {default = 0, preferred = 1, bind = 2, interleave = 3}
local MPOL_F_MEMS_ALLOWED = 4
local SCHED_FIFO = 1
local MAX_CPU, MAX_NODE = 1023, 1023

-- Another folder in the selftest.
local sys = "/sys"
local function node_path(node) return sys.."/devices/system/node/node"..node end
local mask_t = ffi.typeof("uint8_t[128]")

local M = {}

local bound_cpu, bound_numa_node, original_affinity

local function warn(format, ...)
   io.stderr:write(("Warning: "..format.."\n"):format(...))
   io.stderr:flush()
end

local function die(format, ...)
   error(format:format(...), 0)
end

local function system_error(what)
   error(what..": "..ffi.string(C.perigee_numa_strerror(ffi.errno())), 0)
end

local function exists(path)
   local file = io.open(path)
   if file then file:close() end
   return file ~= nil
end

local function set_bit(mask, n) mask[math.floor(n / 8)] = bit.bor(mask[math.floor(n / 8)], 2^(n % 8)) end
local function clear_bit(mask, n) mask[math.floor(n / 8)] = bit.band(mask[math.floor(n / 8)], 255 - 2^(n % 8)) end
local function has_bit(mask, n) return bit.band(mask[math.floor(n / 8)], 2^(n % 8)) ~= 0 end

--- The set, a table {[cpu] = true}, that the string `cpus` ("0-3,8") denotes. Errors: "invalid CPU set".
function M.parse_cpuset(cpus)
   local set = {}
   if cpus:find("^%s*$") then return set end
   for range in lib.split(cpus, ",") do
      local low, high = range:match("^%s*(%d+)%s*%-%s*(%d+)%s*$")
      low = low or range:match("^%s*(%d+)%s*$")
      low, high = tonumber(low), tonumber(high or low)
      if not low or low > high or high > 65535 then
         error("invalid CPU set '"..cpus.."': expected CPUs and ranges, as in 0-3,8", 0)
      end
      for cpu = low, high do set[cpu] = true end
   end
   return set
end

local function parse_file(path)
   if not exists(path) then return {} end
   return M.parse_cpuset(lib.readfile(path, "*a"))
end

--- The set of CPUs of the NUMA node `node`.
function M.node_cpus(node)
   return parse_file(node_path(node).."/cpulist")
end

--- The set of CPUs that the kernel's scheduler leaves alone (isolcpus).
function M.isolated_cpus()
   return parse_file(sys.."/devices/system/cpu/isolated")
end

--- The NUMA node of the CPU `cpu`; 0 where that is not known.
function M.cpu_get_numa_node(cpu)
   local node = 0
   while exists(node_path(node).."/cpulist") do
      if M.node_cpus(node)[tonumber(cpu)] then return node end
      node = node + 1
   end
   return 0
end

--- Whether there is more than one NUMA node.
function M.has_numa()
   return exists(node_path(1).."/cpulist")
end

local function qualified(address)
   address = tostring(address)
   return address:find("^%x+:%x+:%x+%.%x+$") and address or "0000:"..address
end

--- The NUMA node of the PCI device at the address `address` ("0000:01:00.0" or "01:00.0"). Errors: if there is none.
function M.pci_get_numa_node(address)
   local path = sys.."/bus/pci/devices/"..qualified(address).."/numa_node"
   if not exists(path) then error("no PCI device "..qualified(address), 0) end
   -- -1 means that it is not known.
   return math.max(0, tonumber(lib.firstline(path)))
end

--- The NUMA node of the PCI devices at the addresses of the array `addresses`: that of the first, if they are on
-- several, which is a warning, or, with `require_affinity`, an error. nil for none.
function M.choose_numa_node_for_pci_addresses(addresses, require_affinity)
   local chosen, because
   for _, address in ipairs(addresses) do
      local node = M.pci_get_numa_node(address)
      if chosen == nil then
         chosen, because = node, address
      elseif node ~= chosen then
         local tell = require_affinity and die or warn
         tell("PCI devices %s and %s have different NUMA node affinities", because, address)
      end
   end
   return chosen
end

local function long(n) return ffi.cast("long", n) end

-- The CPU and the node that the process is running on.
local function current_cpu()
   local cpu, node = ffi.new("unsigned int[1]"), ffi.new("unsigned int[1]")
   if C.perigee_numa_syscall(SYSCALL.getcpu, cpu, node, long(0)) ~= 0 then system_error("getcpu") end
   return cpu[0], node[0]
end

local function memory_policy()
   local mode = ffi.new("int[1]")
   -- It may be forbidden, as in containers.
   if C.perigee_numa_syscall(SYSCALL.get_mempolicy, mode, long(0), long(0), long(0), long(0)) ~= 0 then return nil end
   return mode[0]
end

--- Warns if the process' memory is not on the node of the PCI devices at the addresses of the array `addresses`.
function M.check_affinity_for_pci_addresses(addresses)
   local policy = memory_policy()
   if policy == nil or policy == MPOL.default then
      if M.has_numa() then
         warn("No NUMA memory affinity.\nPass --cpu to bind to a CPU and its NUMA node.")
      end
   elseif policy ~= MPOL.bind and policy ~= MPOL.preferred then
      warn("NUMA memory policy already in effect, but it's not --membind or --preferred.")
   else
      local _, node = current_cpu()
      local wanted = M.choose_numa_node_for_pci_addresses(addresses)
      if wanted and node ~= wanted then warn("Bound NUMA node does not have affinity with PCI devices.") end
   end
end

local function check_performance(cpu)
   local path = "/sys/devices/system/cpu/cpu"..cpu.."/cpufreq/scaling_governor"
   local governor = exists(path) and lib.firstline(path) or "unknown"
   if governor ~= "performance" then
      warn('Expected performance scaling governor for CPU %s, but got "%s"', cpu, governor)
   end
   if not M.isolated_cpus()[cpu] then warn("Expected dedicated core, but CPU %s is not in isolcpus set", cpu) end
end

--- Gives the process back the CPUs that it had before bind_to_cpu.
function M.unbind_cpu()
   if original_affinity and C.perigee_numa_setaffinity(0, ffi.sizeof(mask_t), original_affinity) ~= 0 then
      system_error("sched_setaffinity")
   end
   bound_cpu = nil
end

--- Binds the process to the CPU `cpu` (a number, or an array of some) and its memory to their NUMA node; with nil,
-- unbinds it. Warns of a CPU that is not tuned for performance, unless `skip_perf_checks`. Errors: "already bound";
-- if there is no such CPU.
function M.bind_to_cpu(cpu, skip_perf_checks)
   if not cpu then return M.unbind_cpu() end
   if cpu == bound_cpu then return end
   if bound_cpu then error("already bound", 0) end
   local cpus = type(cpu) == "table" and cpu or {cpu}
   local before, mask = mask_t(), mask_t()
   for _, n in ipairs(cpus) do
      n = tonumber(n)
      if not n or n < 0 or n > MAX_CPU or n % 1 ~= 0 then
         error("no such CPU: "..tostring(n)..", expected 0 to "..MAX_CPU, 0)
      end
      set_bit(mask, n)
   end
   if C.perigee_numa_getaffinity(0, ffi.sizeof(mask_t), before) < 0 then system_error("sched_getaffinity") end
   if C.perigee_numa_setaffinity(0, ffi.sizeof(mask_t), mask) ~= 0 then
      system_error("Couldn't set affinity for cpuset "..table.concat(cpus, ","))
   end
   original_affinity = before
   local running_on, node = current_cpu()
   bound_cpu = running_on
   M.bind_to_numa_node(node)
   if not skip_perf_checks then check_performance(bound_cpu) end
end

--- Takes back bind_to_numa_node.
function M.unbind_numa_node()
   if bound_numa_node and M.has_numa() then
      if C.perigee_numa_syscall(SYSCALL.set_mempolicy, long(MPOL.default), long(0), long(0)) ~= 0 then
         system_error("set_mempolicy")
      end
   end
   bound_numa_node = nil
end

-- Moves the pages that the process has on other nodes than `node` there.
local function migrate_pages(node)
   local from, to = mask_t(), mask_t()
   local bits = long(MAX_NODE + 1)
   if C.perigee_numa_syscall(SYSCALL.get_mempolicy, ffi.cast("void *", 0), from, bits, long(0),
                             long(MPOL_F_MEMS_ALLOWED)) ~= 0 then
      return
   end
   clear_bit(from, node)
   set_bit(to, node)
   if C.perigee_numa_syscall(SYSCALL.migrate_pages, long(0), bits, from, to) < 0 then
      warn("Failed to migrate pages to NUMA node %d: %s", node, ffi.string(C.perigee_numa_strerror(ffi.errno())))
   end
end

--- Makes the process take its memory from the NUMA node `node`, and moves there what it has; with nil, takes that
-- back. `policy`: "preferred" (default) or "bind". Does nothing where there is one node only. Errors: "already
-- bound".
function M.bind_to_numa_node(node, policy)
   if node == bound_numa_node then return end
   if not node then return M.unbind_numa_node() end
   if bound_numa_node then error("already bound", 0) end
   if M.has_numa() then
      local mode = MPOL[policy or "preferred"]
      if not mode then error("unknown memory policy '"..tostring(policy).."'", 0) end
      local mask = mask_t()
      set_bit(mask, node)
      if C.perigee_numa_syscall(SYSCALL.set_mempolicy, long(mode), mask, long(MAX_NODE + 1)) ~= 0 then
         system_error("set_mempolicy")
      end
      migrate_pages(node)
   end
   bound_numa_node = node
end

--- Makes the process a real-time one, which others do not interrupt, of the `priority` 1 (default) to 99. Errors: if
-- it may not.
function M.prevent_preemption(priority)
   if C.perigee_numa_setscheduler(0, SCHED_FIFO, ffi.new("int[1]", priority or 1)) ~= 0 then
      error("Failed to enable real-time scheduling.  Try running as root.", 0)
   end
end

local function test_binding()
   local mask = mask_t()
   assert(C.perigee_numa_getaffinity(0, ffi.sizeof(mask_t), mask) == 0)
   local available, count = {}, 0
   for cpu = 0, MAX_CPU do
      if has_bit(mask, cpu) then available[#available + 1] = cpu end
   end
   for _, cpu in ipairs(available) do
      M.bind_to_cpu(cpu, "skip-perf-checks")
      local running_on, node = current_cpu()
      assert(running_on == cpu and bound_cpu == cpu and bound_numa_node == node)
      assert(M.cpu_get_numa_node(cpu) == node or not exists(node_path(0).."/cpulist"))
      M.bind_to_cpu(cpu)
      assert(not pcall(M.bind_to_cpu, {cpu}, true), "already bound")
      assert(not pcall(M.bind_to_numa_node, node + 1))
      M.bind_to_cpu(nil)
      M.bind_to_numa_node(nil)
      assert(bound_cpu == nil and bound_numa_node == nil)
      count = count + 1
      if count == 4 then break end
   end
   local after = mask_t()
   C.perigee_numa_getaffinity(0, ffi.sizeof(mask_t), after)
   assert(lib.equal(mask, after), "affinity restored")
   M.bind_to_cpu(available, true)
   M.bind_to_cpu(nil)
   M.bind_to_numa_node(nil)
   for _, bad in ipairs {-1, 1024, 0.5, "x", {0, -1}} do assert(not pcall(M.bind_to_cpu, bad, true)) end
end

-- A machine of two nodes, as far as its files go.
local function test_two_nodes()
   local root = os.tmpname()
   os.remove(root)
   local files = {
      ["/devices/system/node/node0/cpulist"] = "0-1,4\n", ["/devices/system/node/node1/cpulist"] = "2-3,5\n",
      ["/devices/system/cpu/isolated"] = "2-3\n", ["/bus/pci/devices/0000:01:00.0/numa_node"] = "0\n",
      ["/bus/pci/devices/0000:81:00.0/numa_node"] = "1\n", ["/bus/pci/devices/0000:81:00.1/numa_node"] = "1\n",
      ["/bus/pci/devices/0000:02:00.0/numa_node"] = "-1\n",
   }
   for path, text in pairs(files) do
      assert(os.execute("mkdir -p '"..root..path:match("^(.*)/").."'"))
      local file = assert(io.open(root..path, "w"))
      file:write(text)
      file:close()
   end
   sys = root
   assert(M.has_numa() and lib.equal(M.node_cpus(1), {[2] = true, [3] = true, [5] = true}))
   assert(M.cpu_get_numa_node(4) == 0 and M.cpu_get_numa_node(5) == 1 and M.cpu_get_numa_node("3") == 1)
   assert(M.cpu_get_numa_node(99) == 0 and lib.equal(M.isolated_cpus(), {[2] = true, [3] = true}))
   assert(M.pci_get_numa_node("81:00.0") == 1 and M.pci_get_numa_node("0000:02:00.0") == 0)
   assert(M.choose_numa_node_for_pci_addresses({"81:00.0", "0000:81:00.1"}, true) == 1)
   local ok, message = pcall(M.choose_numa_node_for_pci_addresses, {"81:00.0", "01:00.0"}, true)
   assert(not ok and message == "PCI devices 81:00.0 and 01:00.0 have different NUMA node affinities")
   sys = "/sys"
   os.execute("rm -r '"..root.."'")
end

function M.selftest()
   assert(lib.equal(M.parse_cpuset("0-2,7"), {[0] = true, [1] = true, [2] = true, [7] = true}))
   assert(lib.equal(M.parse_cpuset(" 1 , 3 - 4\n"), {[1] = true, [3] = true, [4] = true}))
   assert(next(M.parse_cpuset("")) == nil and next(M.parse_cpuset("\n")) == nil and M.parse_cpuset("5-5")[5])
   for _, bad in ipairs {"a", "1,", "3-1", "1-", "-1", "1 2", "0-99999999"} do
      local ok, message = pcall(M.parse_cpuset, bad)
      assert(not ok and message:find("invalid CPU set '"..bad.."'", 1, true), bad)
   end
   local ok, message = pcall(M.pci_get_numa_node, "ff:1f.7")
   assert(not ok and message == "no PCI device 0000:ff:1f.7")
   assert(M.choose_numa_node_for_pci_addresses({}) == nil and type(M.isolated_cpus()) == "table")
   test_two_nodes()
   test_binding()
end

return M
