/* Proton's functions that `_runs.c` calls, and where `bind` puts their addresses. Signatures as in Proton 0.40. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct pn_collector_t pn_collector_t;
typedef struct pn_event_t pn_event_t;
typedef struct pn_delivery_t pn_delivery_t;
typedef struct pn_link_t pn_link_t;
typedef struct pn_transport_t pn_transport_t;
typedef struct pn_disposition_t pn_disposition_t;
typedef struct pn_data_t pn_data_t;
typedef struct {
  size_t size;
  const char *start;
} pn_bytes_t; /* a delivery tag, or a binary */

static struct {
  pn_event_t *(*collector_peek)(pn_collector_t *);
  bool (*collector_pop)(pn_collector_t *);
  int (*event_type)(pn_event_t *);
  pn_delivery_t *(*event_delivery)(pn_event_t *);
  pn_link_t *(*delivery_link)(pn_delivery_t *);
  size_t (*delivery_pending)(pn_delivery_t *);
  bool (*delivery_partial)(pn_delivery_t *);
  bool (*delivery_aborted)(pn_delivery_t *);
  bool (*delivery_readable)(pn_delivery_t *);
  bool (*delivery_settled)(pn_delivery_t *);
  uint64_t (*delivery_remote_state)(pn_delivery_t *);
  pn_disposition_t *(*delivery_local)(pn_delivery_t *);
  pn_disposition_t *(*delivery_remote)(pn_delivery_t *);
  pn_data_t *(*disposition_data)(pn_disposition_t *);
  int (*data_copy)(pn_data_t *, pn_data_t *);
  void (*data_rewind)(pn_data_t *);
  bool (*data_next)(pn_data_t *);
  bool (*data_enter)(pn_data_t *);
  int (*data_type)(pn_data_t *);
  pn_bytes_t (*data_get_binary)(pn_data_t *);
  uint64_t (*data_get_ulong)(pn_data_t *);
  void (*delivery_update)(pn_delivery_t *, uint64_t);
  void (*delivery_settle)(pn_delivery_t *);
  void (*delivery_abort)(pn_delivery_t *);
  pn_delivery_t *(*delivery)(pn_link_t *, pn_bytes_t);
  void *(*link_get_context)(pn_link_t *);
  void (*link_set_context)(pn_link_t *, void *);
  pn_delivery_t *(*link_current)(pn_link_t *);
  bool (*link_advance)(pn_link_t *);
  ssize_t (*link_recv)(pn_link_t *, char *, size_t);
  ssize_t (*link_send)(pn_link_t *, const char *, size_t);
  ssize_t (*transport_pending)(pn_transport_t *);
  const char *(*transport_head)(pn_transport_t *);
  void (*transport_pop)(pn_transport_t *, size_t);
} pn;

static const struct {
  const char *name;
  void *at;
} FUNCTIONS[] = {
    {"pn_collector_peek", &pn.collector_peek},
    {"pn_collector_pop", &pn.collector_pop},
    {"pn_event_type", &pn.event_type},
    {"pn_event_delivery", &pn.event_delivery},
    {"pn_delivery_link", &pn.delivery_link},
    {"pn_delivery_pending", &pn.delivery_pending},
    {"pn_delivery_partial", &pn.delivery_partial},
    {"pn_delivery_aborted", &pn.delivery_aborted},
    {"pn_delivery_readable", &pn.delivery_readable},
    {"pn_delivery_settled", &pn.delivery_settled},
    {"pn_delivery_remote_state", &pn.delivery_remote_state},
    {"pn_delivery_local", &pn.delivery_local},
    {"pn_delivery_remote", &pn.delivery_remote},
    {"pn_disposition_data", &pn.disposition_data},
    {"pn_data_copy", &pn.data_copy},
    {"pn_data_rewind", &pn.data_rewind},
    {"pn_data_next", &pn.data_next},
    {"pn_data_enter", &pn.data_enter},
    {"pn_data_type", &pn.data_type},
    {"pn_data_get_binary", &pn.data_get_binary},
    {"pn_data_get_ulong", &pn.data_get_ulong},
    {"pn_delivery_update", &pn.delivery_update},
    {"pn_delivery_settle", &pn.delivery_settle},
    {"pn_delivery_abort", &pn.delivery_abort},
    {"pn_delivery", &pn.delivery},
    {"pn_link_get_context", &pn.link_get_context},
    {"pn_link_set_context", &pn.link_set_context},
    {"pn_link_current", &pn.link_current},
    {"pn_link_advance", &pn.link_advance},
    {"pn_link_recv", &pn.link_recv},
    {"pn_link_send", &pn.link_send},
    {"pn_transport_pending", &pn.transport_pending},
    {"pn_transport_head", &pn.transport_head},
    {"pn_transport_pop", &pn.transport_pop},
};
