# SPDX-License-Identifier: MIT
# lwaftr's soak tests: traffic that comes back for a while.
cd program/lwaftr/tests/soaktest && ./selftest.sh
