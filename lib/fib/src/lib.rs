// SPDX-License-Identifier: MIT
//! perigee-fib
