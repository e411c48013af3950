# SPDX-License-Identifier: MIT
# The benchmark from one Solarflare card to another: it takes nothing else, and says so.
$SNABB snabbmark solarflare 1e5 128 10
