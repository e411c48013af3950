/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Filters: the first rule that is about a packet decides. A rule that denies decides, too, if what the packet does not
 * show makes it uncertain (lib/modules/src/rules.rs). */
#ifndef FILTER_H
#define FILTER_H

#include <bpf/bpf_endian.h>

#include "maps.h"

#define TCP 6
#define UDP 17
#define DCCP 33
#define SCTP 132
#define UDP_LITE 136

/* What a packet does not show. */
#define MISSING_NOTHING 0
#define MISSING_PORTS 1
#define MISSING_PROTOCOL 3

struct key {
	/* As in a packet; of IPv4 the first words alone. */
	__u64 source[2], destination[2];
	__u16 source_port, destination_port;
	__u8 protocol;
	__u8 missing;
	/* It is a fragment, or its headers were not followed: the router knows more of it. */
	__u8 obscure;
	__u8 zero;
};

static __always_inline int has_ports(__u8 protocol)
{
	return protocol == TCP || protocol == UDP || protocol == DCCP || protocol == SCTP || protocol == UDP_LITE;
}

/* 1 if a field is outside of a range. */
static __always_inline __u64 is_outside(__u64 field, __u64 first, __u64 last)
{
	return is_less(field, first) | is_less(last, field);
}

/* 1 if a rule decides; `differs` is 0 if its addresses fit. Fields that it does not ask for have the range of all. */
static __always_inline __u64 decides(const struct rule_tail *rule, const struct key *key, __u64 differs)
{
	__u64 flags = rule->flags, no_ports = key->missing & 1, no_protocol = key->missing >> 1 & 1;
	__u64 ports = is_outside(key->source_port, rule->source_first, rule->source_last) |
		      is_outside(key->destination_port, rule->destination_first, rule->destination_last);
	__u64 protocol = is_outside(key->protocol, rule->protocol_first, rule->protocol_last);
	__u64 maybe = (flags & no_ports) | (flags >> 1 & no_protocol);

	differs = (differs | -differs) >> 63;
	differs |= (ports & ~no_ports) | (protocol & ~no_protocol) | (maybe & ~(flags >> 2));
	return (differs & 1) ^ 1;
}

/* The place of the rule that decides, in a part of the list; none: -1. Functions that are not static are verified by
 * themselves, once. */
__noinline int rule4_of(const struct settings *s, const struct key *key, __u32 at, __u32 end)
{
	if (!s || !key)
		return -1;
	for (int i = 0; i < RULES; i++, at++) {
		const struct rule4 *rule;
		__u64 differs;

		if (at >= end || at >= RULES)
			break;
		rule = &s->list4[bounded(at, RULES)];
		differs = (((__u32)key->source[0] ^ rule->source) & rule->source_mask) |
			  (((__u32)key->destination[0] ^ rule->destination) & rule->destination_mask);
		if (decides(&rule->tail, key, differs))
			return at;
	}
	return -1;
}

__noinline int rule6_of(const struct settings *s, const struct key *key, __u32 at, __u32 end)
{
	if (!s || !key)
		return -1;
	for (int i = 0; i < RULES; i++, at++) {
		const struct rule6 *rule;
		__u64 differs;

		if (at >= end || at >= RULES)
			break;
		rule = &s->list6[bounded(at, RULES)];
		differs = ((key->source[0] ^ rule->source[0]) & rule->source_mask[0]) |
			  ((key->source[1] ^ rule->source[1]) & rule->source_mask[1]) |
			  ((key->destination[0] ^ rule->destination[0]) & rule->destination_mask[0]) |
			  ((key->destination[1] ^ rule->destination[1]) & rule->destination_mask[1]);
		if (decides(&rule->tail, key, differs))
			return at;
	}
	return -1;
}

#endif
