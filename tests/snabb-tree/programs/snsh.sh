# SPDX-License-Identifier: MIT
# A line of Lua.
[ "$($SNABB snsh -e 'print(packet.max_payload)')" = 10240 ]
