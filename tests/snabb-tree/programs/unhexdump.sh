# SPDX-License-Identifier: MIT
# Hexadecimal text to a capture.
printf '01 02 03 04 05 06 07 08 09 0a 0b 0c 08 00 45 00\n' | $SNABB unhexdump "$WORK/out.pcap"
[ "$(stat -c %s "$WORK/out.pcap")" = $((24 + 16 + 16)) ]
