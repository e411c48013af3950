-- SPDX-License-Identifier: MIT
-- The events of the engine, for core.timeline, which describes the format. Names and arguments are Snabb's.

return [[
0,6|engine_started:
The engine begins to process packets.

0,6|engine_stopped:
The engine has stopped processing packets.

1,5|breath_start: breath totalpackets totalbytes totaletherbits
A breath begins. The totals are what has been freed since the process started; totaletherbits includes preamble, gap
and CRC.

1,5|breath_end: breath npackets bpp
A breath has ended: npackets packets were freed in it, of bpp bytes each on average.

2,3|got_monotonic_time: unixnanos
The clock was read for this breath. unixnanos is the wall clock, by which other times can be aligned.

2,4|breath_pulled:
All pull functions of this breath have run.

2,4|breath_pushed:
All push functions of this breath have run.

2,4|breath_ticked:
All tick functions of this breath have run.

1,4|commited_counters:
The counters were published.

1,4|polled_timers:
The timers that were due have run.

1,4|sleep_Hz: usec Hz
The engine sleeps so as to have Hz breaths in a second.

1,4|sleep_on_idle: usec
The engine sleeps because there were no packets.

1,4|wakeup_from_sleep:
The engine has slept.
]]
