# SPDX-License-Identifier: MIT
# Hash functions.
$SNABB snabbmark hash
