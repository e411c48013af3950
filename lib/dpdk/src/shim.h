/* SPDX-License-Identifier: MIT
 *
 * The parts of DPDK that Rust needs and that are static inline functions, macros or large structures. Everything else is
 * called directly. src/ffi.rs repeats these declarations, and the compiler compares the two (build/check.rs).
 * Functions return 0 or a negative errno unless they say otherwise.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct rte_acl_ctx;
struct rte_device;
struct rte_fib;
struct rte_fib6;
struct rte_flow;
struct rte_lpm;
struct rte_lpm6;
struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

/* Entries of a batch's arrays. */
enum { PERIGEE_BATCH_SIZE = 256 };

/* A batch's arrays (perigee_packet::batch::ReceiveArrays). */
struct perigee_arrays {
	struct rte_mbuf **handle;
	uint8_t **data;
	uint16_t *length;
	uint16_t *port;
	uint8_t *flags;
	uint32_t *hash;
};

/* Bits of flags (perigee_packet::batch::flags). */
enum { PERIGEE_IPV4_CHECKSUM_GOOD = 1, PERIGEE_IPV4_CHECKSUM_BAD = 2, PERIGEE_HASH = 4 };

/* Received mbufs that were not plain, that is, not one unshared segment; other threads read the counters. */
struct perigee_non_plain {
	uint64_t made_whole;      /* chained or shared, copied into a plain mbuf */
	uint64_t dropped_chained; /* chained and too long for one mbuf, or none free */
	uint64_t dropped_shared;  /* shared, and no mbuf free */
};

/* Receive into a batch's arrays; return the number of packets. */
uint16_t perigee_rx_burst(uint16_t port, uint16_t queue, const struct perigee_arrays *to, uint16_t burst,
			  struct rte_mempool *pool, struct perigee_non_plain *non_plain);
uint16_t perigee_ring_receive(struct rte_ring *ring, const struct perigee_arrays *to, uint16_t burst,
			      struct perigee_non_plain *non_plain);

/* Send; return the number of packets taken from the front. */
uint16_t perigee_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t n);

struct rte_ring *perigee_ring_create(const char *name, unsigned int capacity, int socket);
unsigned int perigee_ring_enqueue(struct rte_ring *ring, void *const *packets, unsigned int n);
unsigned int perigee_ring_dequeue(struct rte_ring *ring, void **packets, unsigned int n);
unsigned int perigee_ring_count(const struct rte_ring *ring);

/* A buffer holding a copy of bytes; NULL when there is none or it is too small. */
struct rte_mbuf *perigee_mbuf_new(struct rte_mempool *pool, const uint8_t *bytes, uint16_t length);

/* What a device is and can do. */
enum {
	PERIGEE_IPV4_CHECKSUM = 1, /* checks IPv4 header checksums at receive */
	PERIGEE_RSS = 2,           /* spreads packets over receive queues by flow */
	PERIGEE_RSS_HASH = 4,      /* hands the flow hash over */
	PERIGEE_FAST_FREE = 8,     /* frees sent buffers in bulk, when all are of one pool */
	PERIGEE_INTERRUPTS = 16,   /* asked for, not known before the port is started: receive interrupts */
};

struct perigee_device {
	char name[64];
	char driver[64];
	uint8_t mac[6];
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	uint16_t max_mtu;
	uint16_t reta_size;
	uint16_t features;
	int32_t socket;
	struct rte_device *device;
};

struct perigee_setup {
	struct rte_mempool *pool;
	uint16_t port;
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_descriptors;
	uint16_t tx_descriptors;
	uint16_t mtu;
	uint16_t features;
};

struct perigee_link {
	uint32_t mbps;
	uint8_t up;
	uint8_t full_duplex;
	uint8_t speed_known;
};

int perigee_port_find(const char *devargs, uint16_t *port);
int perigee_port_describe(uint16_t port, struct perigee_device *to);
int perigee_port_setup(const struct perigee_setup *setup, const char **step);
int perigee_port_spread(uint16_t port, uint16_t reta_size, uint16_t queues);
int perigee_port_link(uint16_t port, struct perigee_link *to);
/* Does the port send or obey pause frames (IEEE 802.3 annex 31B)? 0 or 1, or a negative errno where the driver does not say. */
int perigee_port_pause(uint16_t port);
/* Which of its driver's functions a port receives with, and which it transmits with ("Vector AVX512", ...; rte_eth_burst_mode): empty
 * where the driver does not say. */
void perigee_port_paths(uint16_t port, char (*receive)[1024], char (*transmit)[1024]);
int perigee_port_stats(uint16_t port, uint64_t (*to)[8]);

/* A counter by its driver's own name (rte_eth_xstats_get). */
struct perigee_counter {
	char name[64];
	uint64_t value;
};

/* Reads up to `most` of a device's own counters; returns their number, or a negative errno. */
int perigee_port_counters(uint16_t port, struct perigee_counter *to, int most);
int perigee_port_set_mac(uint16_t port, const uint8_t (*mac)[6]);
int perigee_interface_mtu(const char *name);

/* This process's packet sockets that are bound to an interface, at most so many; their number. */
int perigee_packet_sockets(const char *interface, int *to, int most);

/* Frames that a packet socket's ring had no room for, since the last call. DPDK's driver does not ask. */
uint64_t perigee_packet_drops(int fd);

/* Is a Linux interface up, and its other end, too? 0 or 1, or a negative errno. */
int perigee_interface_running(const char *name);

/* Does a Linux interface take frames to all addresses? 0 or 1, or a negative errno. */
int perigee_interface_promiscuous(const char *name);

/* Queues of a Linux interface that AF_XDP can use, at least 1. */
int perigee_interface_queues(const char *name);

/* What a hardware filter matches; a mask of zeros matches all. Network order. */
struct perigee_flow {
	uint8_t source[16], source_mask[16];
	uint8_t destination[16], destination_mask[16];
	uint16_t ether_type;
	uint16_t source_port, source_port_mask;
	uint16_t destination_port, destination_port_mask;
	uint8_t family; /* 0: by ether_type only; 4; 6 */
	uint8_t protocol, protocol_mask;
};

struct rte_flow *perigee_flow_create(uint16_t port, const struct perigee_flow *flow, uint16_t queue, char *message,
				     size_t size);
int perigee_flow_destroy(uint16_t port, struct rte_flow *flow);

/* A line of a filter list. Addresses in network order, left-aligned; ports in host order. A match results in `verdict`,
 * which is not 0. */
struct perigee_acl_rule {
	uint8_t source[16], destination[16];
	uint8_t source_bits, destination_bits;
	uint8_t protocol, protocol_mask;
	uint16_t source_port_low, source_port_high;
	uint16_t destination_port_low, destination_port_high;
	uint32_t verdict;
};

/* The first rule that matches wins; results are its verdict, or 0. */
struct rte_acl_ctx *perigee_acl_build(const char *name, int socket, int family, const struct perigee_acl_rule *rules,
				      uint32_t n, int *error);
int perigee_acl_classify(const struct rte_acl_ctx *acl, const uint8_t *keys, size_t stride, uint32_t n, uint32_t *to);

/* Routing tables. Sizes of next hops are given as log2 of bytes; NULL: rte_errno. `none` is what an address without a route
 * gets. IPv6 addresses are in network order, or with `turn` in the processor's own. */
struct rte_lpm *perigee_lpm_create(const char *name, uint32_t routes, uint32_t groups);
void perigee_lpm_lookup(const struct rte_lpm *lpm, const uint32_t *ips, uint32_t *ids, size_t n, uint32_t none);
struct rte_fib *perigee_fib_create(const char *name, int log2_size, uint32_t routes, uint32_t groups, int *vector);
void perigee_fib_lookup(struct rte_fib *fib, const uint32_t *ips, uint32_t *ids, size_t n);
struct rte_lpm6 *perigee_lpm6_create(const char *name, uint32_t routes, uint32_t groups);
int perigee_lpm6_add(struct rte_lpm6 *lpm, const uint8_t (*ip)[16], uint8_t length, uint32_t id);
int perigee_lpm6_delete(struct rte_lpm6 *lpm, const uint8_t (*ip)[16], uint8_t length);
void perigee_lpm6_lookup(const struct rte_lpm6 *lpm, const uint8_t (*ips)[16], int turn, uint32_t *ids, size_t n,
			 uint32_t none);
struct rte_fib6 *perigee_fib6_create(const char *name, int log2_size, uint32_t routes, uint32_t groups, int *vector);
int perigee_fib6_add(struct rte_fib6 *fib, const uint8_t (*ip)[16], uint8_t length, uint64_t id);
int perigee_fib6_delete(struct rte_fib6 *fib, const uint8_t (*ip)[16], uint8_t length);
void perigee_fib6_lookup(struct rte_fib6 *fib, const uint8_t (*ips)[16], int turn, uint32_t *ids, size_t n);

/* Bytes of DPDK's heaps that are allocated. */
size_t perigee_heap_used(void);

/* Receive interrupts of a queue: a descriptor that becomes readable at one, or a negative errno. */
int perigee_wake_open(uint16_t port, uint16_t queue);
void perigee_wake_close(uint16_t port, uint16_t queue, int descriptor);
/* Switch them on, and off; what came in between is read. */
int perigee_wake_arm(uint16_t port, uint16_t queue);
int perigee_wake_disarm(uint16_t port, uint16_t queue, int descriptor);

/* Can the processor rest, and rest until a device writes to a queue? Rests end after so many ns at the latest. */
int perigee_can_pause(void);
int perigee_can_monitor(uint16_t port, uint16_t queue);
int perigee_pause(uint32_t ns);
int perigee_monitor(uint16_t port, uint16_t queue, uint32_t ns);

/* New memory of the calling thread is on this node where there is some; below 0: as before. */
int perigee_prefer_node(int node);

int perigee_errno(void);
/* Writes what C has kept of standard output and other streams. */
void perigee_flush(void);
unsigned int perigee_lcore(void);
/* What DPDK was built for: ports at once, and threads that it knows at once, which is also how many cores it can name. */
unsigned int perigee_max_ports(void);
unsigned int perigee_max_lcores(void);
uint64_t perigee_tsc(void);

/* A pool of packet buffers; packed: back to back, for devices that need no physical addresses. NULL: rte_errno. */
struct rte_mempool *perigee_pool_create(const char *name, uint32_t buffers, uint32_t cache, uint16_t room, int socket,
					int packed);
/* Makes the C allocator give large and free memory back to the system. */
void perigee_give_memory_back(void);
/* Packets of the pool that somebody has. */
unsigned int perigee_pool_in_use(const struct rte_mempool *pool);
/* New packets of these lengths, with unspecified bytes: all (1), or none if there are not as many buffers (0). */
int perigee_pool_fill(struct rte_mempool *pool, struct rte_mbuf **handle, uint8_t **data, const uint16_t *length,
		      uint16_t n);
FILE *perigee_log_stream(ssize_t (*write)(void *, const char *, size_t));
