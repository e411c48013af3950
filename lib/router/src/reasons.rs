// SPDX-License-Identifier: MIT
//! The fast path's reasons in the slow path's words.

use perigee_modules::{Reason, apply, classify, hop_limit, ipv4_lookup, ipv4_valid, ipv6_lookup, ipv6_valid, mtu, ttl};
use perigee_slowpath::Punt;

/// What a punted packet is for the slow path; it counts by this, and judges the packet itself.
pub(crate) fn punt(reason: Reason) -> Punt {
    match reason {
        classify::ARP | classify::OTHER_TYPE => Punt::NotIp,
        classify::BROADCAST => Punt::Broadcast,
        classify::MULTICAST | ipv4_valid::MULTICAST | ipv6_valid::MULTICAST => Punt::Multicast,
        ipv4_valid::OPTIONS => Punt::Options,
        ipv6_valid::HOP_BY_HOP => Punt::HopByHop,
        ipv4_lookup::LOCAL | ipv6_lookup::LOCAL => Punt::LocalDestination,
        ipv4_lookup::NO_ROUTE | ipv6_lookup::NO_ROUTE => Punt::NoRoute,
        ipv4_lookup::UNRESOLVED | ipv6_lookup::UNRESOLVED | apply::STALE => Punt::Unresolved,
        ipv4_lookup::UNREACHABLE | ipv6_lookup::UNREACHABLE => Punt::Unreachable,
        ipv4_lookup::PROHIBITED | ipv6_lookup::PROHIBITED => Punt::Prohibit,
        ttl::EXPIRED | hop_limit::EXPIRED => Punt::TtlExpired,
        mtu::TOO_BIG4 | mtu::TOO_BIG6 => Punt::TooBig,
        _ => Punt::Other,
    }
}
