/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "shim.h"
#include "tsan.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

/*
 * By default glibc maps a large allocation only while none of its size was freed before, up to 32 MB, and keeps twice that at the
 * top of each thread's heap: what a flood had made large would stay. Fixed limits give it back to the system.
 */
void perigee_give_memory_back(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
}

/* The receive loop reads data_off .. port as one word, and a new buffer's are written so. */
_Static_assert(offsetof(struct rte_mbuf, refcnt) == offsetof(struct rte_mbuf, data_off) + 2 &&
		       offsetof(struct rte_mbuf, nb_segs) == offsetof(struct rte_mbuf, data_off) + 4 &&
		       offsetof(struct rte_mbuf, port) == offsetof(struct rte_mbuf, data_off) + 6 &&
		       RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN,
	       "rte_mbuf changed: adapt fill and perigee_pool_fill");

/* ---- pools ---- */

struct rte_mempool *perigee_pool_create(const char *name, uint32_t buffers, uint32_t cache, uint16_t room, int socket,
					int packed)
{
	if (!packed)
		return rte_pktmbuf_pool_create(name, buffers, cache, 0, room, socket);
	/* Without hugepages, rte_pktmbuf_pool_create gives each buffer a 4 KB page of its own, so that all headers compete
	 * for the same few cache sets. Software devices need no physical addresses: buffers may lie back to back. */
	return rte_mempool_create(name, buffers, sizeof(struct rte_mbuf) + room, cache,
				  sizeof(struct rte_pktmbuf_pool_private), rte_pktmbuf_pool_init,
				  &(struct rte_pktmbuf_pool_private){ .mbuf_data_room_size = room }, rte_pktmbuf_init, NULL,
				  socket, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
}

unsigned int perigee_pool_in_use(const struct rte_mempool *pool)
{
	/* Not rte_mempool_in_use_count: a pool may be made larger than it has been filled so far. */
	unsigned int available = pool->populated_size ? rte_mempool_avail_count(pool) : 0;

	return available < pool->populated_size ? pool->populated_size - available : 0;
}

int perigee_pool_fill(struct rte_mempool *pool, struct rte_mbuf **handle, uint8_t **data, const uint16_t *length,
		      uint16_t n)
{
	/* data_off, refcnt 1, nb_segs 1, port unknown: a buffer in a pool has no other segments, and is nobody's. */
	const uint64_t rearm = RTE_PKTMBUF_HEADROOM | (uint64_t)1 << 16 | (uint64_t)1 << 32 |
			       (uint64_t)RTE_MBUF_PORT_INVALID << 48;

	if (rte_mempool_get_bulk(pool, (void **)handle, n) != 0)
		return 0;
	mbufs_taken(handle, n);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = handle[i];

		memcpy((char *)m + offsetof(struct rte_mbuf, data_off), &rearm, sizeof(rearm));
		m->ol_flags = 0;
		m->pkt_len = length[i];
		m->data_len = length[i];
		data[i] = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM;
	}
	return 1;
}

/* ---- receive ---- */

/* Flags of an mbuf that is not plain, or that a device would take as a request at transmit. */
#define NON_PLAIN_FLAGS                                                                                                \
	(RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_RX_VLAN_STRIPPED | RTE_MBUF_F_TX_OFFLOAD_MASK)

/* refcnt 1 and nb_segs 1, as they lie behind data_off in the rearm word. */
#define PLAIN UINT64_C(0x00010001)

/* What a device can find out about a packet. */
#define FINDINGS (RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_RSS_HASH)

static inline uint8_t flags_of(uint64_t ol_flags)
{
	/* BAD is bit 4, GOOD bit 7; both at once mean "not known, but the data is fine". RSS_HASH is bit 1. */
	uint64_t bad = ol_flags >> 4 & 1, good = ol_flags >> 7 & 1, hash = ol_flags >> 1 & 1;
	return (good & ~bad) * PERIGEE_IPV4_CHECKSUM_GOOD | (bad & ~good) * PERIGEE_IPV4_CHECKSUM_BAD | hash * PERIGEE_HASH;
}

_Static_assert(RTE_MBUF_F_RX_IP_CKSUM_BAD == 1 << 4 && RTE_MBUF_F_RX_IP_CKSUM_GOOD == 1 << 7, "flags_of");
_Static_assert(RTE_MBUF_F_RX_RSS_HASH == 1 << 1, "flags_of");

_Static_assert(PERIGEE_BATCH_SIZE % 64 == 0, "fill writes 64 flags at a time");

static inline void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Makes a chained or shared packet one plain mbuf; NULL when it was dropped. */
static struct rte_mbuf *make_whole(struct rte_mbuf *m, struct rte_mempool *pool, struct perigee_non_plain *non_plain)
{
	int alone = rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m);

	if (alone && rte_pktmbuf_linearize(m) == 0) {
		count(&non_plain->made_whole);
		return m;
	}
	struct rte_mbuf *copy = NULL;
	if (m->pkt_len + RTE_PKTMBUF_HEADROOM <= rte_pktmbuf_data_room_size(pool))
		copy = rte_pktmbuf_copy(m, pool, 0, UINT32_MAX);
	if (copy != NULL)
		mbufs_taken(&copy, 1);
	count(copy ? &non_plain->made_whole : m->nb_segs > 1 ? &non_plain->dropped_chained : &non_plain->dropped_shared);
	free_mbuf(m);
	return copy;
}

/* The rare case of fill(): makes every mbuf plain, as the batch promises, and drops those where that fails. */
static __attribute__((noinline, cold)) uint16_t sort_out(const struct perigee_arrays *to, uint16_t n, int port,
							 struct rte_mempool *pool, struct perigee_non_plain *non_plain)
{
	uint16_t kept = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = to->handle[i];

		if (m->nb_segs != 1 || rte_mbuf_refcnt_read(m) != 1 || !RTE_MBUF_DIRECT(m))
			m = make_whole(m, pool ? pool : m->pool, non_plain);
		if (m == NULL)
			continue;
		if (m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED && rte_vlan_insert(&m) != 0) {
			count(&non_plain->dropped_shared);
			free_mbuf(m);
			continue;
		}
		m->ol_flags &= ~RTE_MBUF_F_TX_OFFLOAD_MASK;
		if (port >= 0)
			m->port = port;
		to->handle[kept] = m;
		to->data[kept] = rte_pktmbuf_mtod(m, uint8_t *);
		to->length[kept] = m->data_len;
		to->port[kept] = m->port;
		to->flags[kept] = flags_of(m->ol_flags);
		to->hash[kept] = m->hash.rss;
		kept++;
	}
	return kept;
}

/* Stores what the device found out about the packets, if anything. */
static __attribute__((noinline)) void fill_findings(const struct perigee_arrays *to, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = to->handle[i];

		to->flags[i] = flags_of(m->ol_flags);
		to->hash[i] = m->hash.rss;
	}
}

/* Fills the arrays from the buffers' first cache lines, without a branch per packet. port < 0: as the buffers say. */
static inline __attribute__((always_inline)) uint16_t fill(const struct perigee_arrays *to, uint16_t n, int port,
							   struct rte_mempool *pool, struct perigee_non_plain *non_plain)
{
	struct rte_mbuf **restrict handle = to->handle;
	uint8_t **restrict data = to->data;
	uint16_t *restrict length = to->length, *restrict ports = to->port;
	uint64_t want = port < 0 ? PLAIN : PLAIN | (uint64_t)port << 32;
	uint64_t care = port < 0 ? UINT32_MAX : UINT64_MAX;
	uint64_t strange = 0, any = 0;

	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = handle[i];
		uint64_t word; /* data_off, refcnt, nb_segs, port */

		memcpy(&word, (const char *)m + offsetof(struct rte_mbuf, data_off), sizeof(word));
		data[i] = (uint8_t *)m->buf_addr + (uint16_t)word;
		rte_prefetch0(data[i]);
		strange |= (word >> 16 ^ want) & care;
		any |= m->ol_flags;
		length[i] = m->data_len;
		ports[i] = port < 0 ? (uint16_t)(word >> 48) : (uint16_t)port;
	}
	if (any & FINDINGS)
		fill_findings(to, n);
	else
		/* A fixed size needs no call; the array has room for it. */
		for (uint16_t i = 0; i < n; i += 64)
			memset(to->flags + i, 0, 64);
	return __builtin_expect(strange != 0 || any & NON_PLAIN_FLAGS, 0) ? sort_out(to, n, port, pool, non_plain) : n;
}

uint16_t perigee_rx_burst(uint16_t port, uint16_t queue, const struct perigee_arrays *to, uint16_t burst,
			  struct rte_mempool *pool, struct perigee_non_plain *non_plain)
{
	uint16_t n = rte_eth_rx_burst(port, queue, to->handle, burst);

	mbufs_taken(to->handle, n);
	return fill(to, n, port, pool, non_plain);
}

uint16_t perigee_ring_receive(struct rte_ring *ring, const struct perigee_arrays *to, uint16_t burst,
			      struct perigee_non_plain *non_plain)
{
	uint16_t n = rte_ring_dequeue_burst(ring, (void **)to->handle, burst, NULL);

	mbufs_taken(to->handle, n);
	return fill(to, n, -1, NULL, non_plain);
}

/* ---- transmit ---- */

/* How often to retry when a device takes nothing: long enough for a descriptor write-back, not for a dead link. */
#define TRANSMIT_TRIES 4

uint16_t perigee_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t n)
{
	mbufs_given(packets, n);
	uint16_t sent = rte_eth_tx_burst(port, queue, packets, n);

	for (int tries = 0; sent < n && tries < TRANSMIT_TRIES;) {
		uint16_t more = rte_eth_tx_burst(port, queue, packets + sent, n - sent);

		sent += more;
		tries = more ? 0 : tries + 1;
	}
	return sent;
}

/* ---- rings and buffers ---- */

struct rte_ring *perigee_ring_create(const char *name, unsigned int capacity, int socket)
{
	/* Relaxed tail: a producer that loses its core in the middle does not make the others wait for it. */
	return rte_ring_create(name, capacity, socket, RING_F_EXACT_SZ | RING_F_MP_RTS_ENQ | RING_F_SC_DEQ);
}

unsigned int perigee_ring_enqueue(struct rte_ring *ring, void *const *packets, unsigned int n)
{
	mbufs_given((struct rte_mbuf *const *)packets, n);
	return rte_ring_enqueue_burst(ring, packets, n, NULL);
}

unsigned int perigee_ring_dequeue(struct rte_ring *ring, void **packets, unsigned int n)
{
	n = rte_ring_dequeue_burst(ring, packets, n, NULL);
	mbufs_taken((struct rte_mbuf *const *)packets, n);
	return n;
}

unsigned int perigee_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

struct rte_mbuf *perigee_mbuf_new(struct rte_mempool *pool, const uint8_t *bytes, uint16_t length)
{
	struct rte_mbuf *m = new_mbuf(pool);
	char *to = m ? rte_pktmbuf_append(m, length) : NULL;

	if (to == NULL) {
		free_mbuf(m);
		return NULL;
	}
	memcpy(to, bytes, length);
	return m;
}

/* ---- the rest ---- */

int perigee_errno(void)
{
	return rte_errno;
}

void perigee_flush(void)
{
	fflush(NULL);
}

unsigned int perigee_lcore(void)
{
	return rte_lcore_id();
}

unsigned int perigee_max_ports(void)
{
	return RTE_MAX_ETHPORTS;
}

unsigned int perigee_max_lcores(void)
{
	return RTE_MAX_LCORE;
}

uint64_t perigee_tsc(void)
{
	return rte_rdtsc();
}

FILE *perigee_log_stream(ssize_t (*write)(void *, const char *, size_t))
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write });

	if (stream != NULL)
		setvbuf(stream, NULL, _IOLBF, BUFSIZ);
	return stream;
}
