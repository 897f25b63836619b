/* In which transaction a delivery is, for `_runs.c`: Python reads what is not encoded as usual. No pointer into Proton's
 * data outlives a call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_runs_proton.h"

static uint64_t ACCEPTED;      /* the state of an accepted delivery */
static uint64_t TRANSACTIONAL; /* the state of a delivery in a transaction */
static struct {
  int list, binary, described, ulong;
} TYPES; /* of values */

/* The bytes of the ids that the broker gives its transactions. */
enum { ID_BYTES = 8 };

/* The transaction of a delivery, if it is in one. */
typedef struct {
  bool is_in;
  char id[ID_BYTES];
} Transaction;

static bool same_transaction(const Transaction *one, const Transaction *other) {
  return one->is_in == other->is_in && (!one->is_in || memcmp(one->id, other->id, ID_BYTES) == 0);
}

/* Go to the next value, and say whether it has this type. */
static bool next_is(pn_data_t *data, int type) { return pn.data_next(data) && pn.data_type(data) == type; }

/* Read the id in the state of a delivery that is in a transaction, and return the state's data, which stands at the id.
 * NULL: it is no id of the broker's. */
static pn_data_t *read_id(pn_delivery_t *delivery, Transaction *into) {
  into->is_in = true;
  pn_disposition_t *remote = pn.delivery_remote(delivery);
  pn_data_t *data = remote ? pn.disposition_data(remote) : NULL;
  if (!data) return NULL;
  pn.data_rewind(data);
  if (!next_is(data, TYPES.list) || !pn.data_enter(data) || !next_is(data, TYPES.binary)) return NULL;
  pn_bytes_t id = pn.data_get_binary(data);
  if (id.size != ID_BYTES || !id.start) return NULL;
  memcpy(into->id, id.start, ID_BYTES);
  return data;
}

/* Read which transaction a message is in. Returns false if that is no id of the broker's: then Python reads it. */
static bool read_transaction(pn_delivery_t *delivery, Transaction *into) {
  into->is_in = pn.delivery_remote_state(delivery) == TRANSACTIONAL;
  return !into->is_in || read_id(delivery, into);
}

/* Read in which transaction a message is accepted. Returns false if it is not accepted, or Python must read it. */
static bool read_acceptance(pn_delivery_t *delivery, Transaction *into) {
  uint64_t state = pn.delivery_remote_state(delivery);
  into->is_in = state == TRANSACTIONAL;
  if (!into->is_in) return state == ACCEPTED;
  pn_data_t *data = read_id(delivery, into);
  return data && next_is(data, TYPES.described) && pn.data_enter(data) && next_is(data, TYPES.ulong) &&
         pn.data_get_ulong(data) == ACCEPTED;
}
