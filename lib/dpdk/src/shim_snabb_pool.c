/* SPDX-License-Identifier: MIT */
/* The pool of Snabb's packets: see snabb.h for the layout. */
#define _GNU_SOURCE
#include "shim.h"
#include "snabb_layout.h"
#include "tsan.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_memzone.h>

/* ---- memory of a NUMA node ---- */

/* linux/mempolicy.h */
#define PREFERRED 1

/* Pages that have not been touched yet will be of this node, if it has some left. It is advice: what becomes of it changes speed only. */
static void prefer(void *start, size_t bytes, int node)
{
	unsigned long mask[4] = { 0 };
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, first = ((uintptr_t)start + page) & ~page;
	uintptr_t end = ((uintptr_t)start + bytes) & ~page;

	if (node < 0 || (size_t)node >= sizeof(mask) * 8 || end <= first)
		return;
	mask[(size_t)node / 64] = 1UL << (node % 64);
	syscall(SYS_mbind, first, end - first, PREFERRED, mask, sizeof(mask) * 8 + 1, 0);
}

/* Zeroed memory, which takes room where it is touched; NULL: errno. */
void *perigee_snabb_memory(size_t bytes, int node)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	prefer(at, bytes, node);
	return at;
}

void perigee_snabb_free_memory(void *at, size_t bytes)
{
	munmap(at, bytes);
}

/* ---- the pool ---- */

/* A packet that is not the pool's has been given to it: nobody has it any more. */
static __attribute__((noinline, cold)) void count_early(const struct rte_mempool *pool, const struct packet *p)
{
	struct ranges *ranges = ranges_of(pool);

	for (uint32_t i = 0; i < ranges->early; i++)
		if ((uintptr_t)p - ranges->of_early[i].first < ranges->of_early[i].bytes)
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
	struct rte_mempool *pool;

	/* A node that EAL knows nothing of, as none of its own memory is there. */
	if (socket != SOCKET_ID_ANY && rte_malloc_heap_socket_is_external(socket) < 0)
		socket = SOCKET_ID_ANY;
	pool = rte_mempool_create_empty(name, most, sizeof(struct rte_mbuf) + PRIVATE + ROOM, 256,
					sizeof(struct rte_pktmbuf_pool_private) + sizeof(struct ranges), socket, flags);
	if (pool == NULL && socket != SOCKET_ID_ANY)
		return perigee_snabb_pool_create(name, most, SOCKET_ID_ANY);
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

/* A pool gets to know another one, and all ranges that this knows, those of early packets, too. Before anybody else has the first; one thread at a time. */
void perigee_snabb_pool_join(struct rte_mempool *pool, struct rte_mempool *known)
{
	struct ranges *ours = ranges_of(pool), *theirs = ranges_of(known);

	if (ours->others == RTE_DIM(ours->other) || theirs->others == RTE_DIM(theirs->other))
		return;
	memcpy(ours->of, theirs->of, sizeof(ours->of));
	ours->n = theirs->n;
	memcpy(ours->of_early, theirs->of_early, sizeof(ours->of_early));
	ours->early = theirs->early;
	ours->other[ours->others++] = known;
	theirs->other[theirs->others] = pool;
	__atomic_store_n(&theirs->others, theirs->others + 1, __ATOMIC_RELEASE);
}

static void add_range(struct rte_mempool *pool, struct range range)
{
	struct ranges *ranges = ranges_of(pool);

	ranges->of[ranges->n] = range;
	__atomic_store_n(&ranges->n, ranges->n + 1, __ATOMIC_RELEASE);
}

/* Adds up to n packets, so that all pools have at most `size` of one; returns how many, or a negative errno. One thread at a time for all. */
int perigee_snabb_pool_grow(struct rte_mempool *pool, const char *zone, uint32_t n, int socket)
{
	struct ranges *ranges = ranges_of(pool);
	const struct rte_memzone *memory;
	uint32_t before = pool->populated_size, all = before;
	struct range range;
	int error;

	for (uint32_t i = 0; i < ranges->others; i++)
		all += ranges->other[i]->populated_size;
	if (n > pool->size - RTE_MIN(all, pool->size))
		n = pool->size - RTE_MIN(all, pool->size);
	if (n == 0 || ranges->n == RTE_DIM(ranges->of))
		return -ENOSPC;
	memory = rte_memzone_reserve_aligned(zone, (size_t)n * PERIGEE_SNABB_STRIDE, socket, 0, PERIGEE_SNABB_WINDOW);
	if (memory == NULL && socket != SOCKET_ID_ANY)
		memory = rte_memzone_reserve_aligned(zone, (size_t)n * PERIGEE_SNABB_STRIDE, SOCKET_ID_ANY, 0,
						     PERIGEE_SNABB_WINDOW);
	if (memory == NULL)
		return -rte_errno;
	if (!rte_eal_has_hugepages())
		prefer(memory->addr, (size_t)n * PERIGEE_SNABB_STRIDE, socket);
	range.first = (uintptr_t)memory->addr;
	range.bytes = (size_t)n * PERIGEE_SNABB_STRIDE;
	add_range(pool, range);
	for (uint32_t i = 0; i < ranges->others; i++)
		add_range(ranges->other[i], range);
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
		ranges->of_early[ranges->early++] = (struct range){ (uintptr_t)first, bytes };
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

/* Each to the pool it is of. */
static __attribute__((noinline)) void put_sorted(void **burst, uint32_t n)
{
	while (n > 0) {
		struct rte_mempool *pool = ((struct rte_mbuf *)burst[0])->pool;
		uint32_t same = 1;

		while (same < n && ((struct rte_mbuf *)burst[same])->pool == pool)
			same++;
		rte_mempool_put_bulk(pool, burst, same);
		burst += same;
		n -= same;
	}
}

void perigee_snabb_give(struct perigee_snabb_pool *to, struct packet **from, uint32_t n)
{
	struct rte_mempool *pool = (struct rte_mempool *)to;
	const struct ranges *ranges = ranges_of(pool);
	uint32_t in_use = ranges_in_use(ranges);
	uint32_t several = __atomic_load_n(&ranges_of(pool)->others, __ATOMIC_ACQUIRE);

	while (n > 0) {
		void *burst[BURST];
		uint32_t some = 0;

		/* The mbufs are not looked at: they may be in another core's cache, and nobody else has a packet that Lua has. */
		for (; n > 0 && some < BURST; n--, from++) {
			if (likely(is_within(ranges, in_use, *from)))
				burst[some++] = mbuf_of(*from);
			else
				count_early(pool, *from);
		}
		mbufs_given((struct rte_mbuf *const *)burst, some);
		if (likely(several == 0))
			rte_mempool_put_bulk(pool, burst, some);
		else
			put_sorted(burst, some);
	}
}

/* Gives those of the n packets that were freed last that are of other nodes back to their pools; returns how many. */
uint32_t perigee_snabb_sweep(struct perigee_snabb_pool *here, struct perigee_snabb_freelist *list, uint32_t n)
{
	struct rte_mempool *pool = (struct rte_mempool *)here;
	int64_t first = list->nfree - (int64_t)n, kept;
	struct packet *burst[BURST];
	uint32_t some = 0, swept = 0;

	if (first < 0)
		first = 0;
	kept = first;
	for (int64_t i = first; i < list->nfree; i++) {
		struct packet *p = list->list[i];

		if (!is_own(pool, p) || mbuf_of(p)->pool == pool) {
			list->list[kept++] = p;
			continue;
		}
		burst[some++] = p;
		swept++;
		if (some == BURST) {
			perigee_snabb_give(here, burst, some);
			some = 0;
		}
	}
	list->nfree = kept;
	perigee_snabb_give(here, burst, some);
	return swept;
}
