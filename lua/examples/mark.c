/* SPDX-License-Identifier: MIT
 *
 * A module in C: sets the DSCP field of small UDP packets to Expedited Forwarding (RFC 3246), and drops UDP packets from
 * port 0, which no sender may use (RFC 768 reserves it for "no reply").
 *
 *     cc -O3 -shared -fPIC -I lib/lua/include -o mark.so lua/examples/mark.c
 *
 * lua/examples/mark.lua calls it.
 */
#include "perigee.h"

enum { EXPEDITED = 46 << 2, SMALL = 200, UDP = 17 };

/* One's complement sum of the change of one 16-bit word (RFC 1624, equation 3). */
static uint16_t update(uint16_t checksum, uint16_t before, uint16_t after) {
  uint32_t sum = (uint16_t)~checksum + (uint16_t)~before + (uint32_t)after;
  sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

static uint16_t load(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static void store(uint8_t *at, uint16_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

int mark(perigee_context *ctx, perigee_batch *batch, perigee_mask *mask) {
  perigee_mask from_nobody = {{0}};
  for (uint32_t i = perigee_mask_next(mask, 0); i < 256; i = perigee_mask_next(mask, i + 1)) {
    uint8_t *ip = batch->data[i] + batch->l3[i];
    uint32_t header = (ip[0] & 15u) * 4;
    if (ip[9] != UDP || batch->l3[i] + header + 8 > batch->length[i])
      continue;
    if (load(ip + header) == 0) {
      perigee_mask_set(&from_nobody, i);
    } else if (batch->length[i] <= SMALL) {
      uint16_t before = load(ip), after = (uint16_t)((before & 0xff03) | EXPEDITED);
      store(ip, after);
      store(ip + 10, update(load(ip + 10), before, after));
    }
  }
  perigee_mask_remove(mask, &from_nobody);
  return perigee_drop(ctx, batch, &from_nobody, perigee_reason(ctx, "mark", "source_port_0", 0));
}
