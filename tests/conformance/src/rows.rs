// SPDX-License-Identifier: MIT
//! All rows, in one table: what is printed, the page and the tests follow from it.
//!
//! A row is `number section level [read]: sentence => world test, ...`. `read` marks a row whose judgement was compared
//! with the text of the RFC when it was written.

use crate::bench::Bench;
use crate::ipv4::{addresses, arp, errors, fragments, header, messages, options, redirects};
use crate::ipv6;
use crate::judge::Judged;
use crate::network::World;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    /// In JSON and in names.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }
    }

    /// In sentences.
    pub fn title(self) -> &'static str {
        match self {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        }
    }
}

/// A test of a row in one world.
#[derive(Clone, Copy)]
pub struct Test {
    pub world: World,
    /// Tests it.
    ///
    /// # Errors
    /// The router does something else, or it does not apply.
    pub body: fn(&mut Bench) -> Judged,
}

/// A demand of an RFC, and its tests, all of which must pass.
pub struct Row {
    pub family: Family,
    pub number: u8,
    /// RFC and section.
    pub section: &'static str,
    /// M: must; S: should; M/S: both, each a part of it; -: neither, or two RFCs that differ.
    pub level: &'static str,
    /// Whether its judgement was compared with the RFC's text.
    pub read: bool,
    pub sentence: &'static str,
    pub tests: &'static [Test],
}

impl Row {
    /// `ipv4/37`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.family.name(), self.number)
    }

    /// Whether a router that fails it breaks a must or a should.
    pub fn is_demanded(&self) -> bool {
        self.level != "-"
    }
}

macro_rules! rows {
    ($($family:ident { $($number:literal $section:literal $level:literal $($read:ident)?: $sentence:literal
        => $($world:ident $test:path),+;)+ })+) => {
        /// All rows, IPv4 first, in the order of their numbers.
        pub static ROWS: &[Row] = &[$($(Row {
            family: Family::$family,
            number: $number,
            section: $section,
            level: $level,
            read: rows!(@read $($read)?),
            sentence: $sentence,
            tests: &[$(Test { world: World::$world, body: $test }),+],
        },)+)+];
    };
    (@read) => { false };
    (@read read) => { true };
}

rows! {
    Ipv4 {
        1 "RFC 1812 5.2.2" "M" read: "A frame shorter than a header is dropped silently" => Plain header::frame_shorter_than_a_header;
        2 "RFC 1812 5.2.2" "M" read: "A packet with a bad header checksum is dropped" => Plain header::bad_checksum;
        3 "RFC 1812 5.2.2" "M" read: "A packet whose version is not 4 is dropped" => Plain header::version_is_not_4;
        4 "RFC 1812 5.2.2" "M" read: "A header length below 5 words is dropped" => Plain header::header_length_below_5;
        5 "RFC 1812 5.2.2" "M" read: "A total length below that of the header is dropped"
            => Plain header::total_length_below_the_header;
        6 "RFC 1812 5.2.2" "M/S" read: "A truncated packet is dropped (M), and answered by Parameter Problem (S)"
            => Plain header::total_length_above_what_came;
        7 "RFC 1812 5.2.2" "-": "Padding of Ethernet frames is not passed on" => Plain header::padding_is_trimmed;
        8 "RFC 1812 5.2.5" "M": "Reserved bits pass unchanged" => Plain header::reserved_bits_pass;
        9 "RFC 1812 5.3.1" "M": "The TTL is lowered by one, the checksum right" => Plain header::ttl_is_lowered;
        10 "RFC 1812 5.3.1" "M": "A TTL that reaches 0 is answered by Time Exceeded, unless to a group" => Plain header::ttl_reaches_0;
        11 "RFC 1812 4.2.2.9" "M": "TTL 0 or 1 to the router itself is accepted" => Plain header::ttl_0_and_1_to_the_router;
        12 "RFC 1812 5.2.4.3" "M": "The longest match decides" => Plain header::longest_match;
        13 "RFC 1812 5.2.7.1" "M": "Without a route: Destination Unreachable code 0" => Plain header::no_route;
        14 "RFC 1812 5.2.7.1" "M": "A host on a link does not answer ARP: Destination Unreachable code 1"
            => Waiting4 arp::nobody_answers;
        15 "RFC 1812 3.3.2" "M": "No error merely because ARP has not been answered yet" => Waiting4 arp::no_error_while_asking;
        16 "RFC 1812 3.3.2" "S": "Packets wait for ARP's answer" => Waiting4 arp::packets_wait_for_the_answer;
        17 "RFC 1812 3.3.2" "M" read: "An ARP reply with a group address is not believed"
            => Waiting4 arp::group_addresses_are_not_believed;
        18 "RFC 1122 2.3.2.1" "M": "Stale ARP entries are flushed; one request a second for an address"
            => Waiting4 arp::one_request_a_second, Aging4 arp::stale_entries_are_flushed;
        19 "RFC 1812 5.2.6" "M": "Packets that are too large are fragmented" => Plain fragments::too_large_packets_are_cut;
        20 "RFC 1812 5.2.6" "M": "Fragments that are too large are fragmented" => Plain fragments::fragments_are_cut;
        21 "RFC 791 3.1" "M": "Fragments have the options with the copied flag" => Plain fragments::copied_options;
        22 "RFC 1812 5.2.6" "M": "Packets in transit are never reassembled" => Plain fragments::transit_is_not_reassembled;
        23 "RFC 1812 4.2.2.8" "M": "Packets to the router are reassembled" => Plain fragments::own_packets_are_reassembled;
        24 "RFC 1191 4" "M": "Too large and not to be fragmented: code 4 with the MTU of the next hop"
            => Plain fragments::too_large_and_not_to_be_cut;
        25 "RFC 1812 4.3.2.7" "M" read: "No ICMP error about an ICMP error" => Plain errors::about_an_error;
        26 "RFC 1812 4.3.2.7" "M" read: "No ICMP error about a fragment other than the first" => Plain errors::about_a_later_fragment;
        27 "RFC 1812 4.3.2.7" "M" read: "No ICMP error about a link-layer broadcast or multicast"
            => Plain errors::about_a_link_layer_group;
        28 "RFC 1812 4.3.2.7" "M" read: "No ICMP error about an IP broadcast or multicast" => Plain errors::about_a_group;
        29 "RFC 1812 4.3.2.7" "M" read: "No ICMP error about an invalid source" => Default errors::about_an_invalid_source;
        30 "RFC 1812 4.3.2.2" "M": "ICMP messages have a fresh TTL" => Plain messages::fresh_ttl;
        31 "RFC 1812 4.3.2.3" "M/S": "Errors quote the header and 8 bytes unchanged (M), as much as fits in 576 bytes (S)"
            => Plain messages::what_is_quoted;
        32 "RFC 1812 4.3.2.4" "M" read: "Errors come from the address of the interface that they leave by" => Plain messages::source_address;
        33 "RFC 1812 4.3.2.5" "S": "Errors have the packet's TOS, and precedence 6 or 7" => Plain messages::type_of_service;
        34 "RFC 1812 4.3.2.8" "S": "The rate of errors is limited, which can be configured"
            => Limited errors::errors_are_limited, Plain errors::the_limit_can_be_lifted;
        35 "RFC 1812 4.3.3.5" "M": "Parameter Problem points at the wrong byte" => Plain messages::pointer;
        36 "RFC 1812 4.3.3.6" "M": "Echo requests up to 576 bytes and the MTU are answered" => Plain messages::echo;
        37 "RFC 1812 5.2.7.2" "M" read: "Redirects are sent, with code 1 alone" => Plain redirects::code_1_alone;
        38 "RFC 1812 5.2.7.2" "M" read: "Redirects only to senders on the link, for the same interface, without source route"
            => Plain redirects::only_where_it_helps;
        39 "RFC 1812 5.3.4" "M" read: "Link-layer broadcasts of unicast packets are not forwarded" => Plain addresses::link_layer_groups;
        40 "RFC 1812 5.3.5.1" "M": "255.255.255.255 is not forwarded" => Default addresses::limited_broadcast;
        41 "RFC 1812 5.3.5.2, RFC 2644" "M" read: "Directed broadcasts are not forwarded by default" => Plain addresses::directed_broadcast;
        42 "RFC 1812 5.3.7" "S" read: "Martian sources and destinations are not forwarded by default" => Default addresses::martians;
        43 "RFC 1812 5.3.8, RFC 3704" "S" read: "Source validation is there, strict and loose, and off by default"
            => Strict addresses::strict_validation, Loose addresses::loose_validation, Plain addresses::no_validation;
        44 "RFC 1812 5.3.13.1" "M": "Unknown options pass unchanged" => Plain options::unknown_options_pass;
        45 "RFC 1812 5.3.13.5, 5.3.13.6, 4.2.2.2" "M" read: "Record route and timestamp have the outgoing interface's address"
            => Plain options::record_route_and_timestamp;
        46 "RFC 1812 5.3.13.4, RFC 7126 4.3" "-": "Source routes are followed if switched on, and dropped by default"
            => Plain options::source_routes_are_off, SourceRoutes options::source_routes_are_followed;
    }
    Ipv6 {
        1 "RFC 8200 3" "M": "The hop limit is lowered by one; 0: Time Exceeded" => Plain ipv6::forwarding::hop_limit;
        2 "RFC 8200 4.5" "M": "Routers never fragment" => Plain ipv6::forwarding::never_fragments;
        3 "RFC 4443 3.2" "M": "Packet Too Big with the MTU" => Plain ipv6::forwarding::packet_too_big;
        4 "RFC 8200 4" "M": "Extension headers but hop-by-hop are ignored in transit" => Plain ipv6::extensions::transit_ignores_headers;
        5 "RFC 8200 4.2" "M": "The action bits of unknown options are followed" => Plain ipv6::extensions::action_bits;
        6 "RFC 5095 3" "M": "Routing header of type 0 to the router: Parameter Problem" => Plain ipv6::extensions::routing_headers;
        7 "RFC 6437 3" "M": "The flow label is unchanged" => Plain ipv6::forwarding::flow_label;
        8 "RFC 4291 2.5.6" "M": "Link-local addresses are never forwarded" => Plain ipv6::addresses::link_local;
        9 "RFC 4291 2.5.3, 2.5.2" "M": "::1 and :: are never forwarded" => Plain ipv6::addresses::loopback_and_unspecified;
        10 "RFC 4291 2.7" "M": "Groups are no sources; scopes 0 to 2 are not forwarded" => Plain ipv6::addresses::multicast;
        11 "RFC 4007 9" "M": "Beyond the scope of the source: Destination Unreachable code 2" => Plain ipv6::addresses::beyond_scope;
        12 "RFC 4443 3.1" "S" read: "Destination Unreachable code 0 without a route, code 3 without an answer"
            => Plain ipv6::errors::no_route, Waiting6 ipv6::errors::address_unreachable;
        13 "RFC 4443 2.4 (c)" "M" read: "Errors quote as much as fits in 1280 bytes" => Plain ipv6::errors::what_is_quoted;
        14 "RFC 4443 2.4 (e)" "M" read: "No error about errors, redirects, groups, and sources that are nobody"
            => Plain ipv6::errors::about_nothing_of_these;
        15 "RFC 4443 2.4 (f)" "M" read: "The rate of errors is limited" => Limited ipv6::errors::errors_are_limited;
        16 "RFC 4443 4.2" "M": "Echo requests are answered, from the address that was asked" => Plain ipv6::errors::echo;
        17 "RFC 4861 7.1" "M": "Solicitations and advertisements are validated" => Waiting6 ipv6::discovery::messages_are_validated;
        18 "RFC 4861 7.2.2" "M": "Packets wait; three solicitations, then Destination Unreachable code 3"
            => Waiting6 ipv6::neighbors::packets_wait_and_three_solicitations;
        19 "RFC 4861 7.2.5, 7.3" "M": "Neighbors that are not confirmed are probed"
            => Aging6 ipv6::neighbors::unreachable_neighbors_are_noticed, Waiting6 ipv6::discovery::advertisements_change_what_they_may;
        20 "RFC 4861 6.2" "M": "No router advertisements by default" => Plain ipv6::router::no_advertisements_by_default;
        21 "RFC 4861 8.2" "S/M": "Redirects are sent (S), limited and never applied (M)" => Plain ipv6::router::redirects;
        22 "RFC 4862 5.4" "M": "Duplicate address detection"
            => Plain ipv6::discovery::addresses_are_asked_for_first, Conflict ipv6::discovery::duplicates_are_not_used;
        23 "RFC 5722, RFC 6946" "M": "Overlapping fragments are dropped, atomic ones processed"
            => Plain ipv6::extensions::overlapping_and_atomic_fragments;
        24 "RFC 7608, RFC 6164" "M": "Prefixes of any length; networks of 127 bits" => Plain ipv6::forwarding::any_prefix_length;
        25 "RFC 6583" "S": "A flood of addresses without stations is survived"
            => Exhausted ipv6::neighbors::a_flood_of_addresses_is_survived;
    }
}

/// The rows that a text selects: one by its name (`ipv4/37`), or all that have the text in name, section or sentence.
pub fn selected(text: &str) -> Vec<usize> {
    let wanted = text.to_lowercase();
    let is_named = |row: &Row| row.name() == wanted;
    let has = |row: &Row| format!("{} {} {}", row.name(), row.section, row.sentence).to_lowercase().contains(&wanted);
    let places = |fits: &dyn Fn(&Row) -> bool| (0..ROWS.len()).filter(|at| fits(&ROWS[*at])).collect::<Vec<_>>();
    Some(places(&is_named)).filter(|found| !found.is_empty()).unwrap_or_else(|| places(&has))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_are_whole() {
        let numbers = |family| ROWS.iter().filter(|row| row.family == family).map(|row| row.number).collect::<Vec<_>>();
        assert_eq!(numbers(Family::Ipv4), (1..=46).collect::<Vec<_>>());
        assert_eq!(numbers(Family::Ipv6), (1..=25).collect::<Vec<_>>());
        assert!(ROWS.iter().all(|row| ["M", "S", "M/S", "S/M", "-"].contains(&row.level)));
    }

    #[test]
    fn rows_are_selected_by_name_or_text() {
        let names = |text: &str| selected(text).into_iter().map(|at| ROWS[at].name()).collect::<Vec<_>>();
        assert_eq!(names("ipv4/3"), ["ipv4/3"]);
        assert_eq!(names("IPv6/23"), ["ipv6/23"]);
        assert_eq!(names("redirect"), ["ipv4/37", "ipv4/38", "ipv6/14", "ipv6/21"]);
        assert_eq!(names("RFC 5095"), ["ipv6/6"]);
        assert!(names("carrier pigeons").is_empty());
        assert_eq!(selected("").len(), 71);
    }
}
