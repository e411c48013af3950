# SPDX-License-Identifier: MIT
# Every other packet of a capture, into another capture.
$SNABB example_spray program/example_replay/input.pcap "$WORK/out.pcap"
[ "$(stat -c %s "$WORK/out.pcap")" -gt 24 ]
