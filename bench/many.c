/* Many connections and many queues, in steps, so that the broker's memory can be looked at between them.
 *
 *   many --port N [--address QUEUE] [--connections N] [--queues N] [--each N] [--size BYTES] [--durable] …
 *
 * 1. opened: --connections are open, each with a session and no link
 * 2. created: a sender was attached to each of QUEUE.0 to QUEUE.N-1 and detached again
 * 3. filled: --each messages were sent to each queue, and all accepted
 * 4. drained: all were received, and accepted
 *
 * After each step one line of JSON; it goes on when it reads a line. The end of its input ends it.
 */
#include <proton/delivery.h>
#include <proton/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

static int connections = 10;
static long queues, each = 10;
static long attached, detached, accepted, received;
static wire_t *wires;
static pn_link_t **links; /* of this step, one for each queue */
static char scratch[1 << 16];
enum { CREATE, FILL, DRAIN } step;

static void on_link_open(pn_link_t *link) {
  attached++;
  if (step == CREATE) pn_link_close(link);
}

/* A link sends what it still has to, as it has credit; its context counts. */
static void send_some(pn_link_t *link) {
  long done = (long)(intptr_t)pn_link_get_context(link);
  while (step == FILL && done < each && pn_link_credit(link) > 0) {
    uint64_t tag = (uint64_t)++done;
    pn_delivery(link, pn_dtag((const char *)&tag, sizeof tag));
    pn_link_send(link, message.start, message.size);
    pn_link_advance(link);
  }
  pn_link_set_context(link, (void *)(intptr_t)done);
  if (pn_link_get_drain(link)) pn_link_drained(link);
}

static void on_delivery(pn_delivery_t *d) {
  pn_link_t *link = pn_delivery_link(d);
  if (pn_link_is_receiver(link)) {
    if (!pn_delivery_readable(d)) return;
    bool partial = pn_delivery_partial(d);
    while (pn_link_recv(link, scratch, sizeof scratch) > 0) {
    }
    if (partial) return;
    pn_delivery_update(d, PN_ACCEPTED);
    pn_delivery_settle(d);
    received++;
  } else if (pn_delivery_updated(d)) {
    if (pn_delivery_remote_state(d) != PN_ACCEPTED) die("a message was not accepted");
    pn_delivery_clear(d); /* a second disposition of it may have come, with an event of its own */
    accepted++;
    pn_delivery_settle(d);
  }
}

void on_event(wire_t *wire, pn_event_t *event) {
  (void)wire;
  switch (pn_event_type(event)) {
    case PN_LINK_REMOTE_OPEN:
      on_link_open(pn_event_link(event));
      break;
    case PN_LINK_REMOTE_CLOSE:
    case PN_LINK_REMOTE_DETACH: /* RabbitMQ answers a close so */
      detached++;
      pn_link_free(pn_event_link(event));
      break;
    case PN_LINK_FLOW:
      if (pn_link_is_sender(pn_event_link(event))) send_some(pn_event_link(event));
      break;
    case PN_DELIVERY:
      on_delivery(pn_event_delivery(event));
      break;
    default:
      break;
  }
}

static void until(long *counter, long goal, const char *what) {
  double moved = now();
  for (long seen = *counter; *counter < goal;) {
    wire_turn(0.1);
    if (*counter != seen) seen = *counter, moved = now();
    if (now() - moved > wait_ms / 1e3) {
      fprintf(stderr, "load: %ld of %ld %s, then nothing for %d ms\n", seen, goal, what, wait_ms);
      exit(1);
    }
  }
}

static void flush_all(void) {
  for (int i = 0; i < connections; i++) wire_flush(&wires[i]);
}

static void attach_all(bool receive) {
  char name[64], queue[256];
  attached = detached = 0;
  for (long i = 0; i < queues; i++) {
    wire_t *w = &wires[i % connections];
    snprintf(name, sizeof name, "many-%d-%ld", step, i);
    snprintf(queue, sizeof queue, "%s.%ld", address, i);
    links[i] = receive ? wire_receiver(w, name, queue) : wire_sender(w, name, queue);
    if (receive) pn_link_flow(links[i], (int)each);
    if (i % 1000 == 999) flush_all(), wire_turn(0);
  }
  flush_all();
  until(&attached, queues, "links were attached");
}

static void detach_all(void) {
  if (step != CREATE)
    for (long i = 0; i < queues; i++) pn_link_close(links[i]);
  flush_all();
  until(&detached, queues, "links were detached");
}

static void report(const char *done, double seconds) {
  printf("{\"step\": \"%s\", \"seconds\": %.6f}\n", done, seconds);
  fflush(stdout);
  await_line();
}

static void options(int argc, char **argv) {
  const char *name, *value;
  while ((value = next_option(argc, argv, &name))) {
    if (common_option(name, value)) continue;
    if (!strcmp(name, "--connections")) connections = (int)number(name, value);
    else if (!strcmp(name, "--queues")) queues = number(name, value);
    else if (!strcmp(name, "--each")) each = number(name, value);
    else fprintf(stderr, "load: there is no option %s\n", name), exit(2);
  }
}

int main(int argc, char **argv) {
  options(argc, argv);
  make_message();
  wires = calloc((size_t)connections, sizeof *wires);
  links = calloc((size_t)queues, sizeof *links);
  double start = now();
  for (int i = 0; i < connections; i++) {
    char name[64];
    snprintf(name, sizeof name, "many-%d", i);
    wire_open(&wires[i], name);
    while (!(pn_session_state(wires[i].session) & PN_REMOTE_ACTIVE)) {
      wire_turn(0.1);
      if (now() - start > 300) die("not all clients could connect within 300 s");
    }
  }
  report("opened", now() - start);
  if (!queues) {
    close_wires();
    return 0;
  }
  start = now();
  attach_all(false);
  detach_all();
  report("created", now() - start);
  step = FILL, start = now();
  attach_all(false);
  until(&accepted, queues * each, "messages were accepted");
  detach_all();
  report("filled", now() - start);
  step = DRAIN, start = now();
  attach_all(true);
  until(&received, queues * each, "messages were received");
  double lasted = now() - start;
  detach_all();
  report("drained", lasted);
  close_wires();
  return 0;
}
