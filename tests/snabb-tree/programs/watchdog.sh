# SPDX-License-Identifier: MIT
# The tree's test of its watchdog: a process that is late dies by SIGALRM.
lib/watchdog/selftest.sh
