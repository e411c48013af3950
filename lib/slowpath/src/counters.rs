// SPDX-License-Identifier: MIT
//! What the slow path counts. Every frame it does not pass on has a reason here, with the RFC section behind it.

/// Defines the struct, its names and its sections in one list, so that none can be forgotten.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident $section:literal;)+) => {
        /// Number of times each thing happened since the start. Names starting in `drop_` are frames that ended here.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ #[doc = concat!("\n\n", $section)] pub $name: u64,)+
        }

        impl Counters {
            /// Name and section (RFC and number, or what else the rule rests on) of every counter, in the order of [`Self::iter`].
            pub const RULES: &'static [(&'static str, &'static str)] = &[$((stringify!($name), $section),)+];

            /// All counters: name and value.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Frames handed in by the fast path.
    punted "RFC 1812 5.2.1";
    /// Frames handed in by Linux through a twin.
    from_twin "design";
    /// Frames given to Linux through a twin.
    to_twin "design";
    /// Frames sent.
    transmitted "RFC 1812 5.2.1";
    /// Packets of others sent on, fragments counted once.
    forwarded "RFC 1812 5.2.1";
    /// Packets cut into fragments.
    fragmented "RFC 1812 5.2.6";
    /// Echo requests answered.
    echo_replied "RFC 1812 4.3.3.6, RFC 4443 4.2";
    /// ICMP errors sent, both families.
    icmp_errors_sent "RFC 1812 4.3, RFC 4443 2.4";
    /// ICMP errors not sent because the packet must not be answered by one.
    icmp_errors_suppressed "RFC 1812 4.3.2.7, RFC 4443 2.4(e)";
    /// ICMP errors not sent because there were too many.
    icmp_errors_limited "RFC 1812 4.3.2.8, RFC 4443 2.4(f)";
    /// ICMP errors not sent because no route leads back, or the interface has no address to speak from.
    icmp_errors_unroutable "RFC 1812 4.3.2.4";
    /// ARP requests and neighbor solicitations sent, duplicate address detection included.
    solicitations_sent "RFC 826, RFC 4861 7.2.2";
    /// ARP requests and neighbor solicitations answered.
    solicitations_answered "RFC 826, RFC 4861 7.2.4";
    /// Solicitations that could not be sent: the interface has no usable address of that family.
    solicitations_without_source "RFC 4861 7.2.2";
    /// Neighbors that answered none of three requests.
    neighbors_failed "RFC 4861 7.3.3, RFC 1122 2.3.2.1";
    /// Another station uses an address of this router.
    address_conflicts "RFC 5227 2.4, RFC 4862 5.4";
    /// What was heard about a static neighbor did not fit it and was ignored.
    static_neighbor_kept "configuration";

    /// An interface that is not configured.
    drop_unknown_interface "configuration";
    /// An interface that is down.
    drop_interface_down "configuration";
    /// A frame too short for its Ethernet header or tags, or with more tags than the interface has.
    drop_bad_frame "IEEE 802.3 3.1, 802.1Q 9.6";
    /// A unicast frame for another station.
    drop_other_station "RFC 1812 5.3.4";
    /// A group frame with a unicast packet in it.
    drop_link_broadcast "RFC 1812 5.3.4";
    /// An IP header that breaks a rule.
    drop_bad_header "RFC 1812 5.2.2, RFC 8200 3";
    /// An ICMP message with a wrong checksum, or cut off.
    drop_bad_icmp "RFC 792, RFC 4443 2.3";
    /// A source no host can have.
    drop_martian_source "RFC 1812 5.3.7, RFC 4291 2.7";
    /// The source is an address of this router.
    drop_own_source "RFC 1812 5.3.7";
    /// A destination no host can have.
    drop_martian_destination "RFC 1812 5.3.7, RFC 4291 2.5.3";
    /// A link-local source or destination of a packet to be forwarded.
    drop_link_local "RFC 3927 7, RFC 4291 2.5.6";
    /// The broadcast address of a subnet, from another one.
    drop_directed_broadcast "RFC 1812 5.3.5.2, RFC 2644";
    /// A group wider than the link: there is no multicast routing.
    drop_multicast "RFC 1812 5.2.1, RFC 4291 2.7";
    /// An echo request to a broadcast address or an IPv4 group.
    drop_echo_group "RFC 1812 4.3.3.6";
    /// A redirect to this router.
    drop_redirect "RFC 1812 5.2.7.2, RFC 4861 8.2";
    /// To an address of this router that is not yet known to be its alone, or is not.
    drop_tentative "RFC 4862 5.4";
    /// TTL or hop limit used up.
    drop_ttl_expired "RFC 1812 5.3.1, RFC 8200 3";
    /// No route.
    drop_no_route "RFC 1812 5.2.7.1, RFC 4443 3.1";
    /// An unreachable route.
    drop_unreachable "RFC 1812 5.2.7.1, RFC 4443 3.1";
    /// A prohibit route.
    drop_prohibited "RFC 1812 5.2.7.1, RFC 4443 3.1";
    /// A blackhole route.
    drop_blackhole "RFC 1812 5.2.7";
    /// Larger than the next link takes, and not to be fragmented.
    drop_too_big "RFC 1191 4, RFC 8201, RFC 8200 5";
    /// The next link's MTU is too small even for one fragment.
    drop_cannot_fragment "RFC 791 3.2";
    /// A malformed IPv4 option.
    drop_bad_option "RFC 1812 4.2.2.1, 5.3.13";
    /// An IPv4 source route, unless allowed.
    drop_source_route "RFC 7126 4.3";
    /// The next address of a strict source route is not on a link of this router.
    drop_source_route_failed "RFC 1812 5.3.13.4";
    /// A hop-by-hop options header that is cut off.
    drop_bad_extension "RFC 8200 4.2";
    /// An unknown hop-by-hop option that says: discard.
    drop_unknown_option "RFC 8200 4.2";
    /// A routing header of type 0 with segments left.
    drop_routing_header "RFC 5095 3";
    /// The next hop failed to answer.
    drop_neighbor_failed "RFC 1812 5.2.7.1, RFC 4861 7.2.2";
    /// Pushed out of a neighbor's full queue by a newer packet, or refused by the full total.
    drop_neighbor_queue_full "RFC 1122 2.3.2.2, RFC 4861 7.2.2";
    /// Too many neighbors, or too many unresolved ones.
    drop_neighbor_table_full "RFC 6583";
    /// A packet of this router's own without a route.
    drop_own_unroutable "RFC 1812 5.2.7.1";
    /// ARP that is cut off or not for IPv4 on Ethernet.
    drop_arp_malformed "RFC 826";
    /// ARP with a group, broadcast or zero MAC as sender.
    drop_arp_sender_mac "RFC 1812 3.3.2";
    /// ARP whose sender address no host on this link can have.
    drop_arp_sender_address "RFC 826, RFC 5227";
    /// ARP requests for others.
    drop_arp_not_for_us "RFC 826";
    /// Neighbor discovery that breaks a rule: hop limit not 255, checksum, code, length, option length.
    drop_nd_invalid "RFC 4861 7.1";
    /// A link-layer address that is a group or zero.
    drop_nd_mac "RFC 4861 7.2, RFC 1812 3.3.2";
    /// Neighbor solicitations for others, and from stations not on this link.
    drop_nd_not_for_us "RFC 4861 7.2.3";
    /// The queue of outputs was full: the caller did not drain it.
    drop_output_full "design";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_and_a_section() {
        let counters = Counters { drop_ttl_expired: 3, ..Counters::default() };
        let names: Vec<_> = counters.iter().map(|(name, _)| name).collect();
        let rules: Vec<_> = Counters::RULES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, rules);
        assert!(Counters::RULES.iter().all(|(_, section)| !section.is_empty()));
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        assert_eq!(counters.iter().find(|(name, _)| *name == "drop_ttl_expired"), Some(("drop_ttl_expired", 3)));
    }
}
