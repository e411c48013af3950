// SPDX-License-Identifier: MIT
//! perigee-router
