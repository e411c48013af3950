// SPDX-License-Identifier: MIT
//! perigee-dpdk
