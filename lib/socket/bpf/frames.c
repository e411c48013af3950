// SPDX-License-Identifier: MIT
/* The program at an interface whose frames are a port's: gives each to the AF_XDP socket of its receive queue. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The loader sets how many queues there are. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* Frames of queues without a socket go to the kernel. */
SEC("xdp")
int frames(struct xdp_md *ctx)
{
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "MIT";
