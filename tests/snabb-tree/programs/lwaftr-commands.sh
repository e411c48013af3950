# SPDX-License-Identifier: MIT
# lwaftr's Python suite: its commands (bench, check, config, query, quickcheck, ...) as daemons and clients.
program/lwaftr/tests/selftest.sh
