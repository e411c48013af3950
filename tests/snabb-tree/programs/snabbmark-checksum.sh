# SPDX-License-Identifier: MIT
# Checksums in C, by size.
$SNABB snabbmark checksum
