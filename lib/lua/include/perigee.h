/* SPDX-License-Identifier: MIT
 *
 * perigee.h - the C ABI of perigee's fast path.
 *
 * What a module in C sees, and what a Lua script calls through the FFI. Build a module as a shared library,
 *
 *     cc -O3 -shared -fPIC -I lib/lua/include -o mine.so mine.c
 *
 * and call it from a script: `local mine = m.native("./mine.so", "mine", 1)`. Everything goes by pointer. Functions that
 * return int return 0, or -1 after a failure that perigee_failure() describes.
 *
 * The part between the two marks is also what `ffi.cdef` reads: no preprocessor there. The fields of perigee_batch, the
 * modules of the registry and the asserted offsets are generated: cargo run -p perigee-lua --example header
 */
#ifndef PERIGEE_H
#define PERIGEE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ffi.cdef begins */

/* A set of slots of a batch, one bit each. */
typedef struct perigee_mask {
  uint64_t word[4];
} perigee_mask;

/* Up to 256 packets, side by side. It owns the packets of `live`: read and write those only, and let the functions below
 * move, drop and send them.
 *
 * `loaded`: the host keeps what it has read of headers. A module may write bytes of a frame, `length` and `l3` as it likes, as the host
 * forgets all of it when the module returns; one that calls other modules afterwards itself takes the slots it has written out of
 * `loaded` first. One that does not harms its own packets only: they leave with the header they had before. */
typedef struct perigee_batch {
  perigee_mask live;        /* slots that hold a packet */
  perigee_mask moved;       /* slots whose packet was moved or resized; the host's */
  uint32_t count;           /* slots in use, emptied ones included */
  uint8_t *data[256];       /* the frame, from its destination MAC address on */
  void *handle[256];        /* the buffer; the host's */
  uint16_t length[256];     /* bytes of the frame */
  uint16_t port[256];       /* port it was received on; the host's */
  uint16_t out_port[256];   /* port it leaves by: set by apply, read by distribute */
  uint16_t interface[256];  /* interface it was received on: set by classify */
  uint8_t l3[256];          /* offset of the network header: set by classify */
  uint8_t flags[256];       /* PERIGEE_IPV4_CHECKSUM_GOOD, ... */
  uint32_t next_hop[256];   /* next-hop id: set by a lookup */
  uint32_t hash[256];       /* the device's flow hash, where flags say so */
  uint64_t time[256];       /* when it arrived, in ns since 1970, where flags say so */
  perigee_mask loaded;      /* slots whose header the host has read, and nobody written since */
} perigee_batch;

typedef struct perigee_context perigee_context; /* the worker's tables, counters and ways out */
typedef struct perigee_gather perigee_gather;   /* packets dropped out of several bursts */

/* The worker as a script sees it. */
typedef struct perigee_worker {
  uint32_t id;     /* number of the worker, from 0 */
  uint32_t queues; /* receive queues to poll */
} perigee_worker;

/* The worker, for the script's main loop. Queues count from 0 here, from 1 in Lua. */
int perigee_worker_next(perigee_worker *, perigee_batch *); /* packets; 0: end; -1: failed; -2: collect garbage,
                                                               ask again; -3: none, but gathered ones are ready */
uint32_t perigee_worker_receive(perigee_worker *, uint32_t queue, perigee_batch *);
int perigee_worker_running(perigee_worker *);
int perigee_worker_housekeeping(perigee_worker *); /* 1: the VM may collect garbage now, and says so by the next */
int perigee_worker_collected(perigee_worker *, uint32_t steps, uint32_t heap_kb);
perigee_batch *perigee_worker_batch(perigee_worker *);
perigee_mask *perigee_worker_mask(perigee_worker *);
perigee_gather *perigee_worker_gather(perigee_worker *, uint32_t size, uint64_t timeout_ns);
perigee_context *perigee_worker_context(perigee_worker *);
int perigee_worker_trace(perigee_worker *, int event);

/* What any module may do with packets; only those of `mask` that are live count. */
int perigee_drop(perigee_context *, perigee_batch *, const perigee_mask *mask, uint16_t reason);
int perigee_punt(perigee_context *, perigee_batch *, const perigee_mask *mask, uint16_t reason);
int perigee_checksums(perigee_context *, perigee_batch *, const perigee_mask *mask); /* writes IPv4's, UDP's, TCP's, ICMP's */
int perigee_move(perigee_context *, perigee_batch *from, const perigee_mask *mask, perigee_batch *to);
int perigee_copy(perigee_context *, const perigee_batch *from, const perigee_mask *mask, perigee_batch *to);
int perigee_push(perigee_context *, perigee_batch *, uint32_t slot, uint32_t bytes);
int perigee_pull(perigee_context *, perigee_batch *, uint32_t slot, uint32_t bytes);
int perigee_resize(perigee_context *, perigee_batch *, uint32_t slot, uint32_t bytes);
int perigee_gather_add(perigee_context *, perigee_gather *, perigee_batch *, perigee_mask *mask);
perigee_batch *perigee_gather_ready(perigee_context *, perigee_gather *);

/* Names. A reason is found or made by module and name; a port is -1 where no interface has that name. */
uint16_t perigee_reason(perigee_context *, const char *module, const char *name, int punt);
int perigee_port(perigee_context *, const char *interface);
int perigee_value(perigee_context *, const char *module, const char *name, int gauge); /* a counter of the script's; -1: failed */
int perigee_value_change(perigee_context *, int number, double by, int set);           /* adds to a counter, sets a gauge */
uint64_t perigee_now(perigee_context *);
const char *perigee_failure(perigee_context *);

/* The modules of the registry. */
int perigee_classify(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_ipv4_valid(perigee_context *, perigee_batch *, perigee_mask *);
int perigee_ipv6_valid(perigee_context *, perigee_batch *, perigee_mask *);
int perigee_filter(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_urpf(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_multicast(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_ipv4_lookup(perigee_context *, perigee_batch *, perigee_mask *);
int perigee_ipv6_lookup(perigee_context *, perigee_batch *, perigee_mask *);
int perigee_mtu(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_redirect(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_ttl(perigee_context *, perigee_batch *, perigee_mask *);
int perigee_hop_limit(perigee_context *, perigee_batch *, perigee_mask *);
int perigee_apply(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_distribute(perigee_context *, perigee_batch *, perigee_mask *ip4, perigee_mask *ip6);
int perigee_count(perigee_context *, perigee_batch *, perigee_mask *);

/* ffi.cdef ends */

/* Bits of perigee_batch.flags. */
#define PERIGEE_IPV4_CHECKSUM_GOOD 1
#define PERIGEE_IPV4_CHECKSUM_BAD 2
#define PERIGEE_HASH 4
#define PERIGEE_TIME 8         /* time holds when the frame arrived, by the kernel's clock */
#define PERIGEE_DEVICE_TIME 16 /* ... by the device's own clock */
#define PERIGEE_FILTERED 32    /* the configuration's filters let it pass, as it was received; the host's */

/* Loops over the slots of a mask: `for (uint32_t i = perigee_mask_next(m, 0); i < 256; i = perigee_mask_next(m, i + 1))`. */
static inline uint32_t perigee_mask_next(const perigee_mask *mask, uint32_t from) {
  for (uint32_t word = from / 64, bit = from % 64; word < 4; word++, bit = 0) {
    uint64_t rest = mask->word[word] >> bit;
    if (rest != 0)
      return word * 64 + bit + (uint32_t)__builtin_ctzll(rest);
  }
  return 256;
}

static inline void perigee_mask_set(perigee_mask *mask, uint32_t slot) { mask->word[slot / 64] |= (uint64_t)1 << (slot % 64); }

/* mask = mask - other */
static inline void perigee_mask_remove(perigee_mask *mask, const perigee_mask *other) {
  for (int i = 0; i < 4; i++)
    mask->word[i] &= ~other->word[i];
}

#ifdef __cplusplus
#define PERIGEE_ASSERT static_assert
#else
#define PERIGEE_ASSERT _Static_assert
#endif
#define PERIGEE_AT(field, offset) PERIGEE_ASSERT(offsetof(perigee_batch, field) == (offset), #field " has moved")
/* The offsets of Rust's struct Batch. */
PERIGEE_AT(live, 0);
PERIGEE_AT(moved, 32);
PERIGEE_AT(count, 64);
PERIGEE_AT(data, 72);
PERIGEE_AT(handle, 2120);
PERIGEE_AT(length, 4168);
PERIGEE_AT(port, 4680);
PERIGEE_AT(out_port, 5192);
PERIGEE_AT(interface, 5704);
PERIGEE_AT(l3, 6216);
PERIGEE_AT(flags, 6472);
PERIGEE_AT(next_hop, 6728);
PERIGEE_AT(hash, 7752);
PERIGEE_AT(time, 8776);
PERIGEE_AT(loaded, 10824);
PERIGEE_ASSERT(sizeof(perigee_mask) == 32, "a mask is four words");
PERIGEE_ASSERT(sizeof(perigee_worker) == 8, "the script's view of a worker is two words");

#ifdef __cplusplus
}
#endif
#endif
