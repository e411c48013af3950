/* SPDX-License-Identifier: MIT
 *
 * Ports: finding, setting up and asking them, and what Linux knows of the interfaces under them.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_ether.h>

#define RSS_FLOWS (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)

/* Toeplitz with this key gives both directions of a flow the same hash (Woo, Park: Scalable TCP session monitoring
 * with symmetric receive-side scaling, 2012). */
static uint8_t symmetric_key[128];

int perigee_port_find(const char *devargs, uint16_t *port)
{
	struct rte_dev_iterator iterator;
	uint16_t p;

	RTE_ETH_FOREACH_MATCHING_DEV(p, devargs, &iterator) {
		*port = p;
		rte_eth_iterator_cleanup(&iterator);
		return 0;
	}
	return -ENODEV;
}

int perigee_port_describe(uint16_t port, struct perigee_device *to)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	char name[RTE_ETH_NAME_MAX_LEN] = "";
	int error = rte_eth_dev_info_get(port, &info);

	if (error == 0)
		error = rte_eth_dev_get_name_by_port(port, name);
	if (error == 0)
		error = rte_eth_macaddr_get(port, &mac);
	if (error != 0)
		return error;

	memset(to, 0, sizeof(*to));
	snprintf(to->name, sizeof(to->name), "%s", name);
	snprintf(to->driver, sizeof(to->driver), "%s", info.driver_name ? info.driver_name : "");
	memcpy(to->mac, mac.addr_bytes, sizeof(to->mac));
	to->max_rx_queues = info.max_rx_queues;
	to->max_tx_queues = info.max_tx_queues;
	to->max_mtu = info.max_mtu;
	to->reta_size = info.reta_size;
	to->socket = rte_eth_dev_socket_id(port);
	to->device = info.device;
	if (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM)
		to->features |= PERIGEE_IPV4_CHECKSUM;
	if (info.flow_type_rss_offloads & RSS_FLOWS)
		to->features |= PERIGEE_RSS;
	if (info.flow_type_rss_offloads & RSS_FLOWS && info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH)
		to->features |= PERIGEE_RSS_HASH;
	if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)
		to->features |= PERIGEE_FAST_FREE;
	return 0;
}

static void configuration(const struct perigee_setup *setup, const struct rte_eth_dev_info *info,
			  struct rte_eth_conf *conf)
{
	memset(conf, 0, sizeof(*conf));
	conf->rxmode.mtu = setup->mtu;
	conf->intr_conf.rxq = setup->features & PERIGEE_INTERRUPTS ? 1 : 0;
	if (setup->features & PERIGEE_IPV4_CHECKSUM)
		conf->rxmode.offloads |= RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
	if (setup->features & PERIGEE_RSS_HASH)
		conf->rxmode.offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
	if (setup->features & PERIGEE_FAST_FREE)
		conf->txmode.offloads |= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if (setup->features & (PERIGEE_RSS | PERIGEE_RSS_HASH)) {
		for (size_t i = 0; i < sizeof(symmetric_key); i++)
			symmetric_key[i] = i % 2 ? 0x5a : 0x6d;
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf->rx_adv_conf.rss_conf.rss_hf = RSS_FLOWS & info->flow_type_rss_offloads;
		if (info->hash_key_size > 0 && info->hash_key_size <= sizeof(symmetric_key)) {
			conf->rx_adv_conf.rss_conf.rss_key = symmetric_key;
			conf->rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size;
		}
	}
}

int perigee_port_setup(const struct perigee_setup *setup, const char **step)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	uint16_t rx = setup->rx_descriptors, tx = setup->tx_descriptors;
	int socket = rte_eth_dev_socket_id(setup->port);
	int error;

	*step = "describe itself";
	if ((error = rte_eth_dev_info_get(setup->port, &info)) != 0)
		return error;
	configuration(setup, &info, &conf);
	*step = "be configured";
	if ((error = rte_eth_dev_configure(setup->port, setup->rx_queues, setup->tx_queues, &conf)) != 0)
		return error;
	*step = "take the number of descriptors";
	if ((error = rte_eth_dev_adjust_nb_rx_tx_desc(setup->port, &rx, &tx)) != 0)
		return error;
	*step = "set up a receive queue";
	for (uint16_t q = 0; q < setup->rx_queues; q++)
		if ((error = rte_eth_rx_queue_setup(setup->port, q, rx, socket, NULL, setup->pool)) != 0)
			return error;
	*step = "set up a transmit queue";
	info.default_txconf.offloads = conf.txmode.offloads;
	for (uint16_t q = 0; q < setup->tx_queues; q++)
		if ((error = rte_eth_tx_queue_setup(setup->port, q, tx, socket, &info.default_txconf)) != 0)
			return error;
	return 0;
}

/* Spreads flows over the first queues only, so that the others get what a filter sends them. */
int perigee_port_spread(uint16_t port, uint16_t reta_size, uint16_t queues)
{
	struct rte_eth_rss_reta_entry64 table[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];

	if (reta_size == 0 || reta_size > RTE_ETH_RSS_RETA_SIZE_512)
		return -ENOTSUP;
	memset(table, 0, sizeof(table));
	for (uint16_t i = 0; i < reta_size; i++) {
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << i % RTE_ETH_RETA_GROUP_SIZE;
		table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % queues;
	}
	return rte_eth_dev_rss_reta_update(port, table, reta_size);
}

int perigee_port_link(uint16_t port, struct perigee_link *to)
{
	struct rte_eth_link link;
	int error = rte_eth_link_get_nowait(port, &link);

	if (error != 0)
		return error;
	to->up = link.link_status == RTE_ETH_LINK_UP;
	to->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	to->speed_known = link.link_speed != RTE_ETH_SPEED_NUM_NONE && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
	to->mbps = link.link_speed;
	return 0;
}

int perigee_port_pause(uint16_t port)
{
	struct rte_eth_fc_conf conf = {0};
	int error = rte_eth_dev_flow_ctrl_get(port, &conf);

	return error != 0 ? error : conf.mode != RTE_ETH_FC_NONE;
}

void perigee_port_paths(uint16_t port, char (*receive)[1024], char (*transmit)[1024])
{
	struct rte_eth_burst_mode mode = { 0 };
	int known = rte_eth_rx_burst_mode_get(port, 0, &mode) == 0;

	snprintf(*receive, sizeof(*receive), "%s", known ? mode.info : "");
	memset(&mode, 0, sizeof(mode));
	known = rte_eth_tx_burst_mode_get(port, 0, &mode) == 0;
	snprintf(*transmit, sizeof(*transmit), "%s", known ? mode.info : "");
}

int perigee_port_stats(uint16_t port, uint64_t (*to)[8])
{
	struct rte_eth_stats s;
	int error = rte_eth_stats_get(port, &s);

	if (error != 0)
		return error;
	const uint64_t in_order[8] = { s.ipackets, s.ibytes,   s.imissed, s.ierrors,
				       s.rx_nombuf, s.opackets, s.obytes,  s.oerrors };
	memcpy(*to, in_order, sizeof(*to));
	return 0;
}

int perigee_port_counters(uint16_t port, struct perigee_counter *to, int most)
{
	int n = rte_eth_xstats_get_names(port, NULL, 0);

	if (n <= 0)
		return n;
	struct rte_eth_xstat_name *names = calloc(n, sizeof(*names));
	struct rte_eth_xstat *values = calloc(n, sizeof(*values));
	int there = -ENOMEM, filled = 0;

	if (names != NULL && values != NULL) {
		there = rte_eth_xstats_get_names(port, names, n);
		/* A driver that has got more of them meanwhile fills in none. */
		if (there >= 0 && there <= n)
			there = rte_eth_xstats_get(port, values, n);
	}
	for (int i = 0; i < there && there <= n && filled < most; i++) {
		if (values[i].id >= (uint64_t)n)
			continue;
		snprintf(to[filled].name, sizeof(to->name), "%s", names[values[i].id].name);
		to[filled++].value = values[i].value;
	}
	free(names);
	free(values);
	return there < 0 ? there : filled;
}

int perigee_port_set_mac(uint16_t port, const uint8_t (*mac)[6])
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, *mac, sizeof(*mac));
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

/* Asks Linux about an interface; 0 or a negative errno. */
static int ask_interface(const char *name, unsigned long what, struct ifreq *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error = 0;

	if (fd < 0)
		return -errno;
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
	if (ioctl(fd, what, request) != 0)
		error = -errno;
	close(fd);
	return error;
}

int perigee_interface_mtu(const char *name)
{
	struct ifreq request = { 0 };
	int error = ask_interface(name, SIOCGIFMTU, &request);

	return error ? error : request.ifr_mtu;
}

int perigee_interface_running(const char *name)
{
	struct ifreq request = { 0 };
	int error = ask_interface(name, SIOCGIFFLAGS, &request);

	return error ? error : (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

int perigee_interface_promiscuous(const char *name)
{
	struct ifreq request = { 0 };
	int error = ask_interface(name, SIOCGIFFLAGS, &request);

	return error ? error : (request.ifr_flags & IFF_PROMISC) != 0;
}

int perigee_packet_sockets(const char *interface, int *to, int most)
{
	const unsigned int index = if_nametoindex(interface);
	DIR *folder = index != 0 ? opendir("/proc/self/fd") : NULL;
	int n = 0;

	if (folder == NULL)
		return 0;
	for (struct dirent *entry; n < most && (entry = readdir(folder)) != NULL;) {
		const int fd = atoi(entry->d_name);
		int domain = 0;
		struct sockaddr_ll address = { 0 };
		socklen_t length = sizeof(domain), address_length = sizeof(address);

		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 || domain != AF_PACKET)
			continue;
		if (getsockname(fd, (struct sockaddr *)&address, &address_length) == 0 &&
		    address.sll_ifindex == (int)index)
			to[n++] = fd;
	}
	closedir(folder);
	return n;
}

uint64_t perigee_packet_drops(int fd)
{
	struct tpacket_stats stats = { 0 };
	socklen_t length = sizeof(stats);

	return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0 ? stats.tp_drops : 0;
}

int perigee_interface_queues(const char *name)
{
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
	struct ifreq request = { .ifr_data = (char *)&channels };

	/* As the AF_XDP driver counts: an interface that cannot tell has one queue. */
	if (ask_interface(name, SIOCETHTOOL, &request) != 0 || channels.combined_count == 0)
		return 1;
	return channels.combined_count;
}
