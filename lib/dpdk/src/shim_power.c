/* SPDX-License-Identifier: MIT
 *
 * Waiting for packets without polling: receive interrupts, and the processor's instructions for watching memory and for resting.
 */
#define ALLOW_EXPERIMENTAL_API
#include "shim.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_cpuflags.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_power_intrinsics.h>

/* A device whose interrupts are always on has no call to switch them (net_tap). */
static int switched(int error)
{
	return error == -ENOTSUP ? 0 : error;
}

int perigee_wake_arm(uint16_t port, uint16_t queue)
{
	return switched(rte_eth_dev_rx_intr_enable(port, queue));
}

int perigee_wake_disarm(uint16_t port, uint16_t queue, int descriptor)
{
	struct rte_epoll_event event;
	int error = switched(rte_eth_dev_rx_intr_disable(port, queue));

	/* Reads the device's count of interrupts, by its driver's way: until then the descriptor stays readable. */
	rte_epoll_wait(descriptor, &event, 1, 0);
	return error;
}

int perigee_wake_open(uint16_t port, uint16_t queue)
{
	int descriptor, error;

	if (rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue) < 0)
		return -ENOTSUP;
	descriptor = epoll_create1(EPOLL_CLOEXEC);
	if (descriptor < 0)
		return -errno;
	error = rte_eth_dev_rx_intr_ctl_q(port, queue, descriptor, RTE_INTR_EVENT_ADD, NULL);
	/* Some drivers have descriptors for all queues, and say here only that a queue has no interrupts. */
	if (error == 0 && (error = perigee_wake_arm(port, queue)) == 0)
		error = perigee_wake_disarm(port, queue, descriptor);
	if (error != 0) {
		rte_eth_dev_rx_intr_ctl_q(port, queue, descriptor, RTE_INTR_EVENT_DEL, NULL);
		close(descriptor);
		return error;
	}
	return descriptor;
}

void perigee_wake_close(uint16_t port, uint16_t queue, int descriptor)
{
	rte_eth_dev_rx_intr_ctl_q(port, queue, descriptor, RTE_INTR_EVENT_DEL, NULL);
	close(descriptor);
}

int perigee_can_pause(void)
{
	struct rte_cpu_intrinsics can = { 0 };

	rte_cpu_get_intrinsics_support(&can);
	return can.power_pause;
}

int perigee_can_monitor(uint16_t port, uint16_t queue)
{
	struct rte_cpu_intrinsics can = { 0 };
	struct rte_power_monitor_cond where;

	rte_cpu_get_intrinsics_support(&can);
	return can.power_monitor && rte_eth_get_monitor_addr(port, queue, &where) == 0;
}

static uint64_t in_time(uint32_t ns)
{
	return rte_get_tsc_cycles() + rte_get_tsc_hz() / 1000 * ns / 1000000;
}

int perigee_pause(uint32_t ns)
{
	return rte_power_pause(in_time(ns));
}

int perigee_monitor(uint16_t port, uint16_t queue, uint32_t ns)
{
	struct rte_power_monitor_cond where;
	int error = rte_eth_get_monitor_addr(port, queue, &where);

	return error != 0 ? error : rte_power_monitor(&where, in_time(ns));
}
