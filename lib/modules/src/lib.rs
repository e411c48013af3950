// SPDX-License-Identifier: MIT
//! perigee-modules
