-- SPDX-License-Identifier: MIT
-- So many clients that talk to so many servers, of which a few get most of the traffic:
--   perigee gen eth1 --script clients.lua -- [CLIENTS] [SERVERS]
local clients, servers = tonumber((...)) or 1000, tonumber((select(2, ...))) or 20
if clients < 1 or clients > 65534 or servers < 1 or servers > 65534 then error("expected 1 to 65534 clients and servers", 0) end

-- The nth host of a network of 65,536 addresses.
local function host(network, n) return ("%s.%d.%d"):format(network, math.floor(n / 256), n % 256) end

traffic = {
  sizes = "imix",
  source = ("%s-%s"):format(host("198.18", 1), host("198.18", clients)),
  destination = ("zipf(1.1):%s-%s"):format(host("198.19", 1), host("198.19", servers)),
  source_port = "random:49152-65535",
  destination_port = 443,
  flows = clients,
}
