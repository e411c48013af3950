# SPDX-License-Identifier: MIT
# IPsec: encapsulate and decapsulate.
$SNABB snabbmark esp 1e5 100
