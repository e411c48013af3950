# SPDX-License-Identifier: MIT
# packetblaster's own tests: lwaftr's traffic, byte by byte, and into a TAP. The rest of them wants cards, and says so by 43.
mkdir "$WORK/bin"
printf '#!/bin/sh\nexec "$@"\n' >"$WORK/bin/sudo" # we may do all of it
chmod +x "$WORK/bin/sudo"
status=0
PATH=$WORK/bin:$PATH program/packetblaster/selftest.sh || status=$?
[ "$status" = 43 ] || exit "$status"
