# SPDX-License-Identifier: MIT
# Snabb's benchmark with push methods that an app makes for each link.
$SNABB snabbmark basic1_push_link 1e6
