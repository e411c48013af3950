-- SPDX-License-Identifier: MIT
-- Constants of Ethernet.
require "libmoon.packet"
return {
  TYPE_IP = 0x0800, TYPE_ARP = 0x0806, TYPE_IP6 = 0x86dd, TYPE_PTP = 0x88f7, TYPE_8021Q = 0x8100, TYPE_LACP = 0x8809,
  BROADCAST = "ff:ff:ff:ff:ff:ff",
}
