/* SPDX-License-Identifier: MIT
 *
 * Only in the build for ThreadSanitizer (build.rs): see tsan.h.
 */
#define _GNU_SOURCE
#include "tsan.h"

#include <dlfcn.h>

/*
 * What is not reported, and why.
 *
 * __rte_ring_do_rts_enqueue_elem: producers of a ring with a relaxed tail move it by a compare-and-swap of eight bytes, position and count
 * in one; the consumer loads the position alone, four bytes, with acquire. To the processor that is an ordinary load of a part of the
 * word (one cache line, aligned), ordered behind the stores of the slots; to C11 and to ThreadSanitizer, which knows atomics by their
 * addresses, these are two objects. So it calls slots unordered that are not. In the same function, __rte_ring_rts_head_wait reads the
 * volatile tail without an atomic load: a producer that sees an old one waits one turn longer. Buffers are checked by
 * their own addresses, whatever ring they pass.
 */
const char *__tsan_default_suppressions(void)
{
	return "race:__rte_ring_do_rts_enqueue_elem\n";
}

/* What Rust calls directly: this one comes before the library's. */
void rte_pktmbuf_free_bulk(struct rte_mbuf **mbufs, unsigned int count)
{
	static void (*library)(struct rte_mbuf **, unsigned int);
	void (*next)(struct rte_mbuf **, unsigned int) = __atomic_load_n(&library, __ATOMIC_ACQUIRE);

	if (next == NULL) {
		next = (void (*)(struct rte_mbuf **, unsigned int))dlsym(RTLD_NEXT, "rte_pktmbuf_free_bulk");
		__atomic_store_n(&library, next, __ATOMIC_RELEASE);
	}
	mbufs_given(mbufs, count);
	next(mbufs, count);
}
