// SPDX-License-Identifier: MIT
// What the kernel alone takes to start and stop a router with many ports: the same system calls, by a bare program, in the same order.
// `./kernel PORTS` works on interfaces e0, e1, ..., which measure.py makes. `./kernel PORTS group` removes the TAPs by one message.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, THREADS = 256, RING = 2 << 20, BLOCK = 64 << 10, SLOT = 2048, GRO_MAX_SIZE = 58 };

static int ports, netlink, receive[MOST], transmit[MOST], control[MOST], tap[MOST];
static void *ring[MOST];

static void die(const char *what) {
	perror(what);
	exit(1);
}

// ---- time

static double begin, begin_cpu;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static double cpu(void) {
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static void mark(const char *what) {
	printf("%-30s %7.3f s, %7.3f s CPU\n", what, now() - begin, cpu() - begin_cpu);
	begin = now();
	begin_cpu = cpu();
}

// ---- netlink and settings

struct message {
	struct nlmsghdr head;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg address;
	};
	char rest[512];
};

static void add(struct message *m, int type, const void *data, int length) {
	struct rtattr *a = (void *)((char *)m + NLMSG_ALIGN(m->head.nlmsg_len));
	a->rta_type = type;
	a->rta_len = RTA_LENGTH(length);
	memcpy(RTA_DATA(a), data, length);
	m->head.nlmsg_len = NLMSG_ALIGN(m->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static void add_number(struct message *m, int type, unsigned number) {
	add(m, type, &number, sizeof number);
}

static void ask(struct message *m, const char *what) {
	struct { struct nlmsghdr head; struct nlmsgerr error; char rest[4096]; } answer;
	m->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(netlink, m, m->head.nlmsg_len, 0) < 0 || recv(netlink, &answer, sizeof answer, 0) < 0) die(what);
	if (answer.head.nlmsg_type == NLMSG_ERROR && answer.error.error) {
		fprintf(stderr, "%s: %s\n", what, strerror(-answer.error.error));
		exit(1);
	}
}

static int number_of(const char *kind, int port) {
	char name[IFNAMSIZ];
	snprintf(name, sizeof name, "%s%d", kind, port);
	return if_nametoindex(name);
}

static struct message change(int index, bool flag_up, bool up) {
	struct message m = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_SETLINK } };
	m.link.ifi_index = index;
	if (flag_up) m.link.ifi_change = IFF_UP;
	if (up) m.link.ifi_flags = IFF_UP;
	return m;
}

static void setting(const char *family, const char *kind, int port, const char *key, const char *value) {
	char path[128], there[16] = "";
	snprintf(path, sizeof path, "/proc/sys/net/%s/conf/%s%d/%s", family, kind, port, key);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0 || read(file, there, sizeof there - 1) < 0) die(path);
	if (atoi(there) != atoi(value) && pwrite(file, value, strlen(value), 0) < 0) die(path);
	close(file);
}

static void address(int index, int family, const unsigned char *bytes, int length, int prefix) {
	struct message m = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)), .nlmsg_type = RTM_NEWADDR } };
	m.head.nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE;
	m.address = (struct ifaddrmsg){ .ifa_family = family, .ifa_prefixlen = prefix, .ifa_index = index };
	add(&m, IFA_LOCAL, bytes, length);
	add(&m, IFA_ADDRESS, bytes, length);
	if (family == AF_INET6) add_number(&m, IFA_FLAGS, IFA_F_NODAD);
	ask(&m, "an address");
}

// ---- what is done side by side

static void (*work)(int);
static int next;

static void *worker(void *unused) {
	(void)unused;
	for (int port; (port = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < ports;) work(port);
	return NULL;
}

static void side_by_side(void (*what)(int)) {
	pthread_t threads[THREADS];
	work = what;
	next = 0;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, worker, NULL)) die("a thread");
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static int packet_socket(int index, int protocol) {
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = index };
	int made = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (made < 0 || (index && bind(made, (void *)&to, sizeof to))) die("a packet socket");
	return made;
}

static void open_port(int port) {
	int index = number_of("e", port), version = TPACKET_V2, one = 1, made = packet_socket(0, 0);
	struct tpacket_req wanted = { BLOCK, RING / BLOCK, SLOT, RING / SLOT };
	struct packet_mreq groups = { .mr_ifindex = index, .mr_type = PACKET_MR_ALLMULTI };
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index };
	setsockopt(made, SOL_PACKET, PACKET_VERSION, &version, sizeof version);
	setsockopt(made, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one);
	if (setsockopt(made, SOL_PACKET, PACKET_RX_RING, &wanted, sizeof wanted)) die("a ring");
	ring[port] = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
	if (ring[port] == MAP_FAILED || bind(made, (void *)&to, sizeof to)) die("a ring");
	receive[port] = made;
	transmit[port] = packet_socket(index, 0);
	control[port] = packet_socket(0, 0);
	setsockopt(control[port], SOL_PACKET, PACKET_ADD_MEMBERSHIP, &groups, sizeof groups);
}

static void close_port(int port) {
	munmap(ring[port], RING);
	close(receive[port]);
	close(transmit[port]);
	close(control[port]);
}

static void close_tap(int port) {
	close(tap[port]);
}

// ---- start and end

static void prepare(void) {
	for (int port = 0; port < ports; port++) {
		setting("ipv4", "e", port, "forwarding", "0");
		setting("ipv4", "e", port, "arp_ignore", "8");
		setting("ipv6", "e", port, "disable_ipv6", "1");
	}
	mark("interfaces: settings");
	for (int port = 0; port < ports; port++) {
		unsigned char mac[6] = { 2, 0x70, 0, 0, port >> 8, port };
		struct message m = change(number_of("e", port), true, true);
		add_number(&m, GRO_MAX_SIZE, 1);
		add(&m, IFLA_ADDRESS, mac, sizeof mac);
		add_number(&m, IFLA_MTU, 1500);
		ask(&m, "an interface");
	}
	mark("interfaces: up, MAC, MTU, GRO");
}

static void make_taps(void) {
	static const char *const settings[][3] = {
		{ "ipv4", "forwarding", "0" }, { "ipv4", "rp_filter", "0" },         { "ipv4", "arp_ignore", "8" },
		{ "ipv6", "forwarding", "0" }, { "ipv6", "accept_ra", "0" },         { "ipv6", "keep_addr_on_down", "1" },
		{ "ipv6", "accept_dad", "0" }, { "ipv6", "dad_transmits", "0" },     { "ipv6", "addr_gen_mode", "1" },
	};
	for (int port = 0; port < ports; port++) {
		struct ifreq wanted = { .ifr_flags = IFF_TAP | IFF_NO_PI };
		snprintf(wanted.ifr_name, IFNAMSIZ, "t%d", port);
		tap[port] = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
		if (tap[port] < 0 || ioctl(tap[port], TUNSETIFF, &wanted)) die("a TAP");
	}
	mark("twins: TUNSETIFF");
	for (int port = 0; port < ports; port++)
		for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++)
			setting(settings[i][0], "t", port, settings[i][1], settings[i][2]);
	mark("twins: settings");
	for (int port = 0; port < ports; port++) {
		unsigned char mac[6] = { 2, 0, 0, 0, port >> 8, port }, v4[4] = { 10, port >> 8, port, 1 };
		unsigned char v6[16] = { 0x20, 1, 0xd, 0xb8, port >> 8, port, [15] = 1 }, local[16] = { 0xfe, 0x80, [14] = port >> 8, port };
		int index = number_of("t", port);
		struct message m = change(index, false, false);
		add(&m, IFLA_ADDRESS, mac, sizeof mac);
		add_number(&m, IFLA_MTU, 1500);
		add(&m, IFLA_IFALIAS, "perigee twin", 12);
		ask(&m, "a TAP");
		address(index, AF_INET, v4, sizeof v4, 24);
		address(index, AF_INET6, v6, sizeof v6, 64);
		address(index, AF_INET6, local, sizeof local, 64);
	}
	mark("twins: MAC, MTU, 3 addresses");
	for (int port = 0; port < ports; port++) {
		struct message m = change(number_of("t", port), true, true);
		ask(&m, "a TAP");
	}
	mark("twins: up");
}

static void remove_taps(bool by_group) {
	enum { GROUP = 0x70657267 };
	for (int port = 0; by_group && port < ports; port++) {
		struct message m = change(number_of("t", port), false, false);
		add_number(&m, IFLA_GROUP, GROUP);
		ask(&m, "a group");
	}
	if (by_group) {
		struct message m = change(0, false, false);
		m.head.nlmsg_type = RTM_DELLINK;
		add_number(&m, IFLA_GROUP, GROUP);
		ask(&m, "a group");
	}
	side_by_side(close_tap);
	mark(by_group ? "twins: removed as a group" : "twins: closed side by side");
}

static void restore(void) {
	for (int port = 0; port < ports; port++) {
		struct message m = change(number_of("e", port), true, false);
		ask(&m, "an interface");
		setting("ipv4", "e", port, "arp_ignore", "0");
		setting("ipv6", "e", port, "disable_ipv6", "0");
	}
	mark("interfaces: restored");
}

int main(int count, char **words) {
	ports = count > 1 ? atoi(words[1]) : 0;
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (ports < 1 || ports > MOST || netlink < 0) die("usage: kernel PORTS [group]");
	double start = begin = now();
	begin_cpu = cpu();
	prepare();
	side_by_side(open_port);
	mark("packet sockets with rings");
	make_taps();
	printf("%-30s %7.3f s\n", "start", now() - start);
	start = begin = now();
	remove_taps(count > 2 && !strcmp(words[2], "group"));
	side_by_side(close_port);
	mark("packet sockets closed");
	restore();
	printf("%-30s %7.3f s\n", "end", now() - start);
}
