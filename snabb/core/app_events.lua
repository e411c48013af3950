-- SPDX-License-Identifier: MIT
-- The events of an app, for core.timeline, which describes the format. Names and arguments are Snabb's.

return [[
3,3|pull: inpackets inbytes outpackets outbytes droppackets dropbytes
The engine calls the app's pull function. The arguments are totals of the app's links.

3,3|pulled: inpackets inbytes outpackets outbytes droppackets dropbytes
The app's pull function has returned.

3,3|push: inpackets inbytes outpackets outbytes droppackets dropbytes
The engine calls the app's push function.

3,3|pushed: inpackets inbytes outpackets outbytes droppackets dropbytes
The app's push function has returned.

3,3|tick: inpackets inbytes outpackets outbytes droppackets dropbytes
The engine calls the app's tick function.

3,3|ticked: inpackets inbytes outpackets outbytes droppackets dropbytes
The app's tick function has returned.
]]
