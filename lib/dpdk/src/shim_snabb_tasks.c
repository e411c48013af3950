/* SPDX-License-Identifier: MIT */
/* Packets between the links of Snabb's apps and the batches of tasks. A packet of the pool is an mbuf, and goes as it is; what is of
 * other memory, shared or not where a packet may start is copied, and counted. Nothing is lost on the way but what is counted as dropped. */
#define _GNU_SOURCE
#include "shim.h"
#include "snabb_layout.h"
#include "tsan.h"

/* An mbuf that holds the packet's bytes; NULL: none is free. The packet is given back. */
static __attribute__((noinline, cold)) struct rte_mbuf *copy_of(struct packet *p, struct rte_mempool *pool,
								struct perigee_snabb_handed *handed)
{
	struct packet *copy;

	if (perigee_snabb_take((struct perigee_snabb_pool *)pool, &copy, 1) == 0)
		return NULL;
	copy->length = p->length;
	memcpy(copy->data, p->data, p->length);
	let_go(pool, p);
	handed->copied++;
	return dressed(copy);
}

/* From a link to a batch: up to n packets; returns how many. What finds no mbuf to be copied to stays in the link. */
uint16_t perigee_snabb_lend(struct link *from, const struct perigee_arrays *to, uint16_t n, struct rte_mempool *pool,
			    struct perigee_snabb_freelist *counts, struct perigee_snabb_handed *handed)
{
	uint16_t lent = 0;

	while (lent < n && from->write != from->read) {
		struct packet *p = front(from, 0);
		struct rte_mbuf *m;

		if (unlikely(p->length > PACKET_PAYLOAD_SIZE)) {
			handed->too_long++;
			from->read++;
			counts->frees++;
			perigee_snabb_give((struct perigee_snabb_pool *)pool, &p, 1);
			continue;
		}
		if (likely(is_own(pool, p) && rte_mbuf_refcnt_read(mbuf_of(p)) == 1)) {
			m = dressed(p);
		} else {
			m = copy_of(p, pool, handed);
			if (m == NULL) {
				handed->no_buffer++;
				break;
			}
		}
		m->port = RTE_MBUF_PORT_INVALID;
		from->read++;
		counts->frees++;
		counts->bytes += m->data_len;
		counts->padded += RTE_MAX(m->data_len, 60);
		handed->packets++;
		handed->bytes += m->data_len;
		to->handle[lent] = m;
		to->data[lent] = rte_pktmbuf_mtod(m, uint8_t *);
		to->length[lent] = m->data_len;
		to->port[lent] = m->port;
		to->flags[lent] = 0;
		lent++;
	}
	return lent;
}

static inline int is_plain(const struct rte_mempool *pool, const struct rte_mbuf *m)
{
	return is_own(pool, (const struct packet *)((const char *)m + TO_MBUF)) && m->nb_segs == 1 &&
	       rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m) && m->data_len <= PACKET_PAYLOAD_SIZE &&
	       (m->data_off & 1) == 0 && m->data_off < WINDOW;
}

/* A packet with the bytes of an mbuf of a task's own, which is freed; NULL: dropped, and counted. */
static __attribute__((noinline)) struct packet *copy_in(struct rte_mbuf *m, struct rte_mempool *pool,
							struct perigee_snabb_handed *handed)
{
	struct packet *p = NULL;

	if (m->pkt_len > PACKET_PAYLOAD_SIZE) {
		handed->too_long++;
	} else if (perigee_snabb_take((struct perigee_snabb_pool *)pool, &p, 1) == 0) {
		p = NULL;
		handed->no_buffer++;
	} else {
		copy_chain(m, p);
		handed->copied++;
	}
	free_mbuf(m);
	return p;
}

/* From a batch to a link: as far as that has room; returns how many. */
uint16_t perigee_snabb_accept(struct rte_mbuf **from, uint16_t n, struct link *to, struct rte_mempool *pool,
			      struct perigee_snabb_handed *handed)
{
	uint16_t taken = 0;

	for (; taken < n && room_of(to) > 0; taken++) {
		struct rte_mbuf *m = from[taken];
		struct packet *p;

		if (is_plain(pool, m)) {
			p = packet_of(m);
			p->length = m->data_len;
		} else {
			p = copy_in(m, pool, handed);
			if (p == NULL)
				continue;
		}
		handed->packets++;
		handed->bytes += p->length;
		put(to, p);
	}
	return taken;
}
