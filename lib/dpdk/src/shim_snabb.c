/* SPDX-License-Identifier: MIT */
/* Snabb's packets on DPDK: see snabb.h for the layout. Everything that is called once per burst is here. */
#define _GNU_SOURCE
#include "shim.h"
#include "snabb.h"
#include "tsan.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_memzone.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

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
_Static_assert(sizeof(((struct link *)0)->packets) == LINK_RING_SIZE * sizeof(void *), "link");

static inline struct rte_mbuf *mbuf_of(const struct packet *p)
{
	return (struct rte_mbuf *)(((uintptr_t)p & ~(uintptr_t)(WINDOW - 1)) - TO_MBUF);
}

static inline struct packet *packet_of(struct rte_mbuf *m)
{
	/* buf_addr has been moved on by the two bytes of the length, which come before the data. */
	return (struct packet *)((char *)m->buf_addr + m->data_off - sizeof(uint16_t));
}

static inline struct packet *fresh(struct rte_mbuf *m)
{
	struct packet *p = (struct packet *)((char *)m + TO_MBUF + PERIGEE_SNABB_HEADROOM);

	p->length = 0;
	return p;
}

/* ---- the pool ---- */

struct range {
	uintptr_t first, end;
};

/* Where the pool's objects lie: one range for each time it grew. Packets that programs made elsewhere (ffi.new) are in none. */
struct ranges {
	uint32_t n;
	uint32_t early, gone; /* ranges of early packets, which are not the pool's; how many of these were given to it */
	struct range of[32], of_early[16];
};

static inline struct ranges *ranges_of(const struct rte_mempool *pool)
{
	/* Behind what rte_pktmbuf_pool_init uses of the pool's private area. */
	return (struct ranges *)((char *)rte_mempool_get_priv((struct rte_mempool *)(uintptr_t)pool) +
				 sizeof(struct rte_pktmbuf_pool_private));
}

/* Is it a packet of this pool, anywhere in its window? */
static inline int is_own(const struct rte_mempool *pool, const struct packet *p)
{
	const struct ranges *ranges = ranges_of(pool);
	uintptr_t window = (uintptr_t)p & ~(uintptr_t)(WINDOW - 1);
	uint32_t n = __atomic_load_n(&ranges->n, __ATOMIC_ACQUIRE);

	/* Newest first: it is the largest. */
	while (n-- > 0)
		if (window - ranges->of[n].first < ranges->of[n].end - ranges->of[n].first)
			return (window - ranges->of[n].first) % PERIGEE_SNABB_STRIDE == WINDOW;
	return 0;
}

/* A packet that is not the pool's has been given to it: nobody has it any more. */
static __attribute__((noinline, cold)) void count_early(const struct rte_mempool *pool, const struct packet *p)
{
	struct ranges *ranges = ranges_of(pool);

	for (uint32_t i = 0; i < ranges->early; i++)
		if ((uintptr_t)p - ranges->of_early[i].first < ranges->of_early[i].end - ranges->of_early[i].first)
			__atomic_fetch_add(&ranges->gone, 1, __ATOMIC_RELAXED);
}

static void init_object(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	struct rte_mbuf *m = object;

	rte_pktmbuf_init(pool, opaque, object, index);
	m->buf_addr = (char *)m->buf_addr + sizeof(uint16_t);
	m->buf_iova += sizeof(uint16_t);
	m->buf_len -= sizeof(uint16_t);
	mbufs_given(&m, 1);
}

struct rte_mempool *perigee_snabb_pool_create(const char *name, uint32_t most, int socket)
{
	unsigned int flags = RTE_MEMPOOL_F_NO_SPREAD | RTE_MEMPOOL_F_NO_IOVA_CONTIG;
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = ROOM, .mbuf_priv_size = PRIVATE };
	struct rte_mempool *pool =
		rte_mempool_create_empty(name, most, sizeof(struct rte_mbuf) + PRIVATE + ROOM, 256,
					 sizeof(struct rte_pktmbuf_pool_private) + sizeof(struct ranges), socket, flags);

	if (pool == NULL)
		return NULL;
	if (pool->header_size != OBJECT_HEADER ||
	    pool->header_size + pool->elt_size + pool->trailer_size != PERIGEE_SNABB_STRIDE) {
		/* DPDK built with debugging cookies, for example. */
		rte_mempool_free(pool);
		rte_errno = ENOTSUP;
		return NULL;
	}
	rte_mempool_set_ops_byname(pool, "ring_mp_mc", NULL);
	rte_pktmbuf_pool_init(pool, &private);
	memset(ranges_of(pool), 0, sizeof(struct ranges));
	return pool;
}

/* Adds up to n packets; returns how many, or a negative errno. One thread at a time. */
int perigee_snabb_pool_grow(struct rte_mempool *pool, const char *zone, uint32_t n, int socket)
{
	struct ranges *ranges = ranges_of(pool);
	const struct rte_memzone *memory;
	uint32_t before = pool->populated_size;
	int error;

	if (n > pool->size - before)
		n = pool->size - before;
	if (n == 0 || ranges->n == RTE_DIM(ranges->of))
		return -ENOSPC;
	memory = rte_memzone_reserve_aligned(zone, (size_t)n * PERIGEE_SNABB_STRIDE, socket, 0, PERIGEE_SNABB_WINDOW);
	if (memory == NULL)
		return -rte_errno;
	ranges->of[ranges->n].first = (uintptr_t)memory->addr;
	ranges->of[ranges->n].end = (uintptr_t)memory->addr + (size_t)n * PERIGEE_SNABB_STRIDE;
	__atomic_store_n(&ranges->n, ranges->n + 1, __ATOMIC_RELEASE);
	/* They are made ready first: populating hands them out at once. EAL runs with virtual addresses as I/O addresses. */
	for (uint32_t i = 0; i < n; i++) {
		char *object = (char *)memory->addr + (size_t)i * PERIGEE_SNABB_STRIDE + OBJECT_HEADER;

		((struct rte_mempool_objhdr *)(object - sizeof(struct rte_mempool_objhdr)))->iova = (rte_iova_t)(uintptr_t)object;
		init_object(pool, NULL, object, i);
	}
	error = rte_mempool_populate_iova(pool, memory->addr, (rte_iova_t)(uintptr_t)memory->addr,
					  (size_t)n * PERIGEE_SNABB_STRIDE, NULL, NULL);
	if (error < 0)
		return error;
	return (int)(pool->populated_size - before);
}

/* How many packets have been made; another thread may be making more. */
static inline uint32_t made(const struct rte_mempool *pool)
{
	return __atomic_load_n(&pool->populated_size, __ATOMIC_ACQUIRE);
}

uint32_t perigee_snabb_pool_size(const struct rte_mempool *pool)
{
	return made(pool);
}

uint32_t perigee_snabb_pool_available(const struct rte_mempool *pool)
{
	/* Before it has been filled for the first time, a mempool has no ring to count in. */
	return made(pool) ? rte_mempool_avail_count(pool) : 0;
}

/* Early packets lie there. Before other threads have the pool. */
void perigee_snabb_pool_know(struct rte_mempool *pool, const void *first, size_t bytes)
{
	struct ranges *ranges = ranges_of(pool);

	if (ranges->early < RTE_DIM(ranges->of_early))
		ranges->of_early[ranges->early++] = (struct range){ (uintptr_t)first, (uintptr_t)first + bytes };
}

uint32_t perigee_snabb_pool_gone(const struct rte_mempool *pool)
{
	return __atomic_load_n(&ranges_of(pool)->gone, __ATOMIC_RELAXED);
}

uint32_t perigee_snabb_take(struct perigee_snabb_pool *from, struct packet **to, uint32_t n)
{
	struct rte_mempool *pool = (struct rte_mempool *)from;
	uint32_t taken = 0;

	while (taken < n && made(pool) > 0) {
		struct rte_mbuf *burst[BURST];
		uint32_t some = RTE_MIN(n - taken, (uint32_t)BURST);

		if (rte_mempool_get_bulk(pool, (void **)burst, some) != 0) {
			if (some == 1 || rte_mempool_get_bulk(pool, (void **)burst, 1) != 0)
				break;
			some = 1;
		}
		mbufs_taken(burst, some);
		for (uint32_t i = 0; i < some; i++)
			to[taken++] = fresh(burst[i]);
	}
	return taken;
}

void perigee_snabb_give(struct perigee_snabb_pool *to, struct packet **from, uint32_t n)
{
	struct rte_mempool *pool = (struct rte_mempool *)to;

	while (n > 0) {
		void *burst[BURST];
		uint32_t some = 0;

		for (; n > 0 && some < BURST; n--, from++) {
			struct rte_mbuf *m = mbuf_of(*from);

			if (!is_own(pool, *from)) {
				count_early(pool, *from);
				continue;
			}
			if (likely(rte_mbuf_refcnt_read(m) == 1))
				burst[some++] = m;
			else
				rte_pktmbuf_free_seg(m); /* somebody else has it, too */
		}
		mbufs_given((struct rte_mbuf *const *)burst, some);
		rte_mempool_put_bulk(pool, burst, some);
	}
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
