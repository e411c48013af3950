# SPDX-License-Identifier: MIT
# lwaftr's property-based tests: configurations at random, set and read back.
cd program/lwaftr/tests/propbased && ./selftest.sh
