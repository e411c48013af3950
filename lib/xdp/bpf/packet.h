/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A packet on its way through the plane: its headers, and what is known of it. */
#ifndef PACKET_H
#define PACKET_H

#include <bpf/bpf_endian.h>

#include "maps.h"
#include "reasons.h"

/* What the decision is, besides a reason. */
#define FORWARD 0x4000
/* Too complicated for the plane. */
#define UP_COMPLEX (UP_BIT | 511)

#define VLAN_TYPE bpf_htons(0x8100)
#define QINQ_TYPE bpf_htons(0x88a8)
#define IPV4_TYPE bpf_htons(0x0800)
#define IPV6_TYPE bpf_htons(0x86dd)
#define ARP_TYPE bpf_htons(0x0806)

#define MAC_BITS ((1ull << 48) - 1)
/* Shortest Ethernet frame without FCS, in bytes: shorter ones are padded to it. */
#define SHORTEST_FRAME 60
/* Time that a packet to be redirected costs, in ns. */
#define REDIRECT_INTERVAL 10000000

struct ipv4 {
	__u8 version_length, tos;
	__u16 total;
	__u16 identification, fragment;
	__u8 ttl, protocol;
	__u16 checksum;
	__u32 source, destination;
};

struct ipv6 {
	__u32 version;
	__u16 length;
	__u8 next, hop_limit;
	__u64 source[2], destination[2];
};

/* A packet on its way. */
struct packet {
	struct xdp_md *ctx;
	struct settings *settings;
	struct counters *counters;
	const struct port *port;
	/* The next hop found. */
	__u64 hop;
	__u32 port_number;
	__u32 interface;
	/* Bytes of the frame as it came. */
	__u32 length;
	/* Offset of the network header, and bytes from it on that belong to the packet. */
	__u32 l3, total;
	/* The filter that has decided, plus 1. It is counted where the packet's way ends: who gets the packet asks again. */
	__u16 rule;
	/* Whether filters have been asked. */
	__u8 judged;
	__u8 is6;
	__u8 up;
};


/* Counts a packet whose way ends here. */
static __always_inline void count_received(const struct packet *p)
{
	struct port_counters *port = &p->counters->ports[p->port_number & (PORTS - 1)];

	port->received++;
	port->received_bytes += p->length;
	if (p->rule)
		p->counters->hits[(p->rule - 1) & (2 * RULES - 1)]++;
}

#endif
