// SPDX-License-Identifier: MIT
//! What came of a packet.

use crate::judge::{Judged, fail};
use crate::network::Side;
use crate::wire::{Caught, IcmpError, Packet4, Packet6};

/// What came of one probe.
#[derive(Debug, Default)]
pub struct Seen {
    /// The probe itself, or pieces of it, forwarded.
    pub passed: Vec<Caught>,
    /// Errors about it, and where they came out.
    pub errors: Vec<(Side, IcmpError)>,
    /// Everything else that is no chatter between neighbors.
    pub strays: Vec<Caught>,
}

impl Seen {
    /// Demands that nothing was seen.
    ///
    /// # Errors
    /// Something was.
    pub fn is_silent(&self) -> Judged {
        if let Some(passed) = self.passed.first() {
            return fail(format_args!("it was forwarded to the {} link, expected silence", passed.side));
        }
        self.is_without_error()
    }

    /// Demands that no error about the packet came, and nothing of which it is not clear what it is.
    ///
    /// # Errors
    /// Something did.
    pub fn is_without_error(&self) -> Judged {
        if let Some((side, error)) = self.errors.first() {
            return fail(format_args!(
                "an ICMP error came on the {side} link, type {} code {}, expected none",
                error.kind, error.code
            ));
        }
        match self.strays.first() {
            Some(stray) => fail(format_args!("{}, expected silence", stray.describe())),
            None => Ok(()),
        }
    }
}

/// Whether a frame is the reply to an echo request, which has its data.
pub fn is_echo_of(caught: &Caught, request: &Packet6) -> bool {
    caught.icmp6().is_some_and(|(packet, message)| {
        let same = message.into_inner()[4..] == request.payload[4..];
        message.kind() == 129 && same && packet.destination() == request.source
    })
}

/// Whether a frame is the reply to an echo request, which has its data.
pub fn is_echo_of4(caught: &Caught, request: &Packet4) -> bool {
    caught.icmp4().is_some_and(|(packet, message)| {
        let same = message.into_inner()[4..] == request.payload[4..];
        message.kind() == 0 && message.verify_checksum() && same && packet.destination() == request.source
    })
}
