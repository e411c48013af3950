/* SPDX-License-Identifier: MIT
 *
 * What ThreadSanitizer (`./x sanitize thread`) has to be told of, and nothing in any other build.
 *
 * DPDK's libraries and drivers are the distribution's, without instrumentation: that a buffer goes from one thread to another through
 * them, ThreadSanitizer cannot see. So who gives a buffer away says so first, and who gets one says so before touching it; both
 * by the buffer's own address, so that threads are ordered by what they pass on and by nothing else.
 */
#pragma once
#include <rte_mbuf.h>

#ifdef PERIGEE_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);

/* These buffers are about to be given to a device, a ring or their pool. */
static inline void mbufs_given(struct rte_mbuf *const *m, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		__tsan_release(m[i]);
}

/* These have come from there. */
static inline void mbufs_taken(struct rte_mbuf *const *m, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		__tsan_acquire(m[i]);
}

static inline void free_mbuf(struct rte_mbuf *m)
{
	for (struct rte_mbuf *segment = m; segment != NULL; segment = segment->next)
		mbufs_given(&segment, 1);
	rte_pktmbuf_free(m);
}

static inline struct rte_mbuf *new_mbuf(struct rte_mempool *pool)
{
	struct rte_mbuf *m = rte_mbuf_raw_alloc(pool);

	if (m != NULL) {
		mbufs_taken(&m, 1);
		rte_pktmbuf_reset(m);
	}
	return m;
}
#else
#define mbufs_given(m, n) ((void)0)
#define mbufs_taken(m, n) ((void)0)
#define free_mbuf rte_pktmbuf_free
#define new_mbuf rte_pktmbuf_alloc
#endif
