# SPDX-License-Identifier: MIT
# Snabb's benchmark with ten apps that wait on a throttle, in `tick`.
$SNABB snabbmark basic1_tick 1e6
