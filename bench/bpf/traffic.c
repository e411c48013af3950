// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Programs of `./x bench xdp`: a source, a sink, and what the in-kernel plane is compared with.
 *
 *   source    writes the headers of a frame and sends it by wires[0]; run by BPF_PROG_TEST_RUN with live frames, whose
 *             pages come back as a router left them
 *   timed     writes them as well, then calls the program in `chain`: how long that one takes
 *   nothing   drops: the sink, and what `timed` is compared with
 *   redirect  sends everything on by wires[1], as it is
 *   route     routes by the kernel's table (bpf_fib_lookup), and sends by wires[1] */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Destinations of a family. */
#define DESTINATIONS 65536
/* Bytes of a frame without FCS: 60, or 62 for a header of IPv6 and one of UDP. */
#define LENGTH4 60
#define LENGTH6 62

#define IPV4_TYPE bpf_htons(0x0800)
#define IPV6_TYPE bpf_htons(0x86dd)
#define FAMILY4 2
#define FAMILY6 10

/* What the frames are like. MAC addresses: their bytes as they are in a frame, in the low 48 bits. */
struct course {
	__u64 to, from;
	__u64 source6[2];
	__u32 source4;
	/* The sum of an IPv4 header without checksum and destination. */
	__u32 sum;
	__u32 is6;
	/* The place of the next destination, and the highest one: a power of two, less 1. */
	__u32 next, mask;
	__u32 zero;
};

/* An address as in a packet; of IPv4 in the first word. */
struct destination {
	__u32 words[4];
};

struct ethernet {
	__u16 to[3], from[3], type;
};

struct ipv4 {
	__u8 version_length, tos;
	__u16 total, identification, fragment;
	__u8 ttl, protocol;
	__u16 checksum;
	__u32 source, destination;
};

struct ipv6 {
	__u32 version;
	__u16 length;
	__u8 next, hop_limit;
	__u64 source[2], destination[2];
};

struct udp {
	__u16 source, destination, length, checksum;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct course);
} course SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DESTINATIONS);
	__type(key, __u32);
	__type(value, struct destination);
} destinations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} chain SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} wires SEC(".maps");

static __always_inline void fill4(void *network, const struct course *c, const struct destination *to)
{
	struct ipv4 *ip = network;
	__u32 sum = c->sum + (to->words[0] & 0xffff) + (to->words[0] >> 16);

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->version_length = 0x45;
	ip->tos = 0;
	ip->total = bpf_htons(LENGTH4 - sizeof(struct ethernet));
	ip->identification = 0;
	ip->fragment = 0;
	ip->ttl = 64;
	ip->protocol = 17;
	ip->checksum = ~sum;
	ip->source = c->source4;
	ip->destination = to->words[0];
}

static __always_inline void fill6(void *network, const struct course *c, const struct destination *to)
{
	struct ipv6 *ip = network;

	ip->version = bpf_htonl(0x60000000);
	ip->length = bpf_htons(sizeof(struct udp));
	ip->next = 17;
	ip->hop_limit = 64;
	ip->source[0] = c->source6[0];
	ip->source[1] = c->source6[1];
	ip->destination[0] = to->words[0] | (__u64)to->words[1] << 32;
	ip->destination[1] = to->words[2] | (__u64)to->words[3] << 32;
}

/* Writes the headers of the next frame; 0 if that is done. */
static __always_inline int fill(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethernet *ethernet = data;
	struct destination *to;
	struct course *c;
	struct udp *udp;
	__u32 at = 0;

	c = bpf_map_lookup_elem(&course, &at);
	if (!c)
		return -1;
	at = c->next++ & c->mask;
	to = bpf_map_lookup_elem(&destinations, &at);
	if (!to || data + LENGTH4 > end)
		return -1;
	ethernet->to[0] = c->to;
	ethernet->to[1] = c->to >> 16;
	ethernet->to[2] = c->to >> 32;
	ethernet->from[0] = c->from;
	ethernet->from[1] = c->from >> 16;
	ethernet->from[2] = c->from >> 32;
	if (c->is6) {
		if (data + LENGTH6 > end)
			return -1;
		ethernet->type = IPV6_TYPE;
		fill6(data + sizeof(*ethernet), c, to);
		udp = data + sizeof(*ethernet) + sizeof(struct ipv6);
		udp->length = bpf_htons(sizeof(*udp));
	} else {
		ethernet->type = IPV4_TYPE;
		fill4(data + sizeof(*ethernet), c, to);
		udp = data + sizeof(*ethernet) + sizeof(struct ipv4);
		udp->length = bpf_htons(LENGTH4 - sizeof(*ethernet) - sizeof(struct ipv4));
	}
	udp->source = bpf_htons(4000);
	udp->destination = bpf_htons(9);
	udp->checksum = 0;
	return 0;
}

SEC("xdp")
int source(struct xdp_md *ctx)
{
	return fill(ctx) ? XDP_ABORTED : bpf_redirect_map(&wires, 0, XDP_ABORTED);
}

SEC("xdp")
int timed(struct xdp_md *ctx)
{
	if (!fill(ctx))
		bpf_tail_call(ctx, &chain, 0);
	return XDP_ABORTED;
}

SEC("xdp")
int nothing(struct xdp_md *ctx __attribute__((unused)))
{
	return XDP_DROP;
}

SEC("xdp")
int redirect(struct xdp_md *ctx __attribute__((unused)))
{
	return bpf_redirect_map(&wires, 1, XDP_ABORTED);
}

/* As xdp-forward of xdp-tools: what is not routed goes to the kernel. */
SEC("xdp")
int route(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct bpf_fib_lookup lookup = {};
	struct ethernet *ethernet = data;
	struct ipv6 *ip6 = data + sizeof(*ethernet);
	struct ipv4 *ip4 = data + sizeof(*ethernet);

	if ((void *)(ip4 + 1) > end)
		return XDP_PASS;
	if (ethernet->type == IPV4_TYPE) {
		if (ip4->ttl <= 1)
			return XDP_PASS;
		lookup.family = FAMILY4;
		lookup.tos = ip4->tos;
		lookup.l4_protocol = ip4->protocol;
		lookup.tot_len = bpf_ntohs(ip4->total);
		lookup.ipv4_src = ip4->source;
		lookup.ipv4_dst = ip4->destination;
	} else if (ethernet->type == IPV6_TYPE && (void *)(ip6 + 1) <= end) {
		if (ip6->hop_limit <= 1)
			return XDP_PASS;
		lookup.family = FAMILY6;
		lookup.flowinfo = ip6->version & bpf_htonl(0x0fffffff);
		lookup.l4_protocol = ip6->next;
		lookup.tot_len = bpf_ntohs(ip6->length);
		__builtin_memcpy(lookup.ipv6_src, ip6->source, sizeof(ip6->source));
		__builtin_memcpy(lookup.ipv6_dst, ip6->destination, sizeof(ip6->destination));
	} else {
		return XDP_PASS;
	}
	lookup.ifindex = ctx->ingress_ifindex;
	if (bpf_fib_lookup(ctx, &lookup, sizeof(lookup), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	if (ethernet->type == IPV4_TYPE) {
		__u32 sum = ip4->checksum + bpf_htons(0x100);

		ip4->checksum = sum + (sum >= 0xffff);
		ip4->ttl--;
	} else {
		ip6->hop_limit--;
	}
	__builtin_memcpy(ethernet->to, lookup.dmac, sizeof(lookup.dmac));
	__builtin_memcpy(ethernet->from, lookup.smac, sizeof(lookup.smac));
	return bpf_redirect_map(&wires, 1, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
