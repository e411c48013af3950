// SPDX-License-Identifier: MIT
//! What the worker itself drops, and packets that are lost to a full queue. Not a module: only its reasons.

use crate::reason::reasons;

/// What this is, for the documentation.
pub const SUMMARY: &str =
    "What the worker itself drops: packets a script left over, and those a full queue had no room for.";

reasons! { host:
    drop UNCLAIMED = "unclaimed", "", "the script neither sent, punted nor dropped it";
    drop SCRIPT_ERROR = "script_error", "", "the script threw while it was in the batch";
    drop TRANSMIT_FULL = "transmit_full", "", "the port's transmit queue had no room";
    drop PUNT_RING_FULL = "punt_ring_full", "", "the ring to the slow path had no room";
    drop HAND_OVER_FULL = "hand_over_full", "", "the ring to the worker its flow belongs to had no room";
    drop NO_BUFFER = "no_buffer", "", "no packet buffer was free for a copy";
}
