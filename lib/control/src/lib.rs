// SPDX-License-Identifier: MIT
//! perigee-control
