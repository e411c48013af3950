/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Lookups in the arena: the readers of lib/fib's structures. lib/fib/src/lookup says what their words mean. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "maps.h"

/* No route matches. */
#define NO_ROUTE 0u
/* DIRB: the byte that says nothing. */
#define ASK 255
/* BM19: a leaf that is a group. */
#define EXTENDED (1u << 31)

/* range6: kinds of words. */
#define KIND (3u << 30)
#define INDEX (1u << 30)
#define LEAVES (2u << 30)
#define TREE (3u << 30)
#define WIDE (1u << 26)
#define LINE_MASK ((1u << 25) - 1)
/* Nodes on the way of an address: each takes 4 bits of it at least, but for a line behind each tree. */
#define STEPS 40

static __always_inline __u32 word_at(__u32 place, __u32 at)
{
	struct line *line = line_at(place + (at >> 4));

	return line ? line->words[at & 15] : 0;
}

static __always_inline __u64 long_at(__u32 place, __u32 at)
{
	struct line *line = line_at(place + (at >> 3));

	return line ? line->longs[at & 7] : 0;
}

static __always_inline __u32 count_ones(__u32 bits)
{
	bits -= bits >> 1 & 0x55555555;
	bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
	return ((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* A leaf of BM19: of 16 bits, whose highest bit stays the highest, or of 32. */
static __always_inline __u32 leaf_at(const struct settings *s, __u32 place, __u32 at)
{
	struct line *line;
	__u32 leaf;

	if (s->flags & LEAVES_WIDE)
		return word_at(place, at);
	line = line_at(place + (at >> 5));
	leaf = line ? line->shorts[at & 31] : 0;
	return (leaf & 0x7fff) | (leaf & 0x8000) << 16;
}

/* The id of the next hop of an IPv4 address, which is a number. */
static __always_inline __u32 lookup4(const struct settings *s, __u32 address)
{
	__u32 leaf, bitmap, base;
	__u64 node;

	if (s->bytes) {
		struct line *line = line_at(s->bytes + (address >> 14));
		__u32 code = line ? line->bytes[address >> 8 & 63] : ASK;

		if (code != ASK)
			return s->codes ? word_at(s->codes, code) : code;
	}
	node = long_at(s->nodes, address >> 13);
	bitmap = node >> 32;
	base = node;
	leaf = base;
	if (bitmap) {
		__u32 upto = bitmap & ~0u >> (31 - (address >> 8 & 31));

		leaf = leaf_at(s, s->leaves, base + count_ones(upto) - 1);
	}
	if (leaf & EXTENDED)
		leaf = leaf_at(s, s->groups, (leaf ^ EXTENDED) << 8 | (address & 255));
	return leaf;
}

/* The run of a line that a key is in. */
static __always_inline __u32 run_of(const struct line *line, int lasts, __u32 key)
{
	__u32 run = 0;

#pragma unroll
	for (int i = 0; i < lasts; i++)
		run += is_less(line->words[i], key);
	return run;
}

/* The id of the next hop of an IPv6 address, which is a number in two halves. */
__noinline __u32 lookup6(const struct settings *s, __u64 high, __u64 low)
{
	__u32 word = INDEX | 12u << 26;

	if (!s)
		return NO_ROUTE;

	for (int i = 0; i < STEPS && word & KIND; i++) {
		__u32 key = high >> 32, place = s->words6 + (word & LINE_MASK), run;
		struct line *line;

		if ((word & KIND) == INDEX) {
			__u32 stride = (word >> 26 & 15) + 4;

			word = word_at(place, key >> (32 - stride));
			high = high << stride | low >> (64 - stride);
			low <<= stride;
			continue;
		}
		line = line_at(place);
		if (!line)
			return NO_ROUTE;
		if ((word & KIND) == TREE) {
			/* The verifier does not know that `zero` is 0: what it has found out about a word makes no
			 * two rounds alike, and it would follow all of them. */
			word = ((word ^ TREE ^ LEAVES) + 1 + run_of(line, 16, key)) ^ s->zero;
		} else if (!(word & WIDE)) {
			run = 20 + run_of(line, 10, key);
			word = line->shorts[run & 31];
		} else {
			run = 8 + run_of(line, 7, key);
			word = line->words[run & 15];
			high = high << 32 | low >> 32;
			low <<= 32;
		}
	}
	return word ? word - 1 : word_at(s->default6, 0);
}

/* Next hops: lib/fib/src/next_hop.rs. */
#define SPECIAL(code) ((__u64)(0xfff0 + (code)) << 48)
#define HOP_LOCAL SPECIAL(1)
#define HOP_UNREACHABLE SPECIAL(2)
#define HOP_PROHIBIT SPECIAL(3)
#define HOP_BLACKHOLE SPECIAL(4)
#define HOP_UNRESOLVED SPECIAL(5)
#define HOP_GROUP SPECIAL(6)
#define HOP_TO_LINUX SPECIAL(7)
#define HOP_REFUSED SPECIAL(8)
#define HOP_LINK (HOP_UNRESOLVED | 1 << 16)
#define HOP_CODE (~0ull << 48)

static __always_inline int is_forward(__u64 hop)
{
	return hop < SPECIAL(0);
}

static __always_inline __u64 hop_at(const struct settings *s, __u32 id)
{
	if (id >= s->next_hop_count)
		return SPECIAL(0);
	return long_at(s->next_hops, id) ^ SPECIAL(0);
}

/* The next hop of a group for a flow. */
static __always_inline __u64 member_of(const struct settings *s, __u64 group, __u32 flow)
{
	__u32 h = flow ^ s->seed, log2 = group >> 32 & 31, at;

	h = (h ^ h >> 16) * 0x85ebca6b;
	h = (h ^ h >> 13) * 0xc2b2ae35;
	at = (__u32)group + ((h ^ h >> 16) >> (32 - log2));
	return at < s->bucket_count ? hop_at(s, word_at(s->buckets, at)) : SPECIAL(0);
}

/* The product of 128 bits, folded. */
static __always_inline __u64 fold(__u64 a, __u64 b)
{
	__u64 a0 = (__u32)a, a1 = a >> 32, b0 = (__u32)b, b1 = b >> 32;
	__u64 p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0;
	__u64 middle = (p00 >> 32) + (__u32)p01 + (__u32)p10;

	return ((__u32)p00 | middle << 32) ^ (a1 * b1 + (p01 >> 32) + (p10 >> 32) + (middle >> 32));
}

/* Neighbors: lib/fib/src/neighbors.rs. */
#define SLOT_LIVE (1ull << 63)
#define SLOT_FAMILY6 (1ull << 40)
#define SLOT_ID ((1ull << 24) - 1)
/* Half of the slots are empty, so that chains are short. A neighbor further behind is looked for by the slow path. */
#define PROBES 32

/* The next hop of a neighbor on a link; the link itself if it is not known. */
__noinline __u64 neighbor_of(const struct settings *s, __u64 link, __u64 family, __u64 high, __u64 low)
{
	__u64 scope = SLOT_LIVE | family | (link & 0xffff) << 24;
	__u32 at;

	if (!s)
		return link;
	at = fold(fold(high ^ s->secret[0], low ^ s->secret[1]) ^ scope, s->secret[2] | 1);

	for (int i = 0; i < PROBES; i++, at++) {
		struct line *line = line_at(s->neighbors + ((at & s->neighbor_mask) >> 1));
		__u64 *slot, what;

		if (!line)
			break;
		slot = line->longs + (at & 1) * 4;
		what = slot[0];
		/* The slot may have been given to another neighbor while it was compared. */
		if ((what & ~SLOT_ID) == scope && slot[1] == high && slot[2] == low && *(volatile __u64 *)slot == what) {
			__u64 hop = hop_at(s, what & SLOT_ID);

			return is_forward(hop) ? hop : link;
		}
		if (!what)
			break;
	}
	return link;
}

#endif
