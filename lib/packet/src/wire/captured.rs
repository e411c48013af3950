// SPDX-License-Identifier: MIT
//! Frames as two Linux hosts sent them over Ethernet (checksum offload off), for the tests of this crate.

/// IPv4 on Ethernet: echo request, 8 bytes of data.
pub const ECHO_REQUEST_4: &str =
    "ea3c9a447e0a0ece00b6b1ca0800450000245b0240004001c7d40a0002010a0002020800b7d2341c00010001020304050607";
/// The reply to [`ECHO_REQUEST_4`].
pub const ECHO_REPLY_4: &str =
    "0ece00b6b1caea3c9a447e0a080045000024fb810000400167550a0002020a0002010000bfd2341c00010001020304050607";
/// Echo reply with a record route option that holds three addresses.
pub const RECORD_ROUTE_4: &str = "0ece00b6b1caea3c9a447e0a08004f00004cfb820000400140e10a0002020a0002010727100a0002010a\
    0002020a000202000000000000000000000000000000000000000000000000000000bfd1341d00010001020304050607";
/// Echo request with a timestamp option.
pub const TIMESTAMP_4: &str = "ea3c9a447e0a0ece00b6b1ca08004f00004c5b04400040010a960a0002010a00020244280900044d619f00\
    000000000000000000000000000000000000000000000000000000000000000800b7d0341e00010001020304050607";
/// UDP, 7 bytes: "perigee".
pub const UDP_4: &str =
    "ea3c9a447e0a0ece00b6b1ca0800450000238b7940004011974e0a0002010a00020286bf1e61000f937870657269676565";
/// Port unreachable that quotes [`UDP_4`].
pub const UNREACHABLE_4: &str = "0ece00b6b1caea3c9a447e0a080045c0003ffbad00004001664e0a0002020a0002010303152000000000\
    450000238b7940004011974e0a0002010a00020286bf1e61000f937870657269676565";
/// TCP SYN with five kinds of options.
pub const TCP_SYN_4: &str = "ea3c9a447e0a0ece00b6b1ca08004500003c532440004006cf950a0002010a000202957400504939ee820000\
    0000a002faf019700000020405b40402080a8487c991000000000103030a";
/// ARP request for 10.0.2.2.
pub const ARP_REQUEST: &str = "ffffffffffff0ece00b6b1ca080600010800060400010ece00b6b1ca0a0002010000000000000a000202";
/// The reply to [`ARP_REQUEST`].
pub const ARP_REPLY: &str = "0ece00b6b1caea3c9a447e0a08060001080006040002ea3c9a447e0a0a0002020ece00b6b1ca0a000201";
/// Neighbor solicitation of duplicate address detection, with a nonce option (RFC 7527).
pub const SOLICITATION_DAD: &str = "3333ff447e0aea3c9a447e0a86dd6000000000203aff00000000000000000000000000000000ff0200\
    000000000000000001ff447e0a870093ed00000000fe80000000000000e83c9afffe447e0a0e013e0e828e9bb9";
/// MLDv2 report behind hop-by-hop options with a router alert.
pub const MLD_REPORT: &str = "3333000000160ece00b6b1ca86dd600000000024000100000000000000000000000000000000ff02000000000\
    00000000000000000163a000502000001008f00bd090000000104000000ff0200000000000000000001ffb6b1ca";
/// Router solicitation with a source link-layer address.
pub const ROUTER_SOLICITATION: &str = "333300000002ea3c9a447e0a86dd6000000000103afffe80000000000000e83c9afffe447e0aff02\
    000000000000000000000000000285007a16000000000101ea3c9a447e0a";
/// Neighbor advertisement, S and O set, with a target link-layer address.
pub const ADVERTISEMENT: &str = "0ece00b6b1caea3c9a447e0a86dd6000000000203afffe80000000000000e83c9afffe447e0afe80000000\
    0000000cce00fffeb6b1ca88005a2e60000000fe80000000000000e83c9afffe447e0a0201ea3c9a447e0a";
/// ICMPv6 echo request, 8 bytes of data.
pub const ECHO_REQUEST_6: &str = "ea3c9a447e0a0ece00b6b1ca86dd6009839200103a40fe800000000000000cce00fffeb6b1cafe800000\
    00000000e83c9afffe447e0a800084a4342300010001020304050607";
/// UDP over IPv6, 7 bytes: "perigee".
pub const UDP_6: &str = "ea3c9a447e0a0ece00b6b1ca86dd60005fce000f1140fe800000000000000cce00fffeb6b1cafe80000000000000e8\
    3c9afffe447e0ad9e21e61000f9d7b70657269676565";
/// Port unreachable that quotes [`UDP_6`].
pub const UNREACHABLE_6: &str = "0ece00b6b1caea3c9a447e0a86dd6002b090003f3a40fe80000000000000e83c9afffe447e0afe80000000\
    0000000cce00fffeb6b1ca010472a80000000060005fce000f1140fe800000000000000cce00fffeb6b1cafe80000000000000e83c9afffe447e0a\
    d9e21e61000f9d7b70657269676565";

/// The bytes of one of these frames from byte `at` on; the network header starts at 14.
pub fn layer(hex: &str, at: usize) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).expect("a hexadecimal digit") as u8;
    let frame: Vec<u8> = hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    frame[at..].to_vec()
}
