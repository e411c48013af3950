/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What filters and groups know a packet by: as lib/packet/src/wire/tuple.rs and flow.rs. */
#ifndef KEYS_H
#define KEYS_H

#include "filter.h"
#include "packet.h"

/* Extension headers that the router follows. */
static __always_inline int is_extension(__u8 protocol)
{
	return protocol == 0 || protocol == 43 || protocol == 44 || protocol == 51 || protocol == 60;
}

/* Bytes `at` and the three behind it, if they are before the packet's end. */
static __always_inline int ports_at(struct key *key, const void *at, const void *end)
{
	const __u16 *ports = at;

	if (at + 4 > end)
		return 0;
	key->source_port = bpf_ntohs(ports[0]);
	key->destination_port = bpf_ntohs(ports[1]);
	return 1;
}

/* The key of a packet with a whole header of 20 bytes; nothing of it is checked. */
static __always_inline void key4_of(struct key *key, const struct ipv4 *ip, const void *end)
{
	__u32 fragment = bpf_ntohs(ip->fragment) & 0x3fff, header = (ip->version_length & 15) * 4;
	const void *ports = (const void *)ip + header;

	key->source[0] = ip->source;
	key->destination[0] = ip->destination;
	key->protocol = ip->protocol;
	key->obscure = fragment != 0;
	if (has_ports(ip->protocol)) {
		int shown = !(fragment & 0x1fff) && header + 4 <= bpf_ntohs(ip->total) && ports_at(key, ports, end);

		key->missing = shown ? MISSING_NOTHING : MISSING_PORTS;
	}
}

static __always_inline void key6_of(struct key *key, const struct ipv6 *ip, const void *end)
{
	key->source[0] = ip->source[0];
	key->source[1] = ip->source[1];
	key->destination[0] = ip->destination[0];
	key->destination[1] = ip->destination[1];
	key->protocol = ip->next;
	key->obscure = is_extension(ip->next);
	if (key->obscure) {
		key->missing = MISSING_PROTOCOL;
	} else if (has_ports(ip->next)) {
		int shown = bpf_ntohs(ip->length) >= 4 && ports_at(key, ip + 1, end);

		key->missing = shown ? MISSING_NOTHING : MISSING_PORTS;
	}
}

/* How many extension headers are followed, as lib/packet/src/wire/extension.rs does. */
#define EXTENSIONS 8
#define FRAGMENT 44
#define AUTHENTICATION 51

/* Bytes of an extension header with this first word; the longest has 2048. */
static __always_inline __u32 extension_length(__u8 kind, __u8 length)
{
	__u32 bytes = kind == FRAGMENT ? 8 : kind == AUTHENTICATION ? (length + 2) * 4 : (length + 1) * 8;

	return bounded(bytes, 4096);
}

/* Completes the key of the packet at `offset`, which has extension headers, where nobody else knows more of it. Not
 * static, so that it is verified once. */
__noinline int follow6(struct xdp_md *ctx, struct key *key, __u32 offset)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct ipv6 *ip = data + (offset & 31);
	const __u8 *at = (const void *)(ip + 1);
	__u8 next;

	if (!key || (const void *)(ip + 1) > end)
		return 0;
	next = ip->next;
	for (int i = 0; i < EXTENSIONS && is_extension(next); i++) {
		__u8 kind = next;

		if ((const void *)(at + 8) > end)
			return 0;
		next = at[0];
		/* Of a later fragment nothing else is shown. */
		if (kind == FRAGMENT && (at[2] || at[3] & 0xf8)) {
			if (!is_extension(next)) {
				key->protocol = next;
				key->missing = has_ports(next) ? MISSING_PORTS : MISSING_NOTHING;
			}
			return 0;
		}
		at += extension_length(kind, at[1]);
	}
	if (is_extension(next))
		return 0;
	key->protocol = next;
	key->missing = has_ports(next) && !ports_at(key, at, end) ? MISSING_PORTS : MISSING_NOTHING;
	return 0;
}

/* MurmurHash3's 64-bit finalizer, as in lib/packet/src/wire/flow.rs. */
static __always_inline __u64 mix(__u64 word)
{
	__u64 h = word ^ 0x9e3779b97f4a7c15;

	h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 33;
}

static __always_inline __u32 flow_of(__u64 a, __u64 b, __u8 protocol)
{
	__u64 hash = mix(a + b + protocol);

	return hash ^ hash >> 32;
}

static __always_inline __u32 flow4(const struct ipv4 *ip, const void *end)
{
	__u64 source = bpf_ntohl(ip->source), destination = bpf_ntohl(ip->destination);
	struct key key = {};

	key4_of(&key, ip, end);
	if (key.obscure)
		return flow_of(mix(source << 16), mix(destination << 16), 0);
	return flow_of(mix(source << 16 | key.source_port), mix(destination << 16 | key.destination_port), key.protocol);
}

static __always_inline __u64 end6(const __u64 address[2], __u16 port)
{
	return mix(mix(bpf_be64_to_cpu(address[0])) ^ bpf_be64_to_cpu(address[1])) + mix(port);
}

static __always_inline __u32 flow6(const struct ipv6 *ip, const void *end)
{
	struct key key = {};

	key6_of(&key, ip, end);
	return flow_of(end6(ip->source, key.source_port), end6(ip->destination, key.destination_port), key.protocol);
}

#endif
