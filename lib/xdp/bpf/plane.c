// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The in-kernel plane: what lua/fastpath.lua does, for one packet at a time, where the kernel receives it.
 *
 *   classify > valid > filter > urpf > lookup > mtu > redirect > ttl > apply > the other port
 *      each of them may > drop: counted under its reason
 *                       > up: to the port's AF_XDP socket, or to Linux
 *
 * Nothing is written before all is decided, so that a packet goes up as it came. What goes up to a socket is judged
 * from scratch by the router, which counts it. What goes up to Linux is counted here, and has passed the filters.
 *
 * Multicast, options, extension headers that a filter would have to follow, and other rare packets go up. */
#include "keys.h"
#include "leave.h"
#include "lookup.h"
#include "valid.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline int decided(struct packet *p, const struct rule_tail *rule, int denied)
{
	p->rule = rule->number + 1;
	return rule->flags & RULE_DENY ? denied : FORWARD;
}

/* Asks the filters about a packet, whose reason to be denied is given. */
static __always_inline int ask(struct packet *p, const struct key *key, int denied)
{
	const struct settings *s = p->settings;
	int at;

	p->judged = 1;
	at = p->is6 ? rule6_of(s, key, 0, s->rules6) : rule4_of(s, key, 0, s->rules4);
	if (at < 0)
		return FORWARD;
	at &= RULES - 1;
	if (p->is6)
		return decided(p, &s->list6[at].tail, denied);
	return decided(p, &s->list4[at].tail, denied);
}

/* The filters, then what is steered to the router or may be Linux' to decide. */
static __always_inline int filter(struct packet *p, const struct key *key, int denied)
{
	const struct settings *s = p->settings;
	int decision, steered;

	if (key->obscure && p->up == UP_SOCKET)
		return UP_COMPLEX;
	decision = ask(p, key, denied);
	if (decision != FORWARD)
		return decision;
	steered = p->is6 ? rule6_of(s, key, s->rules6, s->all_rules6) : rule4_of(s, key, s->rules4, s->all_rules4);
	return steered < 0 ? FORWARD : UP_COMPLEX;
}

/* Reverse path forwarding, by the next hop of the source. */
static __always_inline int reverse_path(struct packet *p, __u32 id, int failed)
{
	const struct interface *interface = &p->settings->interfaces[p->interface & (INTERFACES - 1)];
	__u64 hop = hop_at(p->settings, id);
	__u32 by;

	if ((hop & HOP_CODE) == HOP_GROUP)
		return UP_COMPLEX;
	if (is_forward(hop))
		by = hop >> 48;
	else if ((hop & HOP_CODE) == HOP_UNRESOLVED)
		by = hop & 0xffff;
	else
		return hop == HOP_TO_LINUX && !(interface->flags & INTERFACE_STRICT) ? FORWARD : failed;
	return interface->flags & INTERFACE_STRICT && by != p->interface ? failed : FORWARD;
}

/* What is done with a packet whose next hop cannot be sent to. */
static __always_inline int special(const struct packet *p)
{
	__u64 hop = p->hop;

	if (hop == HOP_BLACKHOLE)
		return p->is6 ? IPV6_LOOKUP_BLACKHOLE : IPV4_LOOKUP_BLACKHOLE;
	if (hop == HOP_LOCAL)
		return p->is6 ? IPV6_LOOKUP_LOCAL : IPV4_LOOKUP_LOCAL;
	if (hop == HOP_UNREACHABLE)
		return p->is6 ? IPV6_LOOKUP_UNREACHABLE : IPV4_LOOKUP_UNREACHABLE;
	if (hop == HOP_PROHIBIT)
		return p->is6 ? IPV6_LOOKUP_PROHIBITED : IPV4_LOOKUP_PROHIBITED;
	if (hop == HOP_TO_LINUX)
		return p->is6 ? IPV6_LOOKUP_TO_LINUX : IPV4_LOOKUP_TO_LINUX;
	if (hop == HOP_REFUSED)
		return p->is6 ? IPV6_LOOKUP_REFUSED : IPV4_LOOKUP_REFUSED;
	if ((hop & HOP_CODE) == HOP_UNRESOLVED)
		return p->is6 ? IPV6_LOOKUP_UNRESOLVED : IPV4_LOOKUP_UNRESOLVED;
	return p->is6 ? IPV6_LOOKUP_NO_ROUTE : IPV4_LOOKUP_NO_ROUTE;
}

/* A packet that leaves by the interface it came in on: now and then one is shown to who may redirect its sender. */
static __always_inline int is_shown(struct packet *p)
{
	__u64 now = bpf_ktime_get_ns();

	if (now < p->counters->next_redirect)
		return 0;
	p->counters->next_redirect = now + REDIRECT_INTERVAL;
	return 1;
}

/* What is left once there is a next hop: whether the packet fits, and where it leaves. */
static __always_inline int depart(struct packet *p, int too_big, __u8 ttl, int expired)
{
	const struct interface *out;
	__u32 by = p->hop >> 48;

	if (!is_forward(p->hop))
		return special(p);
	if (by >= INTERFACES)
		return UP_COMPLEX;
	out = &p->settings->interfaces[by];
	if (!(out->flags & INTERFACE_HERE) || !(out->flags & INTERFACE_SENDS || p->port->flags & PORT_GENERIC))
		return UP_COMPLEX;
	if (p->total > out->mtu)
		return too_big;
	if (by == p->interface && out->flags & INTERFACE_REDIRECTS && is_shown(p))
		return REDIRECT_SENT_BACK;
	return ttl > 1 ? FORWARD : expired;
}

static __always_inline int decide4(struct packet *p)
{
	void *data = (void *)(long)p->ctx->data, *end = (void *)(long)p->ctx->data_end;
	const struct settings *s = p->settings;
	const struct ipv4 *ip = data + p->l3;
	int decision;
	__u16 flags;

	if ((void *)(ip + 1) > end)
		return IPV4_VALID_SHORT;
	decision = valid4(p, ip, end - (void *)ip);
	if (decision != FORWARD)
		return decision;
	if (s->all_rules4) {
		struct key key = {};

		key4_of(&key, ip, end);
		decision = filter(p, &key, FILTER_IPV4_DENIED);
		if (decision != FORWARD)
			return decision;
	}
	flags = s->interfaces[p->interface & (INTERFACES - 1)].flags;
	if (flags & (INTERFACE_LOOSE | INTERFACE_STRICT | INTERFACE_NO_ADDRESS)) {
		if (flags & INTERFACE_NO_ADDRESS)
			return UP_COMPLEX;
		decision = reverse_path(p, lookup4(s, bpf_ntohl(ip->source)), URPF_IPV4_FAILED);
		if (decision != FORWARD)
			return decision;
	}
	p->hop = hop_at(s, lookup4(s, bpf_ntohl(ip->destination)));
	if ((p->hop & HOP_CODE) == HOP_GROUP)
		p->hop = member_of(s, p->hop, flow4(ip, end));
	if ((p->hop & ~0xffffull) == HOP_LINK)
		p->hop = neighbor_of(s, p->hop, 0, 0, bpf_ntohl(ip->destination));
	return depart(p, MTU_IPV4_TOO_BIG, ip->ttl, TTL_EXPIRED);
}

static __always_inline int decide6(struct packet *p)
{
	void *data = (void *)(long)p->ctx->data, *end = (void *)(long)p->ctx->data_end;
	const struct settings *s = p->settings;
	const struct ipv6 *ip = data + p->l3;
	__u64 high, low;
	int decision;

	if ((void *)(ip + 1) > end)
		return IPV6_VALID_SHORT;
	decision = valid6(p, ip, end - (void *)ip);
	if (decision != FORWARD)
		return decision;
	if (s->all_rules6) {
		struct key key = {};

		key6_of(&key, ip, end);
		if (key.obscure && p->up == UP_LINUX)
			follow6(p->ctx, &key, p->l3);
		decision = filter(p, &key, FILTER_IPV6_DENIED);
		if (decision != FORWARD)
			return decision;
	}
	if (s->interfaces[p->interface & (INTERFACES - 1)].flags & (INTERFACE_LOOSE | INTERFACE_STRICT)) {
		__u32 id = lookup6(s, bpf_be64_to_cpu(ip->source[0]), bpf_be64_to_cpu(ip->source[1]));

		decision = reverse_path(p, id, URPF_IPV6_FAILED);
		if (decision != FORWARD)
			return decision;
	}
	high = bpf_be64_to_cpu(ip->destination[0]);
	low = bpf_be64_to_cpu(ip->destination[1]);
	p->hop = hop_at(s, lookup6(s, high, low));
	if ((p->hop & HOP_CODE) == HOP_GROUP) {
		/* The router follows extension headers. */
		if (is_extension(ip->next))
			return UP_COMPLEX;
		p->hop = member_of(s, p->hop, flow6(ip, end));
	}
	if ((p->hop & ~0xffffull) == HOP_LINK)
		p->hop = neighbor_of(s, p->hop, SLOT_FAMILY6, high, low);
	return depart(p, MTU_IPV6_TOO_BIG, ip->hop_limit, HOP_LIMIT_EXPIRED);
}

/* Asks the filters about a packet that goes up to Linux before they were asked. */
static __always_inline int judge(struct packet *p)
{
	void *data = (void *)(long)p->ctx->data, *end = (void *)(long)p->ctx->data_end;
	const __u16 *types = data + 12;
	void *network = data + 14;
	struct key key = {};
	__u16 type;

	if (data + 18 > end)
		return FORWARD;
	type = types[0];
	if (type == VLAN_TYPE || type == QINQ_TYPE) {
		type = types[2];
		network = data + 18;
		if ((type == VLAN_TYPE || type == QINQ_TYPE) && data + 22 <= end) {
			type = types[4];
			network = data + 22;
		}
	}
	if (type == IPV4_TYPE && network + sizeof(struct ipv4) <= end) {
		p->is6 = 0;
		key4_of(&key, network, end);
		return ask(p, &key, FILTER_IPV4_DENIED);
	}
	if (type == IPV6_TYPE && network + sizeof(struct ipv6) <= end) {
		p->is6 = 1;
		key6_of(&key, network, end);
		if (key.obscure)
			follow6(p->ctx, &key, network - data);
		return ask(p, &key, FILTER_IPV6_DENIED);
	}
	return FORWARD;
}

/* The port of an interface of Linux; none: 0. */
static __always_inline __u32 port_of(const struct settings *s, __u32 link)
{
	__u32 at = link * 0x9e3779b1 >> 22; /* 32 - log2(LINK_SLOTS) */

	for (int i = 0; i < LINK_PROBES; i++) {
		__u64 slot = s->links[(at + i) & (LINK_SLOTS - 1)];

		if (slot >> 32 == link)
			return slot & (PORTS - 1);
		if (!slot)
			break;
	}
	return 0;
}

SEC("xdp")
int plane(struct xdp_md *ctx)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), link = ctx->ingress_ifindex, current;
	struct packet p = { .ctx = ctx };
	struct state *holds;
	int decision;

	holds = bpf_map_lookup_elem(&state, &zero);
	if (!holds)
		return XDP_ABORTED;
	current = holds->current & 1;
	p.settings = bpf_map_lookup_elem(&settings, &current);
	p.counters = bpf_map_lookup_elem(&counters, &cpu);
	if (!p.settings || !p.counters)
		return XDP_ABORTED;
	p.port_number = port_of(p.settings, link);
	if (!p.port_number)
		return XDP_PASS;
	p.port = &p.settings->ports[p.port_number & (PORTS - 1)];
	p.up = p.port->up;
	p.length = ctx->data_end - ctx->data;
	decision = p.port->flags & PORT_ALL_UP ? UP_COMPLEX : classify(&p);
	if (decision == FORWARD)
		decision = p.is6 ? decide6(&p) : decide4(&p);
	if (decision == FORWARD)
		return forward(&p);
	if (decision & UP_BIT && p.up == UP_SOCKET) {
		__u32 socket = p.port_number * QUEUES + (ctx->rx_queue_index & (QUEUES - 1));

		p.counters->ports[p.port_number & (PORTS - 1)].handed_on++;
		return bpf_redirect_map(&sockets, socket, XDP_ABORTED);
	}
	/* Linux may have a use for it: stations of its own, and VLANs that the router has not heard of. */
	if (p.up == UP_LINUX && (decision == CLASSIFY_NOT_OURS || decision == CLASSIFY_UNKNOWN_VLAN))
		decision = UP_COMPLEX;
	if (decision & UP_BIT && !p.judged && (p.settings->rules4 || p.settings->rules6)) {
		int denied = judge(&p);

		if (denied != FORWARD)
			decision = denied;
	}
	count_received(&p);
	p.counters->reasons[decision & (REASONS - 1)]++;
	if (!(decision & UP_BIT))
		return XDP_DROP;
	p.counters->ports[p.port_number & (PORTS - 1)].handed_on++;
	return XDP_PASS;
}
