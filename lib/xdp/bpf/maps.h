/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The maps. The loader sets how many elements those have that say 1 here and are named in plane.h as larger. */
#ifndef MAPS_H
#define MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "plane.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct line);
} arena SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, PORTS * QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* An index below `size`, a power of two. The compiler must not see that the bound is known already: it would leave out
 * what the verifier wants to see right before the index is used. */
static __always_inline __u32 bounded(__u32 at, __u32 size)
{
	at &= size - 1;
	asm volatile("" : "+r"(at));
	return at;
}

/* 1 if a < b, both below 2^63. Without a branch: the verifier would follow both ways at each of many comparisons. The
 * compiler must not see what the difference is for, else it makes a branch of it. */
static __always_inline __u64 is_less(__u64 a, __u64 b)
{
	__u64 difference = a - b;

	asm volatile("" : "+r"(difference));
	return difference >> 63;
}

static __always_inline struct line *line_at(__u32 at)
{
	return bpf_map_lookup_elem(&arena, &at);
}

#endif
