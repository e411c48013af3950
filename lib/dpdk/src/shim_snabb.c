/* SPDX-License-Identifier: MIT */
/* Snabb's packets on DPDK: see snabb.h for the layout. Everything that is called once per burst is here. */
#define _GNU_SOURCE
#include "shim.h"
#include "snabb_layout.h"
#include "tsan.h"

#include <string.h>
#include <time.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

/* ---- receive ---- */

/* An mbuf that is not a plain one of the pool: copies it, or drops it and counts why. */
static __attribute__((noinline, cold)) struct packet *copy_in(struct perigee_snabb_port *port, struct rte_mbuf *m)
{
	struct packet *p = NULL;

	if (m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)
		rte_vlan_insert(&m);
	if (m->pkt_len > PACKET_PAYLOAD_SIZE)
		port->rx_long++;
	else if (perigee_snabb_take((struct perigee_snabb_pool *)port->packets, &p, 1) == 0)
		port->rx_no_buffer++;
	else {
		port->copied_in++;
		copy_chain(m, p);
	}
	free_mbuf(m);
	return p;
}

/* Can Lua have it as it is? */
static inline int is_plain(const struct rte_mbuf *m, const struct rte_mempool *packets)
{
	return m->pool == packets && m->nb_segs == 1 && rte_mbuf_refcnt_read(m) == 1 &&
	       !(m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_RX_VLAN_STRIPPED)) &&
	       m->data_len <= PACKET_PAYLOAD_SIZE && !(m->data_off & ~(WINDOW - 2));
}

uint32_t perigee_snabb_receive(struct perigee_snabb_port *port, struct link *to, uint32_t n)
{
	uint32_t taken = 0;
	int64_t write = to->write, bytes = 0;

	n = RTE_MIN(n, room_of(to));
	/* Bounded by what the device gives: all of it may have to be dropped. */
	while (taken < n) {
		struct rte_mbuf *burst[BURST];
		uint16_t want = (uint16_t)RTE_MIN(n - taken, (uint32_t)BURST);
		uint16_t got = rte_eth_rx_burst(port->port, port->queue, burst, want);

		mbufs_taken(burst, got);
		for (uint16_t i = 0; i < got; i++) {
			struct packet *p;

			if (likely(is_plain(burst[i], port->packets))) {
				p = packet_of(burst[i]);
				p->length = burst[i]->data_len;
			} else {
				p = copy_in(port, burst[i]);
				if (p == NULL)
					continue;
			}
			to->packets[write++ & (LINK_RING_SIZE - 1)] = p;
			bytes += p->length;
		}
		port->received += got;
		taken += got;
		if (got < want)
			break;
	}
	n = (uint32_t)(write - to->write);
	to->write = write;
	to->bytes += bytes;
	return n;
}

/* ---- transmit ---- */

/* A buffer of the device's that holds the packet's bytes; NULL when there is none. */
static __attribute__((noinline, cold)) struct rte_mbuf *copy_out(struct perigee_snabb_port *port, const struct packet *p)
{
	struct rte_mbuf *m = new_mbuf(port->device);
	char *to = m ? rte_pktmbuf_append(m, p->length) : NULL;

	if (to == NULL) {
		free_mbuf(m);
		return NULL;
	}
	memcpy(to, p->data, p->length);
	port->copied_out++;
	return m;
}

/* What a call of the device gets: packets as they are, or copies of packets. */
struct outgoing {
	struct rte_mbuf *mbufs[BURST];
	uint16_t n;
};

static inline int can_go_as_it_is(const struct perigee_snabb_port *port, const struct ranges *ranges, uint32_t in_use,
				  const struct packet *p)
{
	return p->length <= PACKET_PAYLOAD_SIZE && is_within(ranges, in_use, p) && rte_mbuf_refcnt_read(mbuf_of(p)) == 1 &&
	       !port->copies;
}

/* Up to a burst of a link's packets from the `first` on that can go as they are. */
static inline void dress(const struct perigee_snabb_port *port, const struct link *from, uint32_t first, uint32_t waiting,
			 struct outgoing *out)
{
	const struct ranges *ranges = ranges_of(port->packets);
	uint32_t in_use = ranges_in_use(ranges);
	uint16_t most = (uint16_t)RTE_MIN(waiting - first, (uint32_t)BURST);

	for (out->n = 0; out->n < most; out->n++) {
		struct packet *p = front(from, first + out->n);

		if (unlikely(!can_go_as_it_is(port, ranges, in_use, p)))
			break;
		out->mbufs[out->n] = dressed(p);
	}
}

/* Copies of those that cannot, up to the first that can, or for which there is no buffer. */
static __attribute__((noinline, cold)) void copy(struct perigee_snabb_port *port, const struct link *from, uint32_t first,
						 uint32_t waiting, struct outgoing *out)
{
	const struct ranges *ranges = ranges_of(port->packets);
	uint16_t most = (uint16_t)RTE_MIN(waiting - first, (uint32_t)BURST);

	for (out->n = 0; out->n < most; out->n++) {
		struct packet *p = front(from, first + out->n);

		if (can_go_as_it_is(port, ranges, ranges_in_use(ranges), p))
			break;
		out->mbufs[out->n] = p->length <= PACKET_PAYLOAD_SIZE ? copy_out(port, p) : NULL;
		if (out->mbufs[out->n] == NULL)
			break;
	}
}

/* What became of copies: packets whose copies went are done with; the others wait, and are copied again. */
static __attribute__((noinline, cold)) void copies_went(struct perigee_snabb_port *port, const struct link *from, uint32_t first,
							const struct outgoing *out, uint16_t sent)
{
	for (uint16_t i = 0; i < sent; i++)
		let_go(port->packets, front(from, first + i));
	for (uint16_t i = sent; i < out->n; i++)
		free_mbuf(out->mbufs[i]);
	port->copied_out -= out->n - sent;
}

/* A packet that cannot be sent does not stop those behind it. */
static __attribute__((noinline, cold)) void drop(struct perigee_snabb_port *port, struct packet *p,
						 struct perigee_snabb_freelist *counts)
{
	if (p->length > PACKET_PAYLOAD_SIZE || p->length > port->max_frame)
		port->tx_long++;
	else
		port->tx_no_buffer++;
	counts->frees++;
	counts->bytes += p->length;
	counts->padded += RTE_MAX(p->length, 60);
	let_go(port->packets, p);
}

/* Gives a burst to the device and counts what it took as freed; returns how many. */
static inline uint16_t send_burst(struct perigee_snabb_port *port, struct outgoing *out, struct perigee_snabb_freelist *counts)
{
	int64_t bytes = 0, padded = 0;
	uint16_t lengths[BURST], sent;

	/* Before: what is sent is the device's. */
	for (uint16_t i = 0; i < out->n; i++)
		lengths[i] = out->mbufs[i]->data_len;
	mbufs_given(out->mbufs, out->n);
	sent = rte_eth_tx_burst(port->port, port->queue, out->mbufs, out->n);
	for (uint16_t i = 0; i < sent; i++) {
		bytes += lengths[i];
		padded += RTE_MAX(lengths[i], 60);
	}
	counts->frees += sent;
	counts->bytes += bytes;
	counts->padded += padded;
	port->transmitted += sent;
	return sent;
}

uint32_t perigee_snabb_transmit(struct perigee_snabb_port *port, struct link *from, struct perigee_snabb_freelist *counts)
{
	uint32_t waiting = (uint32_t)(from->write - from->read), gone = 0;

	if (waiting == 0 && port->kick)
		rte_eth_tx_burst(port->port, port->queue, NULL, 0); /* AF_XDP gets on with what it has taken */
	while (gone < waiting) {
		struct outgoing out;
		uint32_t first = gone;
		uint16_t sent;
		int copied;

		dress(port, from, first, waiting, &out);
		copied = out.n == 0;
		if (copied)
			copy(port, from, first, waiting, &out);
		if (out.n == 0) {
			drop(port, front(from, gone++), counts); /* too long, or there is no buffer for its copy */
			continue;
		}
		sent = send_burst(port, &out, counts);
		if (copied)
			copies_went(port, from, first, &out, sent);
		gone += sent;
		if (sent == 0 && front(from, gone)->length > port->max_frame)
			drop(port, front(from, gone++), counts); /* the device would not take it the next time either */
		else if (sent < out.n)
			break;
	}
	from->read += (int32_t)gone;
	return gone;
}

/* ---- links between threads ---- */

struct rte_ring *perigee_snabb_ring_create(const char *name, unsigned int capacity, int socket)
{
	struct rte_ring *ring = rte_ring_create(name, capacity, socket, RING_F_EXACT_SZ | RING_F_SP_ENQ | RING_F_SC_DEQ);

	/* Without hugepages all of EAL's memory is of socket 0, as far as it knows. */
	return ring || socket == SOCKET_ID_ANY ? ring : perigee_snabb_ring_create(name, capacity, SOCKET_ID_ANY);
}

uint32_t perigee_snabb_put(struct perigee_snabb_ring *to, struct link *from)
{
	uint32_t waiting = (uint32_t)(from->write - from->read), gone = 0;

	while (gone < waiting) {
		uint32_t at = (uint32_t)(from->read + (int32_t)gone) & (LINK_RING_SIZE - 1);
		uint32_t some = RTE_MIN(waiting - gone, LINK_RING_SIZE - at);
		uint32_t moved = rte_ring_sp_enqueue_burst((struct rte_ring *)to, (void *const *)&from->packets[at], some, NULL);

		gone += moved;
		if (moved < some)
			break;
	}
	from->read += (int32_t)gone;
	return gone;
}

/* The packets that wait behind come nearer while this thread handles those that it has got: their lines are in the cache of
 * the core that has sent them. */
static inline void prefetch_waiting(const struct rte_ring *ring, uint32_t n)
{
	struct packet *const *slots = (struct packet *const *)&ring[1];
	uint32_t head = ring->cons.head; /* only this thread moves it */
	uint32_t waiting = __atomic_load_n(&ring->prod.tail, __ATOMIC_ACQUIRE) - head;

	n = RTE_MIN(n, waiting);
	for (uint32_t i = 0; i < n; i++)
		rte_prefetch0(slots[(head + i) & ring->mask]);
}

uint32_t perigee_snabb_get(struct perigee_snabb_ring *from, struct link *to, uint32_t n)
{
	struct rte_ring *ring = (struct rte_ring *)from;
	int64_t write = to->write, bytes = 0;

	n = RTE_MIN(n, room_of(to));
	while (n > 0) {
		struct packet *burst[BURST];
		uint32_t some = RTE_MIN(n, (uint32_t)BURST);
		uint32_t moved = rte_ring_sc_dequeue_burst(ring, (void **)burst, some, NULL);

		for (uint32_t i = 0; i < moved; i++) {
			to->packets[write++ & (LINK_RING_SIZE - 1)] = burst[i];
			bytes += burst[i]->length;
		}
		n -= moved;
		if (moved < some)
			break;
	}
	prefetch_waiting(ring, BURST);
	n = (uint32_t)(write - to->write);
	to->write = write;
	to->bytes += bytes;
	return n;
}

/* ---- what Lua lacks ---- */

int32_t perigee_snabb_load(const int32_t *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

int perigee_snabb_compare_exchange_u32(uint32_t *at, uint32_t old, uint32_t new_)
{
	return __atomic_compare_exchange_n(at, &old, new_, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static struct timespec clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t;
}

double get_monotonic_time(void)
{
	struct timespec t = clock_of(CLOCK_MONOTONIC);

	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double get_unix_time(void)
{
	struct timespec t = clock_of(CLOCK_REALTIME);

	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t get_time_ns(void)
{
	struct timespec t = clock_of(CLOCK_MONOTONIC);

	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void full_memory_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
