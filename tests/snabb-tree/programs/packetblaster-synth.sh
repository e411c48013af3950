# SPDX-License-Identifier: MIT
# Synthetic packets into a port. Needs one that is no card.
grep -q perigee "$SNABB" || { echo 'needs a network card'; exit 77; }
$SNABB packetblaster synth -D 1 -S 60,576 net_null0
