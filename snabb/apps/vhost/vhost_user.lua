-- SPDX-License-Identifier: MIT
-- apps.vhost.vhost_user: the virtio network device of a guest, such as QEMU, over a vhost-user socket, by DPDK's vhost device
-- (https://qemu-project.gitlab.io/qemu/interop/vhost-user.html). For programs without a Snabb tree: a tree's own app of this name
-- comes first.
--
-- Differs from Snabb: DPDK negotiates the features, so disable_mrg_rxbuf and disable_indirect_desc do nothing; a guest that goes
-- away may come back at any time, in both roles.

local hardware = require("apps.dpdk.hardware")
local Port = require("apps.dpdk.port")

local M = {}

--- A guest's device; {socket_path =, is_server =}: the socket is listened at if is_server is true, else connected to. Packets from
--- the guest go to the output `tx`, what comes by `rx` goes to the guest.
M.VhostUser = {
   config = {socket_path = {required = true}, is_server = {}, disable_mrg_rxbuf = {}, disable_indirect_desc = {}},
}
local VhostUser = M.VhostUser

-- DPDK's device for a socket.
local function device (conf)
   local path = conf.socket_path
   if type(path) ~= "string" or path == "" or path:find("[,%s]") or #path > 107 then
      error(("vhost_user: socket_path: expected a path of at most 107 bytes without commas and spaces, got %s"):format(
         tostring(path)), 0)
   end
   return ("net_vhost_%s,iface=%s,queues=1,client=%d"):format(path:gsub("%W", "_"):sub(-40), path, conf.is_server and 0 or 1)
end

--- The device and the queue of an app with this argument.
function VhostUser.port_of (conf)
   return device(conf), 0, ""
end

--- Makes the app. Errors if the socket cannot be listened at.
function VhostUser:new (conf)
   for _, key in ipairs{"disable_mrg_rxbuf", "disable_indirect_desc"} do
      if conf[key] then hardware.notice("VhostUser", "DPDK negotiates features with the guest: "..key.." does nothing") end
   end
   return Port:new{port = device(conf), address = "vhost"..conf.socket_path:gsub("%W", "_")}
end

function M.selftest ()
   local config, engine, link = require("core.config"), require("core.app"), require("core.link")
   local packet, sys = require("core.packet"), require("core.sys")
   for _, bad in ipairs{"", "a,b", "a b", ("x"):rep(108)} do assert(not pcall(device, {socket_path = bad})) end
   local path = os.tmpname()
   os.remove(path)
   for _, is_server in ipairs{true, false} do
      local c = config.new()
      config.app(c, "guest", VhostUser, {socket_path = path, is_server = is_server})
      config.app(c, "sink", require("apps.basic.basic_apps").Sink)
      config.app(c, "tee", require("apps.basic.basic_apps").Tee)
      config.link(c, "guest.tx -> sink.input")
      config.link(c, "tee.output -> guest.rx")
      engine.configure(c)
      assert((sys.stat(path) ~= nil) == is_server)
      -- Nobody is there: packets wait.
      link.transmit(engine.link_table["tee.output -> guest.rx"], packet.from_string(("x"):rep(60)))
      for _ = 1, 5 do engine.breathe() end
      assert(link.nreadable(engine.link_table["tee.output -> guest.rx"]) == 1)
      assert(not engine.app_table.guest:link_status())
      engine.stop()
      assert(not sys.stat(path))
   end
   assert(packet.outstanding() == 0)
end

return M
