-- SPDX-License-Identifier: MIT
-- Constants of UDP: well-known ports.
require "libmoon.packet"
return { PORT_DNS = 53, PORT_PTP_EVENTS = 319, PORT_PTP_GENERAL_MESSAGES = 320, PORT_VXLAN = 4789 }
