// SPDX-License-Identifier: MIT
// How should a batch hold its packets: as mbuf pointers only, or with data pointers, lengths and metadata copied into arrays
// beside them? Runs the passes of passes.h, once per layout, alternately. See README.md.

#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf_pool_ops.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "passes.h"

enum { FLOWS = 65536, FRAME = 60, POOL_CACHE = 256, MAX_DELAY = 32768, MAX_ROUNDS = 201 };

static bool plain_pool;
static struct rte_mbuf *delay_line[MAX_DELAY];
static unsigned delay, delay_at;

static void die(const char *what) {
	fprintf(stderr, "layout: %s (%s)\n", what, rte_strerror(rte_errno ? rte_errno : errno));
	exit(1);
}

// ---- running

// With a delay, packets age in a FIFO until their data has left L1 and L2, as a NIC's DMA leaves it in the last-level cache. The
// mbuf's first line is then written again, as a driver does.
static unsigned receive(struct rte_mbuf **to, unsigned burst) {
	unsigned n = rte_eth_rx_burst(0, 0, to, burst);
	if (!delay) return n;
	for (unsigned i = 0; i < n; i++) RTE_SWAP(to[i], delay_line[delay_at + i]);
	delay_at = (delay_at + n) & (delay - 1);
	if (!to[0]) return 0; // still filling; all of a burst or none, as bursts divide the delay
	for (unsigned i = 0; i < n; i++) {
		to[i]->data_off = RTE_PKTMBUF_HEADROOM;
		to[i]->data_len = to[i]->pkt_len = FRAME;
	}
	return n;
}

INLINE void burst_once(const struct variant *v, struct batch *b, unsigned burst, uint64_t *cycles) {
	struct mask m;
	unsigned n = receive(b->mbuf, burst), done = 0;
	if (!n) return;
	if (!v->receive) {
		while (done < n) done += rte_eth_tx_burst(0, 0, b->mbuf + done, RTE_MIN(n - done, (unsigned)TX_BURST));
		sent += n;
		return;
	}
	uint64_t then = cycles ? rte_rdtsc() : 0;
	v->receive(b, &m, n);
	for (unsigned i = 0; i <= MAX_PASSES; i++) {
		if (cycles) { uint64_t now = rte_rdtsc(); cycles[i] += now - then; then = now; }
		if (i == MAX_PASSES || !v->pass[i]) break;
		v->pass[i](b, &m);
	}
	EACH_WORD(w) // what no pass consumed
		EACH_BIT(x, b->live.w[w]) {
			rte_pktmbuf_free(b->mbuf[SLOT(w, x)]);
			dropped++;
		}
}

static double cpu_seconds(void) { // CPU time of this thread: a neighbor's build does not count
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static struct batch batch;
static double ns_per_packet(const struct variant *v, unsigned burst, double seconds, uint64_t *cycles) {
	uint64_t before = sent;
	double start = cpu_seconds(), took;
	do
		for (int i = 0; i < 512; i++) burst_once(v, &batch, burst, cycles);
	while ((took = cpu_seconds() - start) < seconds);
	return 1e9 * took / (sent - before);
}

static int ascending(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

// Median, with the order statistics that enclose the true median with at least 95 % probability (sign test).
static double median(double *x, int n, double *low, double *high) {
	double p = 1, tail = 0;
	int k = 0;
	qsort(x, n, sizeof *x, ascending);
	for (int i = 0; i < n; i++) p /= 2; // probability of i = 0 of n below the median
	while (k < n / 2 && tail + p <= 0.025) { tail += p; p = p * (n - k) / (k + 1); k++; }
	int edge = k ? k - 1 : 0;
	*low = x[edge];
	*high = x[n - 1 - edge];
	return n & 1 ? x[n / 2] : (x[n / 2] + x[n / 2 - 1]) / 2;
}

static void compare(unsigned burst, int rounds, double seconds) {
	static double ns[VARIANTS][MAX_ROUNDS], ratio[VARIANTS][MAX_ROUNDS];
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < VARIANTS; i++) { // every round in another order
			int v = (r & 1 ? VARIANTS - 1 - i + r : i + r) % VARIANTS;
			ns[v][r] = ns_per_packet(&variants[v], burst, seconds, NULL);
		}
		for (int v = 0; v < VARIANTS; v++) ratio[v][r] = ns[v][r] / ns[1][r];
	}
	double low, high, bare = 0;
	for (int v = 0; v < VARIANTS; v++) {
		double t = median(ns[v], rounds, &low, &high), q = median(ratio[v], rounds, &low, &high);
		if (v == 0) bare = t;
		printf("| %3u | %-14s | %5.1f | %5.2f | %5.2f | %.3f [%.3f, %.3f] |\n", burst, variants[v].name, 1e3 / t, t, t - bare, q, low, high);
	}
	fflush(stdout);
}

static void profile(unsigned burst, int rounds, double seconds) {
	enum { STEPS = MAX_PASSES + 1 };
	static double ns[2][STEPS][MAX_ROUNDS];
	const int which[2] = { 1, 4 };
	for (int r = 0; r < rounds; r++)
		for (int k = 0; k < 2; k++) {
			uint64_t cycles[STEPS] = { 0 }, before = sent;
			ns_per_packet(&variants[which[k]], burst, seconds, cycles);
			for (int i = 0; i < STEPS; i++) ns[k][i][r] = 1e9 * cycles[i] / rte_get_tsc_hz() / (sent - before);
		}
	double low, high;
	for (int i = 0; i < STEPS; i++)
		printf("| %3u | %-10s | %5.2f | %5.2f |\n", burst, pass_names[i], median(ns[0][i], rounds, &low, &high), median(ns[1][i], rounds, &low, &high));
	fflush(stdout);
}

// ---- set-up

static void write_pcap(const char *path) {
	const uint32_t head[6] = { 0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, 1 }, record[4] = { 0, 0, FRAME, FRAME };
	uint64_t random = 42;
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(head, sizeof head, 1, f) != 1) die("cannot write the packet file to the current folder");
	for (int i = 0; i < FLOWS; i++) {
		uint8_t p[FRAME] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 8, 0, 0x45, 0, 0, FRAME - 14, 0, 0, 0, 0, 64, 17 };
		uint32_t dst;
		do { // splitmix64, unicast destinations only
			uint64_t z = random += 0x9e3779b97f4a7c15;
			z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
			dst = (z ^ z >> 27) >> 32;
		} while (dst >> 24 == 0 || dst >> 24 == 127 || dst >= 0xe0000000);
		p[26] = 10, p[28] = i >> 8, p[29] = i;
		for (int k = 0; k < 4; k++) p[30 + k] = dst >> (24 - 8 * k);
		p[35] = p[37] = 9, p[39] = FRAME - 34; // UDP, discard port; checksum 0: none
		uint16_t sum = ~header_sum(p + 14);
		memcpy(p + 24, &sum, 2);
		if (fwrite(record, sizeof record, 1, f) != 1 || fwrite(p, FRAME, 1, f) != 1) die("cannot write the packet file");
	}
	if (fclose(f)) die("cannot write the packet file");
}

static void make_tables(void) {
	const size_t bytes = sizeof *fib << 24;
	fib = aligned_alloc(2 << 20, bytes);
	if (!fib) die("no memory for the table");
	madvise(fib, bytes, MADV_HUGEPAGE);
	for (uint32_t i = 0; i < 1u << 24; i++) fib[i] = i >> 21; // eight /3 routes
	for (uint64_t i = 0; i < NEXT_HOPS; i++) next_hops[i] = (i << 40 | 0x000100000002) | (i % INTERFACES) << 48;
	for (uint64_t i = 0; i < INTERFACES; i++) interfaces[i] = (struct interface){ i << 40 | 0x000200000002, i % PORTS, 1500 };
}

// Without hugepages DPDK's own pool gives each packet a 4 KB page, so that all headers fall into the same few cache sets. This one packs
// packets densely into transparent huge pages, as a machine with hugepages does.
static struct rte_mempool *make_pool(unsigned n) {
	const size_t element = sizeof(struct rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE, bytes = RTE_ALIGN(n * (element + 256), (size_t)2 << 20);
	if (plain_pool) return rte_pktmbuf_pool_create("packets", n, POOL_CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	char *memory = aligned_alloc(2 << 20, bytes);
	struct rte_mempool *pool = rte_mempool_create_empty("packets", n, element, POOL_CACHE, sizeof(struct rte_pktmbuf_pool_private),
	                                                    SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (!memory || !pool || rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL)) return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
	rte_pktmbuf_pool_init(pool, NULL);
	if (rte_mempool_populate_iova(pool, memory, RTE_BAD_IOVA, bytes, NULL, NULL) < (int)n) return NULL;
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

static void start(char *name, char *core) {
	char pcap[64], vdev[128], prefix[64];
	snprintf(pcap, sizeof pcap, "layout-%d.pcap", (int)getpid());
	snprintf(vdev, sizeof vdev, "--vdev=net_pcap0,rx_pcap=%s,infinite_rx=1", pcap); // no tx given: transmit drops
	snprintf(prefix, sizeof prefix, "--file-prefix=layout%d", (int)getpid());
	char *eal[] = { name, "--no-huge", "-m", "512", "--no-telemetry", "--no-shconf", "--no-pci", "--log-level=4", prefix, "-l", core, vdev };
	write_pcap(pcap);
	if (rte_eal_init(RTE_DIM(eal), eal) < 0) die("DPDK does not start");
	struct rte_mempool *pool = make_pool(FLOWS + delay + 8192);
	if (!pool) die("no memory for packets");
	struct rte_eth_conf conf = { 0 };
	if (rte_eth_dev_configure(0, 1, 1, &conf) || rte_eth_rx_queue_setup(0, 0, 1024, SOCKET_ID_ANY, NULL, pool) ||
	    rte_eth_tx_queue_setup(0, 0, 1024, SOCKET_ID_ANY, NULL) || rte_eth_dev_start(0))
		die("the port does not start");
	unlink(pcap);
}

int main(int argc, char **argv) {
	static const unsigned bursts[] = { 32, 64, 128 };
	int option, rounds = 25, only = -1, count = 0;
	double seconds = 0.15;
	char *core = "0";
	while ((option = getopt(argc, argv, "r:t:d:p:sl:v:n:")) != -1) switch (option) {
		case 'r': rounds = atoi(optarg); break;
		case 't': seconds = atof(optarg); break;
		case 'd': delay = atoi(optarg); break;
		case 'p': prefetching = atoi(optarg); break;
		case 's': plain_pool = true; break;
		case 'l': core = optarg; break;
		case 'v': only = atoi(optarg); break;  // one variant, ...
		case 'n': count = atoi(optarg); break; // ... this many bursts of 64: for callgrind
		default: return 2;
	}
	if (rounds < 1 || rounds > MAX_ROUNDS || only >= VARIANTS || delay > MAX_DELAY || delay % 128 || (delay & (delay - 1))) {
		fprintf(stderr, "layout: rounds 1..%d, variant 0..%d, delay a power of two in 128..%d or 0\n", MAX_ROUNDS, VARIANTS - 1, MAX_DELAY);
		return 2;
	}
	make_tables();
	start(argv[0], core);
	if (only >= 0) {
		for (int i = 0; i < count; i++) burst_once(&variants[only], &batch, 64, NULL);
		printf("%s: %" PRIu64 " packets sent\n", variants[only].name, sent);
		return 0;
	}
	verifying = true;
	for (int v = 1; v < VARIANTS; v++)
		for (unsigned i = 0; i < FLOWS / 64; i++) burst_once(&variants[v], &batch, 64, NULL);
	verifying = false;
	printf("verified: %" PRIu64 " sent, %" PRIu64 " wrong, %" PRIu64 " dropped\n", sent, bad, dropped);
	if (!sent || bad || dropped) return 1;
	printf("delay %u, prefetch %d, %d rounds of %.2f s\n\n| burst | layout | Mpps | ns | above bare | ns over mbuf's [95 %%] |\n| --- | --- | --- | --- | --- | --- |\n",
	       delay, prefetching, rounds, seconds);
	for (unsigned i = 0; i < RTE_DIM(bursts); i++) compare(bursts[i], rounds, seconds);
	printf("\n| burst | pass | mbuf ns | soa ns |\n| --- | --- | --- | --- |\n");
	profile(64, rounds, seconds);
	return rte_eal_cleanup() != 0;
}
