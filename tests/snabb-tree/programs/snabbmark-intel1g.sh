# SPDX-License-Identifier: MIT
# The benchmark from one Intel card to another: it takes nothing else, and says so.
$SNABB snabbmark intel1g 1e5 128 10
