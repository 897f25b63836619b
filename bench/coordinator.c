#include "coordinator.h"

#include <proton/codec.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/terminus.h>
#include <string.h>

enum { DECLARED_STATE = 0x33, TRANSACTIONAL_STATE = 0x34 };

void coordinator_attach(coordinator_t *c, wire_t *wire, const char *name) {
  static const char local[] = "amqp:local-transactions";
  c->link = pn_sender(wire->session, name);
  pn_terminus_set_type(pn_link_target(c->link), PN_COORDINATOR);
  pn_data_put_symbol(pn_terminus_capabilities(pn_link_target(c->link)), pn_bytes(sizeof local - 1, local));
  pn_link_open(c->link);
}

static bool request(coordinator_t *c, const char *body, size_t body_size) {
  static uint64_t tag;
  if (c->waiting || pn_link_credit(c->link) <= 0) return false;
  tag++;
  pn_delivery(c->link, pn_dtag((const char *)&tag, sizeof tag));
  pn_link_send(c->link, body, body_size);
  pn_link_advance(c->link);
  return c->waiting = true;
}

bool coordinator_declare(coordinator_t *c) {
  static const char declare[] = {0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0x45}; /* a value: declare, an empty list */
  return request(c, declare, sizeof declare);
}

bool coordinator_commit(coordinator_t *c) {
  char discharge[16 + sizeof c->id] = {0x00, 0x53, 0x77, 0x00, 0x53, 0x32, (char)0xc0}, *at = discharge + 7;
  *at++ = (char)(c->id_size + 4); /* of the list: its count, the binary's code and size, the boolean */
  *at++ = 2;
  *at++ = (char)0xa0;
  *at++ = (char)c->id_size;
  memcpy(at, c->id, c->id_size);
  at += c->id_size;
  *at++ = 0x42; /* fail: false */
  return request(c, discharge, (size_t)(at - discharge));
}

/* Stand before the first element of the list that a state consists of; return whether it is one. */
static bool enter(pn_data_t *data) {
  pn_data_rewind(data);
  return pn_data_next(data) && pn_data_type(data) == PN_LIST && pn_data_enter(data);
}

answer_t coordinator_answer(coordinator_t *c, pn_delivery_t *d) {
  uint64_t state = pn_delivery_remote_state(d);
  if (!state) return REQUEST_PENDING;
  c->waiting = false;
  if (state == DECLARED_STATE) {
    pn_data_t *data = pn_disposition_data(pn_delivery_remote(d));
    pn_bytes_t id = {0};
    if (enter(data) && pn_data_next(data)) id = pn_data_get_binary(data);
    if (!id.size || id.size > sizeof c->id) die("a transaction was declared without a usable id");
    memcpy(c->id, id.start, c->id_size = id.size);
    pn_delivery_settle(d);
    return DECLARED;
  }
  bool was_open = c->id_size > 0;
  c->id_size = 0;
  pn_delivery_settle(d);
  if (!was_open) die("a transaction could not be declared");
  return state == PN_ACCEPTED ? COMMITTED : ROLLED_BACK;
}

void coordinator_enlist(coordinator_t *c, pn_delivery_t *d) {
  pn_data_t *data = pn_disposition_data(pn_delivery_local(d));
  pn_data_put_list(data);
  pn_data_enter(data);
  pn_data_put_binary(data, pn_bytes(c->id_size, c->id));
  pn_data_exit(data);
  pn_delivery_update(d, TRANSACTIONAL_STATE);
}

uint64_t coordinator_outcome(pn_delivery_t *d) {
  uint64_t state = pn_delivery_remote_state(d), outcome = 0;
  if (state != TRANSACTIONAL_STATE) return state;
  pn_data_t *data = pn_disposition_data(pn_delivery_remote(d));
  if (enter(data) && pn_data_next(data) && pn_data_next(data) && pn_data_is_described(data)) {
    pn_data_enter(data);
    if (pn_data_next(data) && pn_data_type(data) == PN_ULONG) outcome = pn_data_get_ulong(data);
  }
  return outcome;
}
