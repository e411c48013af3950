# SPDX-License-Identifier: MIT
# Hash tables.
$SNABB snabbmark ctable
