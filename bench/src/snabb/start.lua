-- SPDX-License-Identifier: MIT
-- start: source -> sink; says so as soon as the first packet was freed; runs on Snabb and on perigee.
--
-- snsh start.lua

local basic = require("apps.basic.basic_apps")
local counter = require("core.counter")

local c = config.new()
config.app(c, "source", basic.Source, 60)
config.app(c, "sink", basic.Sink)
config.link(c, "source.output -> sink.input")
engine.configure(c)
engine.main{done = function () return counter.read(engine.frees) > 0 end, no_report = true}
io.write("freed\n")
io.flush()
