/* SPDX-License-Identifier: MIT */
/* How Snabb's packets lie in DPDK's buffers, for the C files that touch them: see snabb.h for the picture. */
#ifndef PERIGEE_SNABB_LAYOUT_H
#define PERIGEE_SNABB_LAYOUT_H

#include "snabb.h"

#include <string.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#define WINDOW PERIGEE_SNABB_WINDOW
/* A mempool keeps a cache line before each object. */
#define OBJECT_HEADER 64
/* From the window back to the mbuf. */
#define TO_MBUF (WINDOW - OBJECT_HEADER)
#define PRIVATE (TO_MBUF - sizeof(struct rte_mbuf))
#define ROOM (PERIGEE_SNABB_STRIDE - WINDOW)
#define BURST 64

_Static_assert(sizeof(struct rte_mempool_objhdr) <= OBJECT_HEADER, "the header fits before the object");
_Static_assert(TO_MBUF == 448, "snabb.h says so");
_Static_assert(PRIVATE % RTE_MBUF_PRIV_ALIGN == 0, "DPDK wants it aligned");
_Static_assert(ROOM >= WINDOW + sizeof(struct packet), "a packet fits with any headroom");

static inline struct rte_mbuf *mbuf_of(const struct packet *p)
{
	return (struct rte_mbuf *)(((uintptr_t)p & ~(uintptr_t)(WINDOW - 1)) - TO_MBUF);
}

static inline struct packet *packet_of(struct rte_mbuf *m)
{
	/* buf_addr has been moved on by the two bytes of the length, which come before the data. */
	return (struct packet *)((char *)m->buf_addr + m->data_off - sizeof(uint16_t));
}

/* Its length is set by whoever takes it: until then the packet's memory may stay in another core's cache. */
static inline struct packet *fresh(struct rte_mbuf *m)
{
	return (struct packet *)((char *)m + TO_MBUF + PERIGEE_SNABB_HEADROOM);
}

/* The packet's mbuf, ready to be sent. That there is one segment and no next one holds for all mbufs that Lua has packets of. */
static inline struct rte_mbuf *dressed(const struct packet *p)
{
	struct rte_mbuf *m = mbuf_of(p);

	m->data_off = (uintptr_t)p & (WINDOW - 1);
	m->data_len = p->length;
	m->pkt_len = p->length;
	m->ol_flags = 0;
	return m;
}

/* An mbuf's bytes, of all its segments, in a packet that has room for them. */
static inline void copy_chain(const struct rte_mbuf *m, struct packet *p)
{
	p->length = (uint16_t)m->pkt_len;
	for (uint8_t *to = p->data; m != NULL; to += m->data_len, m = m->next)
		memcpy(to, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
}

struct range {
	uintptr_t first, bytes;
};

#define POOLS 16

/* Where the objects of a process's pools lie (one for each NUMA node, or one in all): one range for each time that one of them grew. All of
 * these pools know all ranges. Packets that programs made elsewhere (ffi.new) are in none. */
struct ranges {
	uint32_t n;
	uint32_t early, gone; /* ranges of early packets, which are no pool's; how many of these were given to this one */
	uint32_t others;      /* further pools */
	struct range of[128], of_early[16];
	struct rte_mempool *other[POOLS - 1];
};

static inline struct ranges *ranges_of(const struct rte_mempool *pool)
{
	/* Behind what rte_pktmbuf_pool_init uses of the pool's private area. */
	return (struct ranges *)((char *)rte_mempool_get_priv((struct rte_mempool *)(uintptr_t)pool) +
				 sizeof(struct rte_pktmbuf_pool_private));
}

static inline uint32_t ranges_in_use(const struct ranges *ranges)
{
	return __atomic_load_n(&ranges->n, __ATOMIC_ACQUIRE);
}

/* Is it a packet of the first n ranges, anywhere in its window? Without branches: packets of all ranges are mixed. */
static inline int is_within(const struct ranges *ranges, uint32_t n, const struct packet *p)
{
	uintptr_t window = (uintptr_t)p & ~(uintptr_t)(WINDOW - 1), offset = 0;

	for (uint32_t i = 0; i < n; i++) {
		uintptr_t from_first = window - ranges->of[i].first;

		offset = from_first < ranges->of[i].bytes ? from_first : offset;
	}
	return offset % PERIGEE_SNABB_STRIDE == WINDOW;
}

/* Is it a packet of this pool, or of another node's, anywhere in its window? */
static inline int is_own(const struct rte_mempool *pool, const struct packet *p)
{
	const struct ranges *ranges = ranges_of(pool);

	return is_within(ranges, ranges_in_use(ranges), p);
}

/* Frees a packet whose copy goes. One from elsewhere is its owner's; one that somebody else has, too, stays theirs. */
static inline void let_go(struct rte_mempool *pool, struct packet *p)
{
	if (is_own(pool, p) && rte_mbuf_refcnt_read(mbuf_of(p)) != 1)
		rte_pktmbuf_free_seg(mbuf_of(p));
	else
		perigee_snabb_give((struct perigee_snabb_pool *)pool, &p, 1);
}

/* ---- links ---- */

static inline uint32_t room_of(const struct link *l)
{
	return (uint32_t)(LINK_MAX_PACKETS - (l->write - l->read));
}

static inline void put(struct link *l, struct packet *p)
{
	l->packets[l->write & (LINK_RING_SIZE - 1)] = p;
	l->write++;
	l->bytes += p->length;
}

static inline struct packet *front(const struct link *l, uint32_t i)
{
	return l->packets[(uint32_t)(l->read + (int32_t)i) & (LINK_RING_SIZE - 1)];
}

#endif
