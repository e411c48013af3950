# SPDX-License-Identifier: MIT
# Snabb's own benchmark: source, tee and sinks.
$SNABB snabbmark basic1 2e6
