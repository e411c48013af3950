# SPDX-License-Identifier: MIT
# Snabb's benchmark with ten apps that wait on a throttle, in `push`.
$SNABB snabbmark basic1_events 1e6
