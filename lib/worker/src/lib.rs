// SPDX-License-Identifier: MIT
//! perigee-worker
