// SPDX-License-Identifier: MIT
//! Why a header was refused: one reason per rule, small enough to be a counter's index.

use std::fmt;

/// The rule that a header broke. Every constructor and iterator of this crate fails with one of these and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Fewer bytes than the fixed header needs; from `emit`: the buffer is too small for what is to be written.
    Short,
    /// The version field is not the one of this protocol (RFC 1812 5.2.2 (3), RFC 8200 3).
    Version,
    /// The header length field is below its minimum or goes beyond the bytes (RFC 1812 5.2.2 (4), RFC 9293 3.1).
    HeaderLength,
    /// The total or payload length is below the header's or beyond the bytes (RFC 1812 5.2.2 (5), RFC 8200 3, RFC 768).
    TotalLength,
    /// The checksum does not match (RFC 1812 5.2.2 (2)).
    Checksum,
    /// An option's length is below its minimum or goes beyond the option area.
    OptionLength,
    /// An IPv6 extension header goes beyond the payload.
    ExtensionLength,
    /// Hop-by-hop options anywhere but right behind the IPv6 header (RFC 8200 4.1).
    ExtensionOrder,
    /// More IPv6 extension headers than [`crate::wire::ipv6::MAX_EXTENSIONS`].
    ExtensionCount,
    /// An ARP hardware type other than Ethernet (RFC 826).
    HardwareType,
    /// An ARP protocol type other than IPv4 (RFC 826).
    ProtocolType,
    /// ARP address lengths other than 6 and 4 (RFC 826).
    AddressLength,
}

impl Malformed {
    /// The reason as one word, for counters and metrics: `short`, `header_length`, ...
    pub const fn name(self) -> &'static str {
        match self {
            Malformed::Short => "short",
            Malformed::Version => "version",
            Malformed::HeaderLength => "header_length",
            Malformed::TotalLength => "total_length",
            Malformed::Checksum => "checksum",
            Malformed::OptionLength => "option_length",
            Malformed::ExtensionLength => "extension_length",
            Malformed::ExtensionOrder => "extension_order",
            Malformed::ExtensionCount => "extension_count",
            Malformed::HardwareType => "hardware_type",
            Malformed::ProtocolType => "protocol_type",
            Malformed::AddressLength => "address_length",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Short => "fewer bytes than the header needs",
            Malformed::Version => "the version field does not match the protocol",
            Malformed::HeaderLength => "the header length is below its minimum or beyond the packet",
            Malformed::TotalLength => "the length field is below the header's length or beyond the packet",
            Malformed::Checksum => "the checksum does not match",
            Malformed::OptionLength => "an option's length is below its minimum or beyond the options",
            Malformed::ExtensionLength => "an extension header goes beyond the packet",
            Malformed::ExtensionOrder => "hop-by-hop options are not the first extension header",
            Malformed::ExtensionCount => "more extension headers than this router follows",
            Malformed::HardwareType => "the ARP hardware type is not Ethernet (1)",
            Malformed::ProtocolType => "the ARP protocol type is not IPv4 (0x0800)",
            Malformed::AddressLength => "the ARP address lengths are not 6 and 4",
        })
    }
}

impl std::error::Error for Malformed {}
