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

static void copy_chain(const struct rte_mbuf *m, struct packet *p)
{
	p->length = (uint16_t)m->pkt_len;
	for (uint8_t *to = p->data; m != NULL; to += m->data_len, m = m->next)
		memcpy(to, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
}

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

uint32_t perigee_snabb_receive(struct perigee_snabb_port *port, struct link *to, uint32_t n)
{
	uint32_t received = 0, taken = 0;

	n = RTE_MIN(n, room_of(to));
	/* Bounded by what the device gives: all of it may have to be dropped. */
	while (taken < n) {
		struct rte_mbuf *burst[BURST];
		uint16_t want = (uint16_t)RTE_MIN(n - taken, (uint32_t)BURST);
		uint16_t got = rte_eth_rx_burst(port->port, port->queue, burst, want);

		mbufs_taken(burst, got);
		for (uint16_t i = 0; i < got; i++) {
			struct rte_mbuf *m = burst[i];
			struct packet *p;

			if (unlikely(m->pool != port->packets || m->nb_segs != 1 || rte_mbuf_refcnt_read(m) != 1 ||
				     !RTE_MBUF_DIRECT(m) || m->data_len > PACKET_PAYLOAD_SIZE || m->data_off & 1 ||
				     m->data_off >= WINDOW || m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)) {
				p = copy_in(port, m);
				if (p == NULL)
					continue;
			} else {
				p = packet_of(m);
				p->length = m->data_len;
			}
			put(to, p);
			received++;
		}
		port->received += got;
		taken += got;
		if (got < want)
			break;
	}
	return received;
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

static inline int can_go_as_it_is(const struct perigee_snabb_port *port, const struct packet *p)
{
	return !port->copies && p->length <= PACKET_PAYLOAD_SIZE && is_own(port->packets, p) &&
	       rte_mbuf_refcnt_read(mbuf_of(p)) == 1;
}

static inline struct rte_mbuf *dressed(const struct packet *p)
{
	struct rte_mbuf *m = mbuf_of(p);

	m->data_off = (uintptr_t)p & (WINDOW - 1);
	m->data_len = p->length;
	m->pkt_len = p->length;
	m->nb_segs = 1;
	m->next = NULL;
	m->ol_flags = 0;
	return m;
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
	perigee_snabb_give((struct perigee_snabb_pool *)port->packets, &p, 1);
}

uint32_t perigee_snabb_transmit(struct perigee_snabb_port *port, struct link *from, struct perigee_snabb_freelist *counts)
{
	uint32_t waiting = (uint32_t)(from->write - from->read), gone = 0;

	if (waiting == 0 && port->kick)
		rte_eth_tx_burst(port->port, port->queue, NULL, 0); /* AF_XDP gets on with what it has taken */
	while (gone < waiting) {
		struct rte_mbuf *burst[BURST];
		struct packet *copied[BURST]; /* NULL: the packet itself is in the burst */
		uint16_t lengths[BURST];
		uint16_t n = 0, sent;

		for (uint32_t i = gone; i < waiting && n < BURST; i++, n++) {
			struct packet *p = front(from, i);

			lengths[n] = p->length;
			if (likely(can_go_as_it_is(port, p))) {
				burst[n] = dressed(p);
				copied[n] = NULL;
				continue;
			}
			burst[n] = p->length <= PACKET_PAYLOAD_SIZE ? copy_out(port, p) : NULL;
			if (burst[n] == NULL)
				break;
			copied[n] = p;
		}
		mbufs_given(burst, n);
		sent = n ? rte_eth_tx_burst(port->port, port->queue, burst, n) : 0;
		for (uint16_t i = 0; i < n; i++) {
			if (i < sent) {
				counts->bytes += lengths[i];
				counts->padded += RTE_MAX(lengths[i], 60);
				/* A copied packet is done with; one from elsewhere is its owner's. */
				if (copied[i] != NULL)
					perigee_snabb_give((struct perigee_snabb_pool *)port->packets, &copied[i], 1);
			} else if (copied[i] != NULL) {
				free_mbuf(burst[i]); /* the packet waits, and is copied again */
				port->copied_out--;
			}
		}
		counts->frees += sent;
		port->transmitted += sent;
		gone += sent;
		if (n < BURST && sent == n && gone < waiting)
			/* The next one could not be copied. */
			drop(port, front(from, gone++), counts);
		else if (n > 0 && sent == 0 && lengths[0] > port->max_frame)
			/* The device does not take it, and would not the next time. */
			drop(port, front(from, gone++), counts);
		else if (sent < n)
			break;
	}
	from->read += (int32_t)gone;
	return gone;
}

/* ---- links between threads ---- */

struct rte_ring *perigee_snabb_ring_create(const char *name, unsigned int capacity, int socket)
{
	return rte_ring_create(name, capacity, socket, RING_F_EXACT_SZ | RING_F_SP_ENQ | RING_F_SC_DEQ);
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

uint32_t perigee_snabb_get(struct perigee_snabb_ring *from, struct link *to, uint32_t n)
{
	uint32_t room = RTE_MIN(n, room_of(to)), got = 0;

	while (got < room) {
		struct packet *burst[BURST];
		uint32_t some = RTE_MIN(room - got, (uint32_t)BURST);
		uint32_t moved = rte_ring_sc_dequeue_burst((struct rte_ring *)from, (void **)burst, some, NULL);

		for (uint32_t i = 0; i < moved; i++)
			put(to, burst[i]);
		got += moved;
		if (moved < some)
			break;
	}
	return got;
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
