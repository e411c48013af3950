/* SPDX-License-Identifier: MIT */
/* Packets and links as Snabb programs know them, laid out inside DPDK's buffers; shared by shim_snabb.c, snabb.rs and, by
 * ffi.cdef of the marked part, by the Lua sources in snabb/core.
 *
 *     object of the mempool, at a multiple of 512 bytes, PERIGEE_SNABB_STRIDE bytes long
 *     0          64                 192             512                                                   11776
 *     | object   | struct rte_mbuf  | private area  | window of 512 bytes for p | ... data ...            |
 *                                                   ^ p & ~511       ^ p (p & 511: headroom, 256 at first)
 *
 * A packet `p` starts with its length, two bytes, and its data follow at p + 2. The buffer's address is moved on by these
 * two bytes once, when it is made; so data_off equals the headroom, and mbuf = (p & ~511) - 448.
 */
#ifndef PERIGEE_SNABB_H
#define PERIGEE_SNABB_H

#include <stddef.h>
#include <stdint.h>

/* ffi.cdef begins */
enum {
	PACKET_PAYLOAD_SIZE = 10240, /* most bytes of a packet */
	PACKET_STRIDE = 11776,       /* from packet to packet, where they are made */
	LINK_RING_SIZE = 1024,       /* slots of a link */
	LINK_MAX_PACKETS = 1023      /* packets that a link holds */
};

struct packet {
	uint16_t length;
	uint8_t data[PACKET_PAYLOAD_SIZE];
};

/* A link. `read` and `write` run on and are brought back to 0 when the link is empty; their types differ so that LuaJIT knows
 * that a store to one does not change the other. `bytes` and `drops` count what was transmitted since they were last added to
 * the link's counters; `counted` is the value of `read` then. */
struct link {
	int32_t read, counted, id, unused;
	int64_t write, bytes, drops;
	struct packet *packets[LINK_RING_SIZE];
};

/* Free packets of one thread, a stack. Those beyond `max` go back to the pool. `frees` .. `padded` count
 * since they were last added to the engine's counters; padded: bytes, at least 60 for each packet. */
struct perigee_snabb_freelist {
	int64_t nfree, max, frees, bytes, padded;
	struct packet *list[1048576];
};

struct perigee_snabb_port; /* a pair of queues of a port */
struct perigee_snabb_pool; /* where packets come from */
struct perigee_snabb_ring; /* a link between two threads */

/* Takes up to n packets from the pool, with a headroom of 256 bytes; returns how many. Their lengths are not set. */
uint32_t perigee_snabb_take(struct perigee_snabb_pool *pool, struct packet **to, uint32_t n);
/* Gives packets back; those that are not the pool's are left alone. */
void perigee_snabb_give(struct perigee_snabb_pool *pool, struct packet **from, uint32_t n);
/* Where there are pools of several NUMA nodes: gives those of the n packets that were freed last that are of other nodes back to their
 * pools; returns how many. */
uint32_t perigee_snabb_sweep(struct perigee_snabb_pool *here, struct perigee_snabb_freelist *list, uint32_t n);
/* Moves up to n received packets to a link, as far as it has room; returns how many. */
uint32_t perigee_snabb_receive(struct perigee_snabb_port *port, struct link *to, uint32_t n);
/* Moves the packets of a link to the device, as far as it takes them, and counts them as freed; returns how many. */
uint32_t perigee_snabb_transmit(struct perigee_snabb_port *port, struct link *from, struct perigee_snabb_freelist *counts);
/* Moves packets from a link to another thread, as far as there is room; from there to a link; both return how many. */
uint32_t perigee_snabb_put(struct perigee_snabb_ring *to, struct link *from);
uint32_t perigee_snabb_get(struct perigee_snabb_ring *from, struct link *to, uint32_t n);

/* What an app has handed to tasks, or taken from them. */
struct perigee_snabb_handed {
	uint64_t packets, bytes;
	uint64_t copied;             /* the memory was not that of Snabb's packets, or shared */
	uint64_t too_long, no_buffer; /* dropped: over 10,240 bytes; no free packet to copy to */
};
struct perigee_batch;
/* Moves up to n packets of a link to an empty batch of a task's, and counts them as freed; returns how many. */
uint32_t perigee_snabb_to_batch(struct link *from, struct perigee_batch *to, uint32_t n, struct perigee_snabb_pool *pool,
				struct perigee_snabb_freelist *counts, struct perigee_snabb_handed *handed);
/* Moves the packets of a batch to a link, as far as it has room; returns how many. */
uint32_t perigee_snabb_from_batch(struct perigee_batch *from, struct link *to, struct perigee_snabb_pool *pool,
				  struct perigee_snabb_handed *handed);

int32_t perigee_snabb_load(const int32_t *flag);               /* with acquire semantics */
int perigee_snabb_compare_exchange_u32(uint32_t *at, uint32_t old, uint32_t new_); /* 1: it was `old`; full barrier */

double get_monotonic_time(void); /* seconds */
double get_unix_time(void);      /* seconds */
uint64_t get_time_ns(void);      /* monotonic */
void full_memory_barrier(void);
/* ffi.cdef ends */

#define PERIGEE_SNABB_WINDOW 512
#define PERIGEE_SNABB_HEADROOM 256
#define PERIGEE_SNABB_STRIDE PACKET_STRIDE /* an odd number of windows: they spread over the sets of caches */

/* What happened to mbufs that were not plain ones of the pool, counted by a pair of queues. */
struct perigee_snabb_port {
	uint16_t port, queue;
	uint16_t copies; /* the device has a pool of its own: every packet is copied */
	uint16_t kick;   /* the device wants to be called when there is nothing to send, too */
	struct rte_mempool *packets; /* Snabb's pool */
	struct rte_mempool *device;  /* the pool that the device receives into, and that is sent from when copying */
	uint64_t received, transmitted;
	uint64_t copied_in, copied_out;     /* chained, shared or from elsewhere: copied */
	uint64_t rx_long, rx_no_buffer;     /* received and dropped: over 10,240 bytes; no free packet to copy to */
	uint64_t tx_long, tx_no_buffer;     /* not sent and dropped: longer than the device takes; no free buffer to copy to */
	uint64_t max_frame;                 /* bytes of the longest frame at the device's MTU */
};

struct rte_mempool *perigee_snabb_pool_create(const char *name, uint32_t most, int socket);
int perigee_snabb_pool_grow(struct rte_mempool *pool, const char *zone, uint32_t n, int socket);
void perigee_snabb_pool_join(struct rte_mempool *pool, struct rte_mempool *known);
void *perigee_snabb_memory(size_t bytes, int node);
void perigee_snabb_free_memory(void *at, size_t bytes);
uint32_t perigee_snabb_pool_size(const struct rte_mempool *pool);
uint32_t perigee_snabb_pool_available(const struct rte_mempool *pool);
void perigee_snabb_pool_know(struct rte_mempool *pool, const void *first, size_t bytes);
uint32_t perigee_snabb_pool_gone(const struct rte_mempool *pool);
struct perigee_arrays;
struct rte_mbuf;
uint16_t perigee_snabb_lend(struct link *from, const struct perigee_arrays *to, uint16_t n, struct rte_mempool *pool,
			    struct perigee_snabb_freelist *counts, struct perigee_snabb_handed *handed);
uint16_t perigee_snabb_accept(struct rte_mbuf **from, uint16_t n, struct link *to, struct rte_mempool *pool,
			      struct perigee_snabb_handed *handed);
struct rte_ring *perigee_snabb_ring_create(const char *name, unsigned int capacity, int socket);

#endif
