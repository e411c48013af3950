/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Is it for the router, and is it a valid packet? As lib/modules/src/classify.rs, ipv4_valid.rs and ipv6_valid.rs. */
#ifndef VALID_H
#define VALID_H

#include "packet.h"

static __always_inline __u64 mac_at(const void *at)
{
	const __u16 *parts = at;

	return parts[0] | (__u64)parts[1] << 16 | (__u64)parts[2] << 32;
}

/* The interface of a VLAN on a port, or -1. */
static __always_inline int vlan_of(const struct settings *s, __u32 port, __u32 vid)
{
	__u64 key = 1ull << 32 | port << 16 | vid;
	__u32 at = (__u32)(key * 0x9e3779b1) >> 19; /* 32 - log2(VLAN_SLOTS) */

	for (int i = 0; i < VLAN_PROBES; i++) {
		__u64 slot = s->vlans[(at + i) & (VLAN_SLOTS - 1)];

		if (slot >> 16 == key)
			return slot & 0xffff;
	}
	return -1;
}

static __always_inline int is_marked(const __u32 *marks, __u32 hash, __u32 shift)
{
	__u32 bit = hash >> (shift & 31);

	return marks[bit >> 5 & (MARK_WORDS - 1)] >> (bit & 31) & 1;
}

static __always_inline int classify(struct packet *p)
{
	void *data = (void *)(long)p->ctx->data, *end = (void *)(long)p->ctx->data_end;
	const __u16 *types = data + 12;
	__u64 destination;
	__u16 type;
	int interface = -1;

	if (data + 14 > end)
		return CLASSIFY_SHORT;
	destination = mac_at(data);
	type = types[0];
	p->l3 = 14;
	if (p->port->flags & PORT_UNTAGGED)
		interface = p->port->untagged;
	if (type == VLAN_TYPE) {
		__u32 vid;

		if (data + 18 > end)
			return CLASSIFY_SHORT;
		vid = bpf_ntohs(types[1]) & 0xfff;
		type = types[2];
		if (vid)
			interface = vlan_of(p->settings, p->port_number, vid);
		p->l3 = 18;
	}
	if (interface < 0)
		return p->port->flags & PORT_VLANS ? UP_COMPLEX : CLASSIFY_UNKNOWN_VLAN;
	p->interface = interface;
	if (type == ARP_TYPE)
		return CLASSIFY_ARP;
	if (destination == MAC_BITS)
		return CLASSIFY_BROADCAST;
	if (destination & 1)
		return CLASSIFY_MULTICAST;
	if (destination != p->port->mac)
		return p->port->flags & PORT_STATIONS ? UP_COMPLEX : CLASSIFY_NOT_OURS;
	p->is6 = type == IPV6_TYPE;
	return p->is6 || type == IPV4_TYPE ? FORWARD : CLASSIFY_OTHER_TYPE;
}

/* By its first byte: an address that one host may have. */
static __always_inline int is_unicast(__u8 first)
{
	return first && first < 224 && first != 127;
}

static __always_inline int valid4(struct packet *p, const struct ipv4 *ip, __u32 available)
{
	const __u16 *halves = (const __u16 *)ip;
	__u8 from = (__u8)ip->source, to = (__u8)ip->destination;
	__u32 sum = 0, total = bpf_ntohs(ip->total);

	/* Those with options are rare, and their checksums longer. */
	if (ip->version_length != 0x45)
		return UP_COMPLEX;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += halves[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	if (sum != 0xffff)
		return IPV4_VALID_CHECKSUM;
	if (total < 20)
		return IPV4_VALID_TOTAL_LENGTH;
	if (total > available)
		return IPV4_VALID_TRUNCATED;
	p->total = total;
	if (to >> 4 == 14)
		return IPV4_VALID_MULTICAST;
	if (!is_unicast(from))
		return IPV4_VALID_MARTIAN_SOURCE;
	if (is_marked(p->settings->marks4, ip->source * 0x9e3779b1, p->settings->mark_shift4))
		return UP_COMPLEX;
	if (!is_unicast(to))
		return IPV4_VALID_MARTIAN_DESTINATION;
	if ((ip->source & 0xffff) == bpf_htons(0xa9fe) || (ip->destination & 0xffff) == bpf_htons(0xa9fe))
		return IPV4_VALID_LINK_LOCAL;
	return FORWARD;
}

static __always_inline __u32 hash6(const __u64 address[2])
{
	__u64 both = (address[0] << 32 | address[0] >> 32) ^ address[1];

	return (both ^ both >> 32) * 0x9e3779b97f4a7c15 >> 32;
}

static __always_inline int valid6(struct packet *p, const struct ipv6 *ip, __u32 available)
{
	__u64 source = bpf_be64_to_cpu(ip->source[0]), destination = bpf_be64_to_cpu(ip->destination[0]);
	__u32 total = 40 + bpf_ntohs(ip->length);
	__u64 one = bpf_cpu_to_be64(1);

	if ((ip->version & 0xf0) != 0x60)
		return IPV6_VALID_VERSION;
	if (total > available)
		return IPV6_VALID_TRUNCATED;
	p->total = total;
	if (source >> 56 == 0xff)
		return IPV6_VALID_MULTICAST_SOURCE;
	if ((!source && ip->source[1] == one) || (!destination && ip->destination[1] == one))
		return IPV6_VALID_LOOPBACK;
	if (destination >> 56 == 0xff)
		return IPV6_VALID_MULTICAST;
	if (!(source | ip->source[1]) || !(destination | ip->destination[1]))
		return IPV6_VALID_UNSPECIFIED;
	if (source >> 54 == 0xfe80 >> 6 || destination >> 54 == 0xfe80 >> 6)
		return IPV6_VALID_LINK_LOCAL;
	if (is_marked(p->settings->marks6, hash6(ip->source), p->settings->mark_shift6))
		return UP_COMPLEX;
	return ip->next ? FORWARD : IPV6_VALID_HOP_BY_HOP;
}

#endif
