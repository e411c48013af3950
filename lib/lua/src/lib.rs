// SPDX-License-Identifier: MIT
//! perigee-lua
