/* What an application does with Qpid Proton's C library, one scenario a run: `scenarios NAME PORT [KEY=VALUE...]`.
 *
 *   send  queue=Q count=N   send N messages, each once there is credit for it
 *   idle  queue=Q links=N   senders that send nothing and answer drains, until SIGTERM
 *
 * It prints one line of JSON: what it saw, or {"error": text} with exit code 1. It judges nothing; test_proton_c.py does.
 */
#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/delivery.h>
#include <proton/event.h>
#include <proton/link.h>
#include <proton/proactor.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *queue = "orders";
static int count, links = 1, sent, accepted, drains;
static pn_proactor_t *proactor;

static void fail(const char *what, const char *text) {
  printf("{\"error\": \"%s: %s\"}\n", what, text ? text : "");
  exit(1);
}

static void check(pn_condition_t *condition, const char *what) {
  if (pn_condition_is_set(condition)) fail(what, pn_condition_get_description(condition));
}

static void attach(pn_connection_t *connection) {
  pn_connection_set_container(connection, "interop-c");
  pn_connection_open(connection);
  pn_session_t *session = pn_session(connection);
  pn_session_open(session);
  for (int n = 0; n < links; n++) {
    char name[32];
    snprintf(name, sizeof name, "sender-%d", n);
    pn_link_t *link = pn_sender(session, name);
    pn_terminus_set_address(pn_link_target(link), queue);
    pn_link_open(link);
  }
}

static void send_some(pn_link_t *link) {
  while (sent < count && pn_link_credit(link) > 0) {
    char body[16], message[32] = {0x00, 0x53, 0x77, (char)0xa1}; /* an amqp-value section with a string */
    int size = snprintf(body, sizeof body, "m%d", sent);
    message[4] = (char)size;
    memcpy(message + 5, body, (size_t)size);
    pn_delivery(link, pn_dtag((const char *)&sent, sizeof sent));
    pn_link_send(link, message, (size_t)size + 5);
    pn_link_advance(link);
    sent++;
  }
}

static void on_flow(pn_link_t *link) {
  send_some(link);
  if (pn_link_get_drain(link) && pn_link_credit(link) > 0) {
    pn_link_drained(link);
    drains++;
  }
}

static void on_term(int number) {
  (void)number;
  pn_proactor_interrupt(proactor);
}

/* Whether that was all. */
static bool on_delivery(pn_delivery_t *delivery) {
  if (!pn_delivery_updated(delivery)) return false;
  if (pn_delivery_remote_state(delivery) == PN_ACCEPTED) accepted++;
  if (pn_delivery_settled(delivery)) pn_delivery_settle(delivery);
  return count && accepted == count;
}

/* Whether the scenario has ended. */
static bool on_event(pn_event_t *event) {
  switch (pn_event_type(event)) {
    case PN_CONNECTION_INIT:
      attach(pn_event_connection(event));
      return false;
    case PN_CONNECTION_BOUND:
      pn_sasl_allowed_mechs(pn_sasl(pn_event_transport(event)), "ANONYMOUS");
      return false;
    case PN_LINK_FLOW:
      on_flow(pn_event_link(event));
      return false;
    case PN_DELIVERY:
      return on_delivery(pn_event_delivery(event));
    case PN_PROACTOR_INTERRUPT:
      return true;
    case PN_LINK_REMOTE_CLOSE:
      check(pn_link_remote_condition(pn_event_link(event)), "link");
      return false;
    case PN_CONNECTION_REMOTE_CLOSE:
      check(pn_connection_remote_condition(pn_event_connection(event)), "connection");
      return false;
    case PN_TRANSPORT_CLOSED:
      check(pn_transport_condition(pn_event_transport(event)), "transport");
      fail("transport", "it was closed");
      return true;
    default:
      return false;
  }
}

int main(int argc, char **argv) {
  if (argc < 3) fail("usage", "scenarios NAME PORT [KEY=VALUE...]");
  for (int n = 3; n < argc; n++) {
    char *value = strchr(argv[n], '=');
    if (!value) fail("argument", argv[n]);
    *value++ = '\0';
    if (strcmp(argv[n], "queue") == 0) queue = value;
    if (strcmp(argv[n], "count") == 0) count = atoi(value);
    if (strcmp(argv[n], "links") == 0) links = atoi(value);
  }
  char address[PN_MAX_ADDR];
  pn_proactor_addr(address, sizeof address, "127.0.0.1", argv[2]);
  proactor = pn_proactor();
  signal(SIGTERM, on_term);
  pn_proactor_connect2(proactor, NULL, NULL, address);
  for (bool ended = false; !ended;) {
    pn_event_batch_t *batch = pn_proactor_wait(proactor);
    for (pn_event_t *event; !ended && (event = pn_event_batch_next(batch));) ended = on_event(event);
    pn_proactor_done(proactor, batch);
  }
  pn_proactor_free(proactor);
  printf("{\"sent\": %d, \"accepted\": %d, \"drains\": %d}\n", sent, accepted, drains);
  return 0;
}
