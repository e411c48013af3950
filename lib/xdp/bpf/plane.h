/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the in-kernel plane and the router share: the layout of the maps.
 *
 *   state      one element: which of the two settings holds
 *   settings   two elements: what is published as a whole; the one that does not hold is written, then the state says
 *              that it holds
 *   arena      lines of 64 bytes: lookup structures, next hops, buckets of groups and neighbors, which the router
 *              patches in place; settings say where each of them starts
 *   counters   one element for each processor
 *   devices    the ports' interfaces of Linux, by port
 *   sockets    the ports' AF_XDP sockets, by port and queue
 *
 * lib/xdp/src/layout.rs has the same in Rust; a test compares the two by the object's type information. */
#ifndef PLANE_H
#define PLANE_H

#include <linux/types.h>

/* Ports, from 1: 0 is none. */
#define PORTS 256
/* Ports are found by the index of their interface of Linux. How many slots it is looked for in. */
#define LINK_SLOTS 1024
#define LINK_PROBES 16
#define INTERFACES 4096
#define VLAN_SLOTS 8192
/* How many slots a VLAN is looked for in. */
#define VLAN_PROBES 8
#define MARK_WORDS 2048
#define RULES 256
#define REASONS 512
/* Receive queues of a port. */
#define QUEUES 128

/* How a packet that the plane does not finish leaves it. */
enum up {
	/* To the port's AF_XDP socket, whose reader judges it from scratch. */
	UP_SOCKET = 0,
	/* To Linux. */
	UP_LINUX = 1,
};

/* `struct port.flags`. */
#define PORT_UNTAGGED 1
#define PORT_STATIONS 2
/* The port has VLANs that are not among the settings' slots. */
#define PORT_VLANS 4
/* The plane finishes none of its packets. */
#define PORT_ALL_UP 8
/* The program is behind its driver: what it redirects, any interface sends. */
#define PORT_GENERIC 16

struct port {
	/* The MAC address as its bytes are in a frame, in the low 48 bits. */
	__u64 mac;
	/* The interface of frames without a VLAN, where PORT_UNTAGGED is set. */
	__u16 untagged;
	__u8 flags;
	__u8 up;
	__u32 zero;
};

/* `struct interface.flags`. */
#define INTERFACE_HERE 1
#define INTERFACE_REDIRECTS 2
#define INTERFACE_LOOSE 4
#define INTERFACE_STRICT 8
/* The driver sends what a program in another driver redirects to it. */
#define INTERFACE_SENDS 16
/* All packets of IPv4 go up: Linux has no address there, and a program of its own may wait for one. */
#define INTERFACE_NO_ADDRESS 32

struct interface {
	/* The MAC address as its bytes are in a frame, in the low 48 bits. */
	__u64 mac;
	__u16 port;
	/* Largest IP packet, in bytes. */
	__u16 mtu;
	/* 0: none. */
	__u16 vlan;
	__u16 flags;
};

/* `struct rule_tail.flags`: it asks for ports, for a protocol; it denies. */
#define RULE_PORTS 1
#define RULE_PROTOCOL 2
#define RULE_DENY 4

/* What a rule asks for besides addresses: ranges, both ends included. */
struct rule_tail {
	__u16 source_first, source_last;
	__u16 destination_first, destination_last;
	__u8 protocol_first, protocol_last;
	__u16 flags;
	/* Its place in the list of filters, which it is counted under. */
	__u16 number;
	__u16 zero;
};

/* Addresses are as in a packet. */
struct rule4 {
	__u32 source, source_mask;
	__u32 destination, destination_mask;
	struct rule_tail tail;
};

struct rule6 {
	__u64 source[2], source_mask[2];
	__u64 destination[2], destination_mask[2];
	struct rule_tail tail;
};

/* `struct settings.flags`. */
#define LEAVES_WIDE 1

/* Places in the arena are numbers of lines; 0 is none. */
struct settings {
	__u32 flags;
	/* IPv4: BM19's nodes, leaves and groups; DIRB's bytes and next hops by code, if it is used. */
	__u32 nodes, leaves, groups, bytes, codes;
	/* IPv6: range6's words, and a line with the default route's next hop. */
	__u32 words6, default6;
	/* Next hops, and how many ids there are; buckets of groups, and how many. */
	__u32 next_hops, next_hop_count, buckets, bucket_count;
	/* xor a flow's hash. */
	__u32 seed;
	/* Neighbors, and how many slots there are less 1. */
	__u32 neighbors, neighbor_mask;
	/* How many filters there are, and how many with what is steered up behind them. */
	__u32 rules4, rules6, all_rules4, all_rules6;
	/* By how much hashes of addresses are shifted to get a mark's number. */
	__u32 mark_shift4, mark_shift6;
	__u32 zero;
	__u64 secret[3];
	/* The index of an interface of Linux in the high half, its port in the low one; 0: empty, all ones: taken out. */
	__u64 links[LINK_SLOTS];
	struct port ports[PORTS];
	struct interface interfaces[INTERFACES];
	/* Port, VLAN and interface, each plus 0 in 16 bits from bit 32, 16 and 0 on, plus bit 48; 0: empty. */
	__u64 vlans[VLAN_SLOTS];
	__u32 marks4[MARK_WORDS], marks6[MARK_WORDS];
	struct rule4 list4[RULES];
	struct rule6 list6[RULES];
};

struct state {
	/* Which settings hold, 0 or 1. */
	__u32 current;
	__u32 zero;
};

struct line {
	union {
		__u8 bytes[64];
		__u16 shorts[32];
		__u32 words[16];
		__u64 longs[8];
	};
};

struct port_counters {
	/* Frames that the plane finished or gave to Linux, by the port they came in on. */
	__u64 received;
	/* Bytes of these, as they came. */
	__u64 received_bytes;
	/* Frames given to Linux, or to the port's AF_XDP socket: these are in no other counter. */
	__u64 handed_on;
	/* Frames sent, by the port they left by. */
	__u64 sent;
	__u64 sent_bytes;
};

struct counters {
	/* By number of reason (lib/modules/src/reason.rs). */
	__u64 reasons[REASONS];
	/* Forwarded packets of IPv4 and of IPv6. */
	__u64 forwarded[2];
	/* Packets that each rule decided about, by number. */
	__u64 hits[2 * RULES];
	struct port_counters ports[PORTS];
	/* When the next packet that leaves by its own interface may be handed on, in ns. */
	__u64 next_redirect;
	__u64 zero;
};

#endif
