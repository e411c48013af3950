/* SPDX-License-Identifier: MIT
 *
 * The part of the shim over DPDK's routing tables: rte_lpm, rte_fib and their IPv6 counterparts. Next hops are passed as 32 bits;
 * IPv6 addresses are 16 bytes in network order, or in the processor's order (low half first), turned over here.
 */
/* Of SIMD widths; stable from 23.11 on. */
#define ALLOW_EXPERIMENTAL_API

#include "shim.h"

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <rte_vect.h>

/* Addresses looked up at a time: their misses overlap, and arrays in between stay in the L1 cache. */
#define PASS 64

size_t perigee_heap_used(void)
{
	size_t used = 0;

	for (unsigned int socket = 0; socket < RTE_MAX_NUMA_NODES; socket++) {
		struct rte_malloc_socket_stats stats;

		if (rte_malloc_get_socket_stats(socket, &stats) == 0)
			used += stats.heap_allocsz_bytes;
	}
	return used;
}

/* ---- IPv4 ---- */

struct rte_lpm *perigee_lpm_create(const char *name, uint32_t routes, uint32_t groups)
{
	struct rte_lpm_config config = { .max_rules = routes, .number_tbl8s = groups };

	return rte_lpm_create(name, SOCKET_ID_ANY, &config);
}

/* With `n` known to the compiler, as rte_lpm wants it. */
static inline void lpm_pass(const struct rte_lpm *lpm, const uint32_t *ips, uint32_t *ids, unsigned int n, uint32_t none)
{
	rte_lpm_lookup_bulk_func(lpm, ips, ids, n);
	for (unsigned int i = 0; i < n; i++)
		ids[i] = ids[i] & RTE_LPM_LOOKUP_SUCCESS ? ids[i] & 0x00ffffff : none;
}

void perigee_lpm_lookup(const struct rte_lpm *lpm, const uint32_t *ips, uint32_t *ids, size_t n, uint32_t none)
{
	for (; n >= PASS; n -= PASS, ips += PASS, ids += PASS)
		lpm_pass(lpm, ips, ids, PASS, none);
	for (; n > 0; n--, ips++, ids++)
		lpm_pass(lpm, ips, ids, 1, none);
}

/* DPDK takes AVX-512 only where its user has allowed it for everything: allowed here while the function is chosen. */
#define WITH_AVX512(call)                                                 \
	({                                                                \
		uint16_t width = rte_vect_get_max_simd_bitwidth();        \
		rte_vect_set_max_simd_bitwidth(RTE_VECT_SIMD_512);        \
		int chosen = (call);                                      \
		rte_vect_set_max_simd_bitwidth(width);                    \
		chosen;                                                   \
	})

struct rte_fib *perigee_fib_create(const char *name, int log2_size, uint32_t routes, uint32_t groups, int *vector)
{
	struct rte_fib_conf config = { .type = RTE_FIB_DIR24_8, .default_nh = 0, .max_routes = (int)routes };

	config.dir24_8.nh_sz = (enum rte_fib_dir24_8_nh_sz)log2_size;
	config.dir24_8.num_tbl8 = groups;
	struct rte_fib *fib = rte_fib_create(name, SOCKET_ID_ANY, &config);
	if (fib != NULL)
		*vector = WITH_AVX512(rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512)) == 0;
	return fib;
}

void perigee_fib_lookup(struct rte_fib *fib, const uint32_t *ips, uint32_t *ids, size_t n)
{
	uint64_t wide[PASS];

	while (n > 0) {
		size_t k = RTE_MIN(n, (size_t)PASS);

		rte_fib_lookup_bulk(fib, (uint32_t *)(uintptr_t)ips, wide, (int)k);
		for (size_t i = 0; i < k; i++)
			ids[i] = (uint32_t)wide[i];
		n -= k, ips += k, ids += k;
	}
}

/* ---- IPv6 ---- */

/* Turns addresses over: 16 bytes each, all of them. */
static inline void big_endian(uint64_t (*to)[2], const uint64_t (*from)[2], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		to[i][0] = __builtin_bswap64(from[i][1]);
		to[i][1] = __builtin_bswap64(from[i][0]);
	}
}

struct rte_lpm6 *perigee_lpm6_create(const char *name, uint32_t routes, uint32_t groups)
{
	struct rte_lpm6_config config = { .max_rules = routes, .number_tbl8s = groups };

	return rte_lpm6_create(name, SOCKET_ID_ANY, &config);
}

/* DPDK declares addresses as arrays, from 24.11 on as structures: a void pointer becomes either. */
static void *addresses(const void *ips)
{
	return (void *)(uintptr_t)ips;
}

static void lpm6_pass(const struct rte_lpm6 *lpm, const void *ips, uint32_t *ids, size_t n, uint32_t none)
{
	rte_lpm6_lookup_bulk_func(lpm, addresses(ips), (int32_t *)ids, (unsigned int)n);
	for (size_t i = 0; i < n; i++)
		ids[i] = ids[i] == UINT32_MAX ? none : ids[i];
}

void perigee_lpm6_lookup(const struct rte_lpm6 *lpm, const uint8_t (*ips)[16], int turn, uint32_t *ids, size_t n,
			 uint32_t none)
{
	const uint64_t (*from)[2] = (const void *)ips;
	uint64_t turned[PASS][2];

	while (n > 0) {
		size_t k = RTE_MIN(n, (size_t)PASS);

		if (turn)
			big_endian(turned, from, k);
		lpm6_pass(lpm, turn ? turned : from, ids, k, none);
		n -= k, from += k, ids += k;
	}
}

struct rte_fib6 *perigee_fib6_create(const char *name, int log2_size, uint32_t routes, uint32_t groups, int *vector)
{
	struct rte_fib6_conf config = { .type = RTE_FIB6_TRIE, .default_nh = 0, .max_routes = (int)routes };

	config.trie.nh_sz = (enum rte_fib_trie_nh_sz)log2_size;
	config.trie.num_tbl8 = groups;
	struct rte_fib6 *fib = rte_fib6_create(name, SOCKET_ID_ANY, &config);
	if (fib != NULL)
		*vector = WITH_AVX512(rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512)) == 0;
	return fib;
}

void perigee_fib6_lookup(struct rte_fib6 *fib, const uint8_t (*ips)[16], int turn, uint32_t *ids, size_t n)
{
	const uint64_t (*from)[2] = (const void *)ips;
	uint64_t turned[PASS][2], wide[PASS];

	while (n > 0) {
		size_t k = RTE_MIN(n, (size_t)PASS);

		if (turn)
			big_endian(turned, from, k);
		rte_fib6_lookup_bulk(fib, addresses(turn ? turned : from), wide, (int)k);
		for (size_t i = 0; i < k; i++)
			ids[i] = (uint32_t)wide[i];
		n -= k, from += k, ids += k;
	}
}

int perigee_lpm6_add(struct rte_lpm6 *lpm, const uint8_t (*ip)[16], uint8_t length, uint32_t id)
{
	return rte_lpm6_add(lpm, addresses(ip), length, id);
}

int perigee_lpm6_delete(struct rte_lpm6 *lpm, const uint8_t (*ip)[16], uint8_t length)
{
	return rte_lpm6_delete(lpm, addresses(ip), length);
}

int perigee_fib6_add(struct rte_fib6 *fib, const uint8_t (*ip)[16], uint8_t length, uint64_t id)
{
	return rte_fib6_add(fib, addresses(ip), length, id);
}

int perigee_fib6_delete(struct rte_fib6 *fib, const uint8_t (*ip)[16], uint8_t length)
{
	return rte_fib6_delete(fib, addresses(ip), length);
}
