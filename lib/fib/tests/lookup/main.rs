// SPDX-License-Identifier: MIT
//! The lookup structures: against the oracle after every change, and under readers while they change.

mod changes;
mod oracle;
mod readers;
