// SPDX-License-Identifier: MIT
//! perigee-packet
