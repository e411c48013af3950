// SPDX-License-Identifier: MIT
//! What the slow path counts. Every frame that it does not pass on is counted as a drop, with the section of the RFC
//! that demands it.

use crate::rate::Refused;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// A frame came in or went out.
    Frame,
    /// Something happened.
    Event,
    /// A frame ended here.
    Drop,
}

/// A counter with its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Whether it counts drops.
    pub kind: CounterKind,
    /// Its name, unique among all counters.
    pub name: &'static str,
    /// The source of the rule: RFC and section, or "design", "configuration".
    pub section: &'static str,
    /// How often it has happened since the start.
    pub value: u64,
}

/// Defines the structs, the names and the sections from one list, so that none can be forgotten.
macro_rules! counters {
    (
        frames { $($(#[doc = $frame_doc:literal])+ $frame:ident $frame_section:literal;)+ }
        events { $($(#[doc = $event_doc:literal])+ $event:ident $event_section:literal;)+ }
        drops { $($(#[doc = $drop_doc:literal])+ $drop:ident $drop_section:literal;)+ }
    ) => {
        /// How often each thing has happened since the start.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $frame_doc])+ #[doc = concat!("\n\n", $frame_section)] pub $frame: u64,)+
            $($(#[doc = $event_doc])+ #[doc = concat!("\n\n", $event_section)] pub $event: u64,)+
            /// Frames that ended here.
            pub drops: Drops,
        }

        /// Frames that ended in the slow path, by reason.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Drops {
            $($(#[doc = $drop_doc])+ #[doc = concat!("\n\n", $drop_section)] pub $drop: u64,)+
        }

        impl std::ops::AddAssign<&Counters> for Counters {
            fn add_assign(&mut self, other: &Counters) {
                $(self.$frame += other.$frame;)+
                $(self.$event += other.$event;)+
                $(self.drops.$drop += other.drops.$drop;)+
            }
        }

        impl Counters {
            /// All counters, in the order of this file.
            pub fn iter(&self) -> impl Iterator<Item = Count> + use<> {
                [
                    $(Count {
                        kind: CounterKind::Frame,
                        name: stringify!($frame),
                        section: $frame_section,
                        value: self.$frame,
                    },)+
                    $(Count {
                        kind: CounterKind::Event,
                        name: stringify!($event),
                        section: $event_section,
                        value: self.$event,
                    },)+
                    $(Count {
                        kind: CounterKind::Drop,
                        name: stringify!($drop),
                        section: $drop_section,
                        value: self.drops.$drop,
                    },)+
                ]
                .into_iter()
            }
        }
    };
}

impl Counters {
    /// Counts an ICMP error that a limit refused; returns whether one did.
    pub(crate) fn limited(&mut self, taken: Result<(), Refused>) -> bool {
        match taken {
            Ok(()) => return false,
            Err(Refused::Interface) => self.icmp_errors_limited += 1,
            Err(Refused::Source) => self.icmp_errors_limited_source += 1,
        }
        true
    }

    /// What has been counted since `before`, an earlier state of these counters: each counter with its increase.
    pub fn since(&self, before: &Counters) -> impl Iterator<Item = Count> + use<> {
        let increase = |(now, before): (Count, Count)| Count { value: now.value.saturating_sub(before.value), ..now };
        self.iter().zip(before.iter()).map(increase).filter(|count| count.value > 0)
    }
}

counters! {
    frames {
        /// Frames handed in by the fast path.
        punted "RFC 1812 5.2.1";
        /// Frames handed in by Linux through a twin.
        from_twin "design";
        /// Frames given to Linux through a twin.
        to_twin "design";
        /// Frames sent.
        transmitted "RFC 1812 5.2.1";
    }

    events {
        /// Packets of others sent on, fragments counted once.
        forwarded "RFC 1812 5.2.1";
        /// Packets to groups sent on, once for each interface.
        multicast_copies "RFC 1812 5.2.1.3";
        /// Packets cut into fragments.
        fragmented "RFC 1812 5.2.6, RFC 8200 4.5";
        /// Fragments to this router that wait for the rest of their datagram.
        fragments_kept "RFC 1812 4.2.2.8, RFC 8200 4.5";
        /// Datagrams to this router that came in fragments and are whole.
        reassembled "RFC 1812 4.2.2.8, RFC 8200 4.5";
        /// Echo requests answered.
        echo_replied "RFC 1812 4.3.3.6, RFC 4443 4.2";
        /// ICMP errors sent, both families.
        icmp_errors_sent "RFC 1812 4.3, RFC 4443 2.4";
        /// ICMP errors not sent because the packet must not be answered by one.
        icmp_errors_suppressed "RFC 1812 4.3.2.7, RFC 4443 2.4(e)";
        /// ICMP errors not sent because there were too many about packets of one interface.
        icmp_errors_limited "RFC 1812 4.3.2.8, RFC 4443 2.4(f)";
        /// ICMP errors not sent because there were too many to one source prefix, of 24 bits or 64.
        icmp_errors_limited_source "RFC 1812 4.3.2.8, RFC 4443 2.4(f)";
        /// ICMP errors not sent because no route leads back, or the interface has no address to speak from.
        icmp_errors_unroutable "RFC 1812 4.3.2.4";
        /// Copies of packets that the fast path has sent on by the interface they came in on.
        sent_back "RFC 1812 5.2.7.2, RFC 4861 8.2";
        /// Redirects sent, both families.
        redirects_sent "RFC 1812 5.2.7.2, RFC 4861 8.2";
        /// Redirects not sent because there were too many.
        redirects_limited "RFC 1812 4.3.2.8, RFC 4861 8.2";
        /// ARP requests and neighbor solicitations sent, duplicate address detection included.
        solicitations_sent "RFC 826, RFC 4861 7.2.2";
        /// ARP requests and neighbor solicitations answered.
        solicitations_answered "RFC 826, RFC 4861 7.2.4";
        /// ARP requests and neighbor solicitations for other stations that were answered, as Linux's proxies say.
        solicitations_answered_for_others "RFC 1027, RFC 4861 7.2.8";
        /// Solicitations that could not be sent: the interface has no usable address of that family.
        solicitations_without_source "RFC 4861 7.2.2";
        /// Neighbors that answered none of three requests.
        neighbors_failed "RFC 4861 7.3.3, RFC 1122 2.3.2.1";
        /// Neighbors that made room for others although their MAC addresses were known: never confirmed, or stale and unused.
        neighbors_displaced "RFC 6583 6.2";
        /// Neighbors that made room for others before they had answered.
        neighbors_displaced_unresolved "RFC 6583 6.2";
        /// Neighbors that told their addresses unasked and were not probed, as there were too many of them.
        neighbor_probes_limited "RFC 6583 6.2";
        /// Neighbors that were forgotten as an operator wanted it.
        neighbors_flushed "configuration";
        /// Another station uses an address of this router.
        address_conflicts "RFC 5227 2.4, RFC 4862 5.4";
        /// What was heard about a static neighbor did not fit it and was ignored.
        static_neighbor_kept "configuration";
    }

    drops {
        /// An interface that is not configured.
        unknown_interface "configuration";
        /// An interface that is down.
        interface_down "configuration";
        /// A frame too short for its Ethernet header or tags, or with more tags than the interface has.
        bad_frame "IEEE 802.3 3.1, 802.1Q 9.6";
        /// A unicast frame for another station.
        other_station "RFC 1812 5.3.4";
        /// A group frame with a unicast packet in it.
        link_broadcast "RFC 1812 5.3.4";
        /// An IP header that breaks a rule.
        bad_header "RFC 1812 5.2.2, RFC 8200 3";
        /// A packet that says that it is longer than what was received.
        truncated "RFC 1812 5.2.2, RFC 4443 3.4";
        /// An ICMP message with a wrong checksum, or cut off.
        bad_icmp "RFC 792, RFC 4443 2.3";
        /// A source no host can have.
        martian_source "RFC 1812 5.3.7, RFC 4291 2.7";
        /// The source is an address of this router.
        own_source "RFC 1812 5.3.7";
        /// A source without a route back, on an interface with `urpf`.
        reverse_path "RFC 1812 5.3.8, RFC 3704";
        /// A destination no host can have.
        martian_destination "RFC 1812 5.3.7, RFC 4291 2.5.3";
        /// A link-local source or destination of a packet to be forwarded.
        link_local "RFC 3927 7, RFC 4291 2.5.6";
        /// To the broadcast address of a network on another interface, where `directed_broadcast` is off.
        directed_broadcast "RFC 1812 5.3.5.2, RFC 2644";
        /// A group of the interface alone, or of a reserved scope: no packet on a link may go there.
        multicast_scope "RFC 4291 2.7";
        /// A group without a route, of which Linux has heard enough.
        multicast_unrouted "RFC 1812 5.2.1.3";
        /// A group's packet that did not come in on the interface of its route.
        multicast_wrong_interface "RFC 1812 5.2.1.3";
        /// A group that does not pass the interface, or a TTL below the interface's threshold of what Linux sends.
        multicast_boundary "RFC 2365 5";
        /// A group whose route has no interface to leave by.
        multicast_no_output "RFC 1812 5.2.1.3";
        /// An echo request to a broadcast address or an IPv4 group.
        echo_group "RFC 1812 4.3.3.6";
        /// A redirect to this router.
        redirect "RFC 1812 5.2.7.2, RFC 4861 8.2";
        /// To an address of this router that is not yet known to be its alone, or is not.
        tentative "RFC 4862 5.4";
        /// TTL or hop limit used up.
        ttl_expired "RFC 1812 5.3.1, RFC 8200 3";
        /// No route.
        no_route "RFC 1812 5.2.7.1, RFC 4443 3.1";
        /// An unreachable route.
        unreachable "RFC 1812 5.2.7.1, RFC 4443 3.1";
        /// A prohibit route.
        prohibited "RFC 1812 5.2.7.1, RFC 4443 3.1";
        /// A blackhole route.
        blackhole "RFC 1812 5.2.7";
        /// A route of Linux that the router cannot forward by, where `unknown_routes` is "unreachable".
        route_refused "RFC 1812 5.2.7.1, RFC 4443 3.1";
        /// Larger than the next link takes, and not to be fragmented.
        too_big "RFC 1191 4, RFC 8201, RFC 8200 5";
        /// The next link's MTU is too small even for one fragment, or for IPv6.
        cannot_fragment "RFC 791 3.2, RFC 8200 5";
        /// A fragment without data, or one that others follow and whose length is not a multiple of 8.
        fragment_malformed "RFC 791 3.2, RFC 8200 4.5";
        /// A fragment of a datagram that would be longer than 65,535 bytes.
        fragment_too_long "RFC 791 3.1, RFC 8200 4.5";
        /// A fragment that cuts through TCP's header.
        fragment_tiny "RFC 1858 3, RFC 3128 4";
        /// A first fragment that lacks some of the headers.
        fragment_headers "RFC 7112 5, RFC 8200 4.5";
        /// A fragment that is there already, byte by byte.
        fragment_duplicate "RFC 8200 4.5";
        /// Fragments of a datagram of which some overlap or contradict each other about its end.
        fragment_overlap "RFC 5722 4, RFC 8200 4.5, RFC 1858 4";
        /// Fragments of a datagram that has too many of them.
        fragment_too_many "RFC 8900 3.7";
        /// Fragments of a datagram of which some are marked by congestion and others are not ECN-capable.
        fragment_ecn "RFC 3168 5.3";
        /// Fragments that made room for those of other datagrams.
        fragment_evicted "RFC 8900 3.7";
        /// Fragments of a datagram that was not whole in time.
        fragment_timeout "RFC 1122 3.3.2, RFC 8200 4.5";
        /// A malformed IPv4 option.
        bad_option "RFC 1812 4.2.2.1, 5.3.13";
        /// An IPv4 source route, where `source_routes` is off.
        source_route "RFC 7126 4.3";
        /// The next address of a strict source route is not on a link of this router.
        source_route_failed "RFC 1812 5.3.13.4";
        /// A hop-by-hop options header that is cut off, or a reassembled datagram whose headers are, or that is a fragment again.
        bad_extension "RFC 8200 4";
        /// An unknown hop-by-hop option that says: discard.
        unknown_option "RFC 8200 4.2";
        /// A routing header of type 0 with segments left.
        routing_header "RFC 5095 3";
        /// The next hop failed to answer.
        neighbor_failed "RFC 1812 5.2.7.1, RFC 4861 7.2.2";
        /// Pushed out of a neighbor's full queue by a newer packet, or refused by the full total.
        neighbor_queue_full "RFC 1122 2.3.2.2, RFC 4861 7.2.2";
        /// Too many neighbors on a link, all of which are worth more.
        neighbor_table_full "RFC 6583 6.2";
        /// Too many neighbors are asked for on a link, and most by the same interface or source.
        neighbor_limited "RFC 6583 6.2";
        /// Waited for a neighbor that made room for another, or that an operator had forgotten.
        neighbor_forgotten "RFC 6583 6.2";
        /// For Linux, from an address on a link that does not answer: Linux would ask for it, too.
        source_unresolved "design";
        /// For Linux, from an address on a link that was not asked for, as there were too many.
        source_limited "design";
        /// A packet of this router's own without a route.
        own_unroutable "RFC 1812 5.2.7.1";
        /// ARP that is cut off or not for IPv4 on Ethernet.
        arp_malformed "RFC 826";
        /// ARP with a group, broadcast or zero MAC as sender.
        arp_sender_mac "RFC 1812 3.3.2";
        /// ARP whose sender address no host on this link can have.
        arp_sender_address "RFC 826, RFC 5227";
        /// ARP requests for others.
        arp_not_for_us "RFC 826";
        /// Neighbor discovery that breaks a rule: hop limit not 255, checksum, code, length, option length.
        nd_invalid "RFC 4861 7.1";
        /// Neighbor discovery in a packet with a fragment header.
        nd_fragmented "RFC 6980 5";
        /// A link-layer address that is a group or zero.
        nd_mac "RFC 4861 7.2, RFC 1812 3.3.2";
        /// Neighbor solicitations for others, and from stations not on this link.
        nd_not_for_us "RFC 4861 7.2.3";
        /// The queue of outputs was full: the caller did not drain it.
        output_full "design";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_of_its_own_and_a_section() {
        let all: Vec<_> = Counters::default().iter().collect();
        assert!(all.iter().all(|count| !count.section.is_empty()));
        let mut names: Vec<_> = all.iter().map(|count| count.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn a_drop_is_known_by_its_kind_and_an_increase_by_two_states() {
        let mut counters = Counters { forwarded: 2, ..Counters::default() };
        let before = counters.clone();
        counters.drops.ttl_expired += 3;
        counters.forwarded += 1;
        let found: Vec<_> = counters.since(&before).map(|count| (count.kind, count.name, count.value)).collect();
        assert_eq!(found, [(CounterKind::Event, "forwarded", 1), (CounterKind::Drop, "ttl_expired", 3)]);
        assert!(counters.iter().any(|count| count.name == "forwarded" && count.value == 3));
    }
}
