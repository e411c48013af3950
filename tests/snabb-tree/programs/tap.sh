# SPDX-License-Identifier: MIT
# The tree's test of its TAP app: between two of them over a bridge.
TEST_SKIPPED=43 apps/tap/selftest.sh
