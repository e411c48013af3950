-- SPDX-License-Identifier: MIT
-- Filters are functions of devices and queues: dev:l2Filter, dev:fiveTupleFilter, rxQueue:filterUdpTimestamps and others.
return { DROP = require("libmoon.device").__devicePrototype.DROP }
