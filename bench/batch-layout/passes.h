// SPDX-License-Identifier: MIT
// The seven passes of a forwarding loop, compiled once per layout of the batch from the same source. Only the accessors differ.

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

enum { SLOTS = 256, WORDS = SLOTS / 64, TX_BURST = 32, PORTS = 2, INTERFACES = 4, NEXT_HOPS = 8 };

// A layout is two independent choices.
enum { MBUF = 0, DATA = 1, META = 2, SOA = DATA | META }; // DATA: pointer and length in arrays; META: l3 offset and next hop in arrays

struct mask { uint64_t w[WORDS]; };
struct batch {
	struct mask live;
	struct rte_mbuf *mbuf[SLOTS];
	uint8_t *data[SLOTS];
	uint16_t len[SLOTS];
	uint8_t l3[SLOTS];
	uint32_t next_hop[SLOTS];
};
struct interface { uint64_t mac; uint16_t port, mtu; };
struct tx_buffer { struct rte_mbuf *mbuf[TX_BURST]; unsigned n; };

static const uint64_t ROUTER_MAC = 0x010000000002; // 02:00:00:00:00:01, first byte lowest
static const uint64_t MAC_BITS = 0xffffffffffff;
static const uint32_t EXTENDED = 1u << 31;
static uint32_t *fib, tbl8[256]; // DIR-24-8: 2^24 entries; with EXTENDED set, the low bits index tbl8
static uint64_t next_hops[NEXT_HOPS]; // MAC in the low 48 bits, interface above
static struct interface interfaces[INTERFACES];
static struct tx_buffer tx[PORTS];
static uint64_t sent, dropped, bad;
static bool verifying;
static int prefetching; // at receive: 0 nothing, 1 packets, 2 also the second half of their mbufs

// ---- accessors: all that differs between the layouts

struct metadata { uint32_t next_hop; uint8_t l3; }; // kept in dynfield1, at a constant offset: the cheapest an mbuf offers

#define INLINE static inline __attribute__((always_inline))
INLINE struct metadata *meta(struct batch *b, unsigned i) { return (struct metadata *)b->mbuf[i]->dynfield1; }
INLINE uint8_t *data(struct batch *b, unsigned i, int layout) {
	return layout & DATA ? b->data[i] : rte_pktmbuf_mtod(b->mbuf[i], uint8_t *);
}
INLINE uint16_t length(struct batch *b, unsigned i, int layout) { return layout & DATA ? b->len[i] : b->mbuf[i]->data_len; }
INLINE uint8_t l3(struct batch *b, unsigned i, int layout) { return layout & META ? b->l3[i] : meta(b, i)->l3; }
INLINE void set_l3(struct batch *b, unsigned i, uint8_t v, int layout) { *(layout & META ? &b->l3[i] : &meta(b, i)->l3) = v; }
INLINE uint32_t next_hop(struct batch *b, unsigned i, int layout) { return layout & META ? b->next_hop[i] : meta(b, i)->next_hop; }
INLINE void set_next_hop(struct batch *b, unsigned i, uint32_t v, int layout) {
	*(layout & META ? &b->next_hop[i] : &meta(b, i)->next_hop) = v;
}

// ---- what each pass does to one packet; false drops it out of the mask

INLINE uint64_t load64(const void *p) { uint64_t v; memcpy(&v, p, 8); return v; }
INLINE uint32_t load32(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }
INLINE uint16_t load16(const void *p) { uint16_t v; memcpy(&v, p, 2); return v; }
INLINE uint32_t load32be(const void *p) { return __builtin_bswap32(load32(p)); }
INLINE uint16_t load16be(const void *p) { return __builtin_bswap16(load16(p)); }
INLINE uint8_t *ip(struct batch *b, unsigned i, int layout) { return data(b, i, layout) + l3(b, i, layout); }

INLINE bool classify_one(struct batch *b, unsigned i, int layout) {
	const uint8_t *p = data(b, i, layout);
	set_l3(b, i, 14, layout);
	return (load64(p) & MAC_BITS) == ROUTER_MAC && load16be(p + 12) == 0x0800;
}

INLINE uint16_t header_sum(const uint8_t *h) { // one's complement sum of 20 bytes; 0xffff when the checksum is right
	uint64_t s = (uint64_t)load32(h) + load32(h + 4) + load32(h + 8) + load32(h + 12) + load32(h + 16);
	s = (s & 0xffffffff) + (s >> 32);
	s = (s & 0xffff) + (s >> 16);
	s = (s & 0xffff) + (s >> 16);
	return (s & 0xffff) + (s >> 16);
}

// The same question without folding: the sum is a multiple of 0xffff (and not 0, as the version is not). One multiplication.
INLINE bool header_sum_right(const uint8_t *h) {
	return ((uint64_t)load32(h) + load32(h + 4) + load32(h + 8) + load32(h + 12) + load32(h + 16)) % 0xffff == 0;
}

INLINE bool valid_one(struct batch *b, unsigned i, int layout) { // RFC 1812, sections 5.2.2 and 5.3.7
	unsigned room = length(b, i, layout) - l3(b, i, layout);
	const uint8_t *h = ip(b, i, layout);
	if (room < 20 || h[0] != 0x45) return false; // options go to the slow path
	uint16_t total = load16be(h + 2);
	uint32_t src = load32be(h + 12), dst = load32be(h + 16);
	bool martian = src >= 0xe0000000 || src >> 24 == 127 || dst >> 24 == 127 || dst >> 24 == 0 || dst >= 0xe0000000;
	return total >= 20 && total <= room && !martian && header_sum_right(h);
}

INLINE bool ttl_one(struct batch *b, unsigned i, int layout) {
	uint8_t *h = ip(b, i, layout);
	if (h[8] <= 1) return false;
	h[8]--;
	uint32_t sum = load16(h + 10) + 1u; // RFC 1624: the checksum grows by 0x0100, which is 1 as loaded on little endian
	uint16_t folded = sum + (sum >> 16);
	memcpy(h + 10, &folded, 2);
	return true;
}

INLINE bool mtu_one(struct batch *b, unsigned i, int layout) {
	const struct interface *out = &interfaces[next_hops[next_hop(b, i, layout)] >> 48];
	return length(b, i, layout) - l3(b, i, layout) <= out->mtu;
}

INLINE bool apply_one(struct batch *b, unsigned i, int layout) {
	uint64_t hop = next_hops[next_hop(b, i, layout)];
	uint64_t src = interfaces[hop >> 48].mac;
	uint8_t *p = data(b, i, layout);
	uint64_t front = (hop & MAC_BITS) | src << 48; // 8 bytes, then the remaining 4 of the source
	uint32_t rest = src >> 16;
	memcpy(p, &front, 8);
	memcpy(p + 8, &rest, 4);
	return true;
}

// Two fused passes, to see what the number of passes costs.
INLINE bool head_one(struct batch *b, unsigned i, int layout) { return classify_one(b, i, layout) && valid_one(b, i, layout); }
INLINE bool tail_one(struct batch *b, unsigned i, int layout) {
	return ttl_one(b, i, layout) && mtu_one(b, i, layout) && apply_one(b, i, layout);
}

// ---- passes over a batch

#define EACH_WORD(w) for (unsigned w = 0; w < WORDS; w++)
#define EACH_BIT(x, word) for (uint64_t x = (word); x; x &= x - 1)
#define SLOT(w, x) ((w) * 64 + (unsigned)__builtin_ctzll(x))

typedef bool one_fn(struct batch *, unsigned, int);
INLINE void narrow(struct batch *b, struct mask *m, one_fn *one, int layout) {
	EACH_WORD(w) {
		uint64_t keep = 0;
		EACH_BIT(x, m->w[w])
			if (one(b, SLOT(w, x), layout)) keep |= x & -x;
		m->w[w] = keep;
	}
}

INLINE void lookup_all(struct batch *b, struct mask *m, int layout) { // gather and prefetch first, so that the table's misses overlap
	uint32_t address[SLOTS];
	unsigned n = 0;
	EACH_WORD(w)
		EACH_BIT(x, m->w[w]) {
			address[n] = load32be(ip(b, SLOT(w, x), layout) + 16);
			rte_prefetch0(&fib[address[n++] >> 8]);
		}
	n = 0;
	EACH_WORD(w)
		EACH_BIT(x, m->w[w]) {
			uint32_t v = fib[address[n] >> 8];
			if (v & EXTENDED) v = tbl8[(v & ~EXTENDED) + (address[n] & 255)];
			set_next_hop(b, SLOT(w, x), v, layout);
			n++;
		}
}

static void verify(const uint8_t *p) { // an independent look at what leaves: route by /3, TTL 63, full checksum
	uint64_t hop = next_hops[p[30] >> 5];
	bool ok = !memcmp(p, &hop, 6) && !memcmp(p + 6, &interfaces[hop >> 48].mac, 6) && p[22] == 63 && header_sum(p + 14) == 0xffff;
	bad += !ok;
}

static __attribute__((noinline)) void flush(struct tx_buffer *t) {
	if (verifying)
		for (unsigned i = 0; i < t->n; i++) verify(rte_pktmbuf_mtod(t->mbuf[i], uint8_t *));
	unsigned done = rte_eth_tx_burst(0, 0, t->mbuf, t->n);
	sent += done;
	dropped += t->n - done;
	rte_pktmbuf_free_bulk(t->mbuf + done, t->n - done);
	t->n = 0;
}

INLINE void distribute_all(struct batch *b, struct mask *m, int layout) {
	EACH_WORD(w) {
		b->live.w[w] &= ~m->w[w];
		EACH_BIT(x, m->w[w]) {
			unsigned i = SLOT(w, x);
			struct rte_mbuf *mbuf = b->mbuf[i];
			if (layout & DATA) { // the arrays were the truth: write them back
				mbuf->data_off = b->data[i] - (uint8_t *)mbuf->buf_addr;
				mbuf->pkt_len = mbuf->data_len = b->len[i];
			}
			struct tx_buffer *t = &tx[interfaces[next_hops[next_hop(b, i, layout)] >> 48].port];
			t->mbuf[t->n++] = mbuf;
			if (t->n == TX_BURST) flush(t);
		}
	}
}

// What comes next reads the packet; freeing it reads the mbuf's second cache line (its `next`).
INLINE void prefetch(struct batch *b, unsigned i) {
	if (prefetching >= 1) rte_prefetch0(rte_pktmbuf_mtod(b->mbuf[i], uint8_t *));
	if (prefetching >= 2) rte_mbuf_prefetch_part2(b->mbuf[i]);
}

INLINE void receive_all(struct batch *b, struct mask *m, unsigned n, int layout) {
	EACH_WORD(w) m->w[w] = n >= 64 * (w + 1) ? ~0ull : n > 64 * w ? (1ull << (n - 64 * w)) - 1 : 0;
	b->live = *m;
	if (layout & DATA)
		for (unsigned i = 0; i < n; i++) {
			prefetch(b, i);
			b->data[i] = rte_pktmbuf_mtod(b->mbuf[i], uint8_t *);
			b->len[i] = b->mbuf[i]->data_len;
		}
	else if (prefetching)
		for (unsigned i = 0; i < n; i++) prefetch(b, i);
}

// ---- one copy of every pass per layout, each a real function call, as modules are

typedef void pass_fn(struct batch *, struct mask *);
typedef void receive_fn(struct batch *, struct mask *, unsigned);
#define OUTLINE static __attribute__((noinline)) void
#define NARROW(name, L) OUTLINE name##_##L(struct batch *b, struct mask *m) { narrow(b, m, name##_one, L); }
#define PASSES(L) \
	NARROW(classify, L) NARROW(valid, L) NARROW(ttl, L) NARROW(mtu, L) NARROW(apply, L) \
	OUTLINE lookup_##L(struct batch *b, struct mask *m) { lookup_all(b, m, L); } \
	OUTLINE distribute_##L(struct batch *b, struct mask *m) { distribute_all(b, m, L); } \
	OUTLINE receive_##L(struct batch *b, struct mask *m, unsigned n) { receive_all(b, m, n, L); }
#define SEVEN(L) receive_##L, { classify_##L, valid_##L, lookup_##L, ttl_##L, mtu_##L, apply_##L, distribute_##L }
#define FUSED(L) receive_##L, { head_##L, lookup_##L, tail_##L, distribute_##L }
PASSES(MBUF) PASSES(DATA) PASSES(META) PASSES(SOA)
NARROW(head, MBUF) NARROW(head, SOA) NARROW(tail, MBUF) NARROW(tail, SOA)

enum { MAX_PASSES = 7, VARIANTS = 7 };
static const struct variant { const char *name; receive_fn *receive; pass_fn *pass[MAX_PASSES]; } variants[VARIANTS] = {
	{ "bare rx+tx", NULL, { NULL } }, { "mbuf", SEVEN(MBUF) }, { "data arrays", SEVEN(DATA) }, { "meta arrays", SEVEN(META) },
	{ "soa", SEVEN(SOA) }, { "mbuf, 4 passes", FUSED(MBUF) }, { "soa, 4 passes", FUSED(SOA) },
};
static const char *pass_names[] = { "receive", "classify", "valid", "lookup", "ttl", "mtu", "apply", "distribute" };
