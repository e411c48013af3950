// SPDX-License-Identifier: MIT
//! perigee-slowpath
