/* SPDX-License-Identifier: MIT
 *
 * On which node a thread's new memory is. The C library has no call for it, and libnuma is not needed for one.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/mempolicy.h */
enum { DEFAULT = 0, PREFERRED = 1 };

int perigee_prefer_node(int node)
{
	unsigned long mask[16] = { 0 };
	const int bits = sizeof(mask) * 8, each = sizeof(mask[0]) * 8;
	long error;

	if (node >= bits)
		return -EINVAL;
	if (node >= 0)
		mask[node / each] |= 1UL << node % each;
	/* The kernel reads one bit less than it is told. */
	error = node < 0 ? syscall(SYS_set_mempolicy, DEFAULT, NULL, 0UL) :
			   syscall(SYS_set_mempolicy, PREFERRED, mask, bits + 1UL);
	return error != 0 ? -errno : 0;
}
