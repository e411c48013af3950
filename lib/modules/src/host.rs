// SPDX-License-Identifier: MIT
//! What the worker itself drops, and packets that are lost to a full queue. Not a module: only its reasons.

use crate::reason::reasons;

/// What this is, for the documentation.
pub const SUMMARY: &str = "What the worker itself drops: packets a script left over, those a full queue had no room \
                           for, and those beyond the limits before the slow path.";

reasons! { host:
    drop UNCLAIMED = "unclaimed", "", "the script neither sent, punted nor dropped it";
    drop SCRIPT_ERROR = "script_error", "", "the script threw while it was in the batch";
    drop TRANSMIT_FULL = "transmit_full", "", "the port's transmit queue had no room, or no buffers were free to cut a super-frame for it";
    drop PUNT_RING_FULL = "punt_ring_full", "", "the ring to the slow path had no room";
    drop HAND_OVER_FULL = "hand_over_full", "", "the ring to the worker its flow belongs to had no room";
    drop NO_BUFFER = "no_buffer", "", "no packet buffer was free for a copy";
    drop POLICED_ROUTING = "policed_routing", "RFC 6192", "more of routing protocols for the router than `[policer]` lets through";
    drop POLICED_DISCOVERY = "policed_discovery", "RFC 6192", "more ARP and neighbor discovery than that";
    drop POLICED_UNRESOLVED = "policed_unresolved", "RFC 6192", "more to hosts whose MAC address is not known than that";
    drop POLICED_ICMP = "policed_icmp", "RFC 6192", "more ICMP for the router than that";
    drop POLICED_MANAGEMENT = "policed_management", "RFC 6192", "more TCP and UDP for the router than that";
    drop POLICED_OTHER = "policed_other", "RFC 6192", "more of everything else for the slow path than that";
}
