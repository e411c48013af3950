/* SPDX-License-Identifier: MIT
 *
 * The part of the shim that builds DPDK's filter structures: rte_flow's patterns and rte_acl's rules.
 */
#include "shim.h"

#include <string.h>

#include <rte_acl.h>
#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_errno.h>
#include <rte_flow.h>

/* ---- hardware filters ---- */

struct rte_flow *perigee_flow_create(uint16_t port, const struct perigee_flow *flow, uint16_t queue, char *message,
				     size_t size)
{
	struct rte_flow_item_eth eth = { 0 }, eth_mask = { 0 };
	struct rte_flow_item_ipv4 v4 = { 0 }, v4_mask = { 0 };
	struct rte_flow_item_ipv6 v6 = { 0 }, v6_mask = { 0 };
	struct rte_flow_item_udp l4 = { 0 }, l4_mask = { 0 }; /* TCP's item starts with the same two ports */
	struct rte_flow_item_tcp tcp = { 0 }, tcp_mask = { 0 };
	struct rte_flow_item pattern[4] = { { .type = RTE_FLOW_ITEM_TYPE_ETH } };
	struct rte_flow_action_queue to = { .index = queue };
	struct rte_flow_action actions[2] = { { .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to },
					      { .type = RTE_FLOW_ACTION_TYPE_END } };
	struct rte_flow_attr attr = { .ingress = 1 };
	struct rte_flow_error error = { 0 };
	int items = 1;

	if (flow->family == 0) {
		eth.type = flow->ether_type;
		eth_mask.type = UINT16_MAX;
		pattern[0].spec = &eth;
		pattern[0].mask = &eth_mask;
	} else if (flow->family == 4) {
		memcpy(&v4.hdr.src_addr, flow->source, 4);
		memcpy(&v4_mask.hdr.src_addr, flow->source_mask, 4);
		memcpy(&v4.hdr.dst_addr, flow->destination, 4);
		memcpy(&v4_mask.hdr.dst_addr, flow->destination_mask, 4);
		v4.hdr.next_proto_id = flow->protocol;
		v4_mask.hdr.next_proto_id = flow->protocol_mask;
		pattern[items++] = (struct rte_flow_item){ RTE_FLOW_ITEM_TYPE_IPV4, &v4, NULL, &v4_mask };
	} else {
		memcpy(&v6.hdr.src_addr, flow->source, 16);
		memcpy(&v6_mask.hdr.src_addr, flow->source_mask, 16);
		memcpy(&v6.hdr.dst_addr, flow->destination, 16);
		memcpy(&v6_mask.hdr.dst_addr, flow->destination_mask, 16);
		v6.hdr.proto = flow->protocol;
		v6_mask.hdr.proto = flow->protocol_mask;
		pattern[items++] = (struct rte_flow_item){ RTE_FLOW_ITEM_TYPE_IPV6, &v6, NULL, &v6_mask };
	}
	if (flow->source_port_mask | flow->destination_port_mask) {
		l4.hdr.src_port = tcp.hdr.src_port = flow->source_port;
		l4.hdr.dst_port = tcp.hdr.dst_port = flow->destination_port;
		l4_mask.hdr.src_port = tcp_mask.hdr.src_port = flow->source_port_mask;
		l4_mask.hdr.dst_port = tcp_mask.hdr.dst_port = flow->destination_port_mask;
		pattern[items++] = flow->protocol == IPPROTO_TCP ?
			(struct rte_flow_item){ RTE_FLOW_ITEM_TYPE_TCP, &tcp, NULL, &tcp_mask } :
			(struct rte_flow_item){ RTE_FLOW_ITEM_TYPE_UDP, &l4, NULL, &l4_mask };
	}
	pattern[items] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_END };

	struct rte_flow *made = NULL;
	if (rte_flow_validate(port, &attr, pattern, actions, &error) == 0)
		made = rte_flow_create(port, &attr, pattern, actions, &error);
	if (made == NULL)
		snprintf(message, size, "%s", error.message ? error.message : rte_strerror(rte_errno));
	return made;
}

int perigee_flow_destroy(uint16_t port, struct rte_flow *flow)
{
	struct rte_flow_error error;

	return rte_flow_destroy(port, flow, &error);
}

/* ---- filter lists ---- */

/* A key is the protocol, three unused bytes, source, destination, source port, destination port. */
#define ACL_FIELDS_MAX 11
RTE_ACL_RULE_DEF(acl_rule, ACL_FIELDS_MAX);

static struct rte_acl_field_def field(uint8_t type, uint8_t size, uint8_t index, uint8_t input, uint32_t offset)
{
	return (struct rte_acl_field_def){ type, size, index, input, offset };
}

static void acl_layout(int words, struct rte_acl_config *config)
{
	uint32_t offset = 4;
	uint8_t f = 0, input = 0;

	memset(config, 0, sizeof(*config));
	config->num_categories = 1;
	config->defs[f] = field(RTE_ACL_FIELD_TYPE_BITMASK, 1, f, input, 0);
	for (f++, input++; f <= 2 * words; f++, input++, offset += 4)
		config->defs[f] = field(RTE_ACL_FIELD_TYPE_MASK, 4, f, input, offset);
	config->defs[f] = field(RTE_ACL_FIELD_TYPE_RANGE, 2, f, input, offset);
	f++;
	config->defs[f] = field(RTE_ACL_FIELD_TYPE_RANGE, 2, f, input, offset + 2);
	config->num_fields = f + 1;
}

static void acl_address(struct rte_acl_field *to, int words, const uint8_t *address, int bits)
{
	for (int w = 0; w < words; w++) {
		uint32_t word;
		int left = bits - 32 * w;

		memcpy(&word, address + 4 * w, 4);
		to[w].value.u32 = rte_be_to_cpu_32(word);
		to[w].mask_range.u32 = left < 0 ? 0 : left > 32 ? 32 : left;
	}
}

static int acl_add(struct rte_acl_ctx *acl, int words, const struct perigee_acl_rule *rules, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct acl_rule rule;
		struct rte_acl_field *ports = &rule.field[1 + 2 * words];

		memset(&rule, 0, sizeof(rule));
		rule.data.category_mask = 1;
		rule.data.priority = RTE_ACL_MAX_PRIORITY - i;
		rule.data.userdata = rules[i].verdict;
		rule.field[0].value.u8 = rules[i].protocol;
		rule.field[0].mask_range.u8 = rules[i].protocol_mask;
		acl_address(&rule.field[1], words, rules[i].source, rules[i].source_bits);
		acl_address(&rule.field[1 + words], words, rules[i].destination, rules[i].destination_bits);
		ports[0].value.u16 = rules[i].source_port_low;
		ports[0].mask_range.u16 = rules[i].source_port_high;
		ports[1].value.u16 = rules[i].destination_port_low;
		ports[1].mask_range.u16 = rules[i].destination_port_high;
		int error = rte_acl_add_rules(acl, (struct rte_acl_rule *)&rule, 1);
		if (error != 0)
			return error;
	}
	return 0;
}

struct rte_acl_ctx *perigee_acl_build(const char *name, int socket, int family, const struct perigee_acl_rule *rules,
				      uint32_t n, int *error)
{
	int words = family == 4 ? 1 : 4;
	struct rte_acl_config config;
	struct rte_acl_param param = { .name = name,
				       .socket_id = socket,
				       .rule_size = RTE_ACL_RULE_SZ(1 + 2 * words + 2),
				       .max_rule_num = n };
	struct rte_acl_ctx *acl = rte_acl_create(&param);

	if (acl == NULL) {
		*error = -rte_errno;
		return NULL;
	}
	acl_layout(words, &config);
	*error = acl_add(acl, words, rules, n);
	if (*error == 0)
		*error = rte_acl_build(acl, &config);
	if (*error != 0) {
		rte_acl_free(acl);
		return NULL;
	}
	return acl;
}

int perigee_acl_classify(const struct rte_acl_ctx *acl, const uint8_t *keys, size_t stride, uint32_t n, uint32_t *to)
{
	const uint8_t *chunk[64];
	int error = 0;

	for (uint32_t done = 0; done < n && error == 0;) {
		uint32_t k = RTE_MIN(n - done, (uint32_t)RTE_DIM(chunk));

		for (uint32_t i = 0; i < k; i++)
			chunk[i] = keys + (done + i) * stride;
		error = rte_acl_classify(acl, chunk, to + done, k, 1);
		done += k;
	}
	return error;
}
