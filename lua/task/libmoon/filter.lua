-- SPDX-License-Identifier: MIT
-- Filters are functions of devices and queues: dev:l2Filter, dev:fiveTupleFilter, rxQueue:filterUdpTimestamps and others.
return { DROP = require("device").__devicePrototype.DROP }
