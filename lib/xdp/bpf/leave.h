/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How a packet leaves: as lib/modules/src/ttl.rs, hop_limit.rs and apply.rs. */
#ifndef LEAVE_H
#define LEAVE_H

#include "packet.h"

/* Cuts off what is behind a packet, or clears it where it pads the shortest frame. */
static __always_inline int cut(struct packet *p)
{
	void *data = (void *)(long)p->ctx->data, *end = (void *)(long)p->ctx->data_end;
	__u32 length = end - data, packet_end = p->l3 + p->total;

	if (length <= packet_end)
		return 0;
	if (length > SHORTEST_FRAME)
		return bpf_xdp_adjust_tail(p->ctx, (int)packet_end - (int)length);
	packet_end &= 63;
	for (int i = 0; i < SHORTEST_FRAME; i++) {
		__u8 *byte = data + packet_end + i;

		if ((void *)(byte + 1) > end)
			break;
		*byte = 0;
	}
	return 0;
}

/* Takes one off the TTL or the hop limit. */
static __always_inline int count_down(struct packet *p)
{
	void *data = (void *)(long)p->ctx->data, *end = (void *)(long)p->ctx->data_end;
	void *network = data + (p->l3 & 31);

	if (p->is6) {
		struct ipv6 *ip = network;

		if ((void *)(ip + 1) > end)
			return -1;
		ip->hop_limit--;
	} else {
		struct ipv4 *ip = network;
		__u32 sum;

		if ((void *)(ip + 1) > end)
			return -1;
		ip->ttl--;
		/* RFC 1624; 0xffff would mean 0. */
		sum = ip->checksum + bpf_htons(0x100);
		ip->checksum = sum == 0xffff ? 0 : sum + (sum >> 16);
	}
	return 0;
}

/* Sends the packet on. */
static __always_inline int forward(struct packet *p)
{
	const struct interface *out = &p->settings->interfaces[p->hop >> 48 & (INTERFACES - 1)];
	__u32 port = out->port & (PORTS - 1), vlan = out->vlan;
	__u64 to = p->hop & MAC_BITS, from = out->mac;
	struct port_counters *sent;
	void *data, *end;
	__u16 *head, type;
	int action;

	if (cut(p) || count_down(p))
		return XDP_ABORTED;
	data = (void *)(long)p->ctx->data;
	end = (void *)(long)p->ctx->data_end;
	head = data + (p->l3 & 31) - 2;
	if ((void *)(head + 1) > end)
		return XDP_ABORTED;
	type = *head;
	if ((p->l3 == 18) != (vlan != 0)) {
		if (bpf_xdp_adjust_head(p->ctx, vlan ? -4 : 4)) {
			count_received(p);
			p->counters->reasons[APPLY_NO_ROOM]++;
			return XDP_DROP;
		}
		data = (void *)(long)p->ctx->data;
		end = (void *)(long)p->ctx->data_end;
	}
	head = data;
	if (data + 18 > end)
		return XDP_ABORTED;
	head[0] = bpf_htons(to >> 32);
	head[1] = bpf_htons(to >> 16);
	head[2] = bpf_htons(to);
	head[3] = from;
	head[4] = from >> 16;
	head[5] = from >> 32;
	if (vlan) {
		head[6] = VLAN_TYPE;
		head[7] = bpf_htons(vlan);
		head[8] = type;
	} else {
		head[6] = type;
	}
	count_received(p);
	action = bpf_redirect_map(&devices, port, XDP_DROP);
	if (action != XDP_REDIRECT) {
		p->counters->reasons[DISTRIBUTE_NO_PORT]++;
		return XDP_DROP;
	}
	p->counters->forwarded[p->is6 & 1]++;
	sent = &p->counters->ports[port];
	sent->sent++;
	sent->sent_bytes += end - data;
	return action;
}

#endif
