# SPDX-License-Identifier: MIT
# The shell: a line of Lua, a script with arguments, a module first, a path of one's own, a session, another program.
[ "$($SNABB snsh -e 'print(packet.max_payload)')" = 10240 ]
echo 'print(#main.parameters, main.parameters[2])' >"$WORK/script.lua"
[ "$($SNABB snsh "$WORK/script.lua" a b)" = "$(printf '2\tb')" ]
echo 'return {here = 7}' >"$WORK/mine.lua"
[ "$($SNABB snsh -P "$WORK/?.lua" -e 'print(require("mine").here)')" = 7 ]
[ "$($SNABB snsh -l lib.protocol.ipv4 -e 'print(package.loaded["lib.protocol.ipv4"] ~= nil)')" = true ]
printf 'x = 20 + 1\n=2 * 21\n' | $SNABB snsh -i | grep -q 42
$SNABB snsh -p unhexdump --help 2>&1 | grep -qi 'usage'
! $SNABB snsh -t no.such.module 2>/dev/null
