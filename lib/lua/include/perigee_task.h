/* SPDX-License-Identifier: MIT
 *
 * perigee_task.h - what tasks call for every burst: `perigee task`. Masks, batches and modules are those of perigee.h.
 *
 * Times are nanoseconds. Functions that return int return 0, or -1 after a failure that perigee_failure() describes; those that
 * return a number of packets return UINT32_MAX then. Whatever waits returns early when the tasks are asked to end.
 *
 * The part between the two marks is also what `ffi.cdef` reads: no preprocessor there.
 */
#ifndef PERIGEE_TASK_H
#define PERIGEE_TASK_H

#include "perigee.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ffi.cdef begins */

typedef struct perigee_receive_queue perigee_receive_queue;   /* of a device */
typedef struct perigee_transmit_queue perigee_transmit_queue; /* of a device */
typedef struct perigee_ring perigee_ring;                     /* packets between tasks */
typedef struct perigee_pipe perigee_pipe;                     /* messages between tasks */
typedef struct perigee_pool perigee_pool;                     /* packet buffers of a task, and the prototype of its packets */
typedef struct perigee_expression perigee_expression;         /* an expression that packets match or not */

/* A task as its script sees it. */
typedef struct perigee_task {
  uint32_t id; /* number of the task, from 1: the main one */
} perigee_task;

int perigee_task_running(perigee_task *, uint64_t extra);
uint64_t perigee_task_now(perigee_task *);
void perigee_task_sleep(perigee_task *, uint64_t time);
perigee_context *perigee_task_context(perigee_task *);
perigee_batch *perigee_task_batch(perigee_task *);
perigee_mask *perigee_task_mask(perigee_task *);
perigee_gather *perigee_task_gather(perigee_task *, uint32_t size, uint64_t timeout);

/* Packets. What the batch still holds is freed first; network headers (l3) are set. A queue is one task's at a time. */
uint32_t perigee_task_receive(perigee_task *, perigee_receive_queue *, perigee_batch *, uint32_t burst, uint64_t timeout);
uint32_t perigee_task_ring_receive(perigee_task *, perigee_ring *, perigee_batch *, uint32_t burst, uint64_t timeout);
uint32_t perigee_task_fill(perigee_task *, perigee_pool *, perigee_batch *, uint32_t packets, uint32_t length);

/* Send the packets of a batch, in order; those for which there was no room in that time stay in it. */
uint32_t perigee_task_send(perigee_task *, perigee_transmit_queue *, perigee_batch *, uint64_t timeout);
uint32_t perigee_task_ring_send(perigee_task *, perigee_ring *, perigee_batch *, uint64_t timeout);

int perigee_task_free(perigee_task *, perigee_batch *, const perigee_mask *);
int perigee_task_checksums(perigee_task *, perigee_batch *, const perigee_mask *);
int perigee_task_match(perigee_task *, perigee_expression *, perigee_batch *, perigee_mask *);
int perigee_task_match_bytes(perigee_task *, perigee_expression *, const uint8_t *bytes, uint32_t length); /* 1: they match */

/* Messages. 1: done, 0: no room, or no message. A message is there until the task's next call. */
int perigee_task_pipe_send(perigee_task *, perigee_pipe *, const char *bytes, size_t length, uint64_t timeout);
int perigee_task_pipe_receive(perigee_task *, perigee_pipe *, uint64_t timeout, const char **bytes, size_t *length);
uint32_t perigee_task_pipe_length(perigee_task *, perigee_pipe *);

/* ffi.cdef ends */

#ifdef __cplusplus
}
#endif
#endif
