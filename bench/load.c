/* A load client for any AMQP 1.0 broker: senders and receivers, each on a connection of its own, in one thread.
 *
 * It measures and has no opinion: every message is unsettled, every receiver accepts each message, a sender sends as soon
 * as it has credit and returns credit on a drain. One line of JSON at the end. It is C on Proton's
 * connection driver so that it costs far less than the broker; `client_cpu` lets you check that.
 *
 *   load --port N [--address QUEUE] [--senders N] [--idle N] [--receivers N] [--queues N] [--count N] [--size BYTES]
 *        [--durable] [--window N] [--pace N] [--rate N] [--seconds N] [--quiet MS] [--user NAME --password WORD]
 *
* --idle: number of further senders that attach first and never send. --queues N: links are spread over QUEUE.0 to QUEUE.N-1.
 * --count messages are sent in all; it ends when they were received and accepted, after --seconds, or when nothing has
 * moved for --quiet ms. A receiver keeps --window credit; with --pace all receivers together take only
 * messages per second. With --rate all senders together send that many per second, each message carries the time when
 * it was due, and the latency is counted from then, so that a broker that holds up the senders does not look fast.
 */
#include <proton/delivery.h>
#include <proton/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "wire.h"

typedef enum { IDLE, RECEIVER, SENDER } role_t;

typedef struct {
  wire_t wire; /* the first member: an event's wire is its client */
  pn_link_t *link;
  role_t role;
  bool attached;
  long quota, sent, accepted;
  double first_accepted; /* seconds, 0 if none */
} client_t;

static long count = 1000, window = 1000, pace, rate, queues;
static int senders = 1, idle, receivers = 1;
static double seconds;
static long received, accepted, sent, refused, attached, waits; /* waits: messages due that had no credit */
static double start, first_send, moved, last_accepted;
static float *latencies; /* seconds, one for each message received */
static char *scratch;
static const size_t scratch_size = 1 << 20;
static bool go; /* all links are attached */

static void attach(client_t *c, int at, int of_role) {
  char name[64], queue[256];
  const char *roles[] = {"idle", "receiver", "sender"};
  snprintf(name, sizeof name, "load-%s-%d", roles[c->role], at);
  if (queues)
    snprintf(queue, sizeof queue, "%s.%ld", address, of_role % queues);
  else
    snprintf(queue, sizeof queue, "%s", address);
  wire_open(&c->wire, name);
  c->link = c->role == RECEIVER ? wire_receiver(&c->wire, name, queue) : wire_sender(&c->wire, name, queue);
  if (c->role == RECEIVER && !pace) pn_link_flow(c->link, (int)window);
  wire_flush(&c->wire);
}

static void send_one(client_t *c) {
  uint64_t tag = (uint64_t)++c->sent;
  if (!first_send) first_send = now();
  pn_delivery(c->link, pn_dtag((const char *)&tag, sizeof tag));
  pn_link_send(c->link, message.start, message.size);
  pn_link_advance(c->link);
  sent++;
}

static void send_all(client_t *c) {
  if (c->role == SENDER && go && !rate)
    while (c->sent < c->quota && pn_link_credit(c->link) > 0) send_one(c);
  if (pn_link_get_drain(c->link)) pn_link_drained(c->link);
}

/* Send what has become due by now, in turns. */
static void keep_rate(client_t *all_senders) {
  static int next;
  double t = now();
  while (sent < count && start + (double)sent / rate <= t) {
    client_t *c = NULL;
    for (int i = 0; i < senders && !c; i++) {
      client_t *candidate = &all_senders[next++ % senders];
      if (pn_link_credit(candidate->link) > 0) c = candidate;
    }
    if (!c) {
      waits++;
      return;
    }
    double due = start + (double)sent / rate;
    memcpy((char *)message.start + message.size - size, &due, sizeof due);
    send_one(c);
    wire_flush(&c->wire);
  }
}

static void take_message(client_t *c, pn_delivery_t *d) {
  bool partial = pn_delivery_partial(d);
  ssize_t n, last = 0;
  while ((n = pn_link_recv(c->link, scratch, scratch_size)) > 0) last = n;
  if (partial) return;
  if (rate && last >= (ssize_t)size && received < count) {
    double due;
    memcpy(&due, scratch + last - size, sizeof due);
    latencies[received] = (float)(now() - due);
  }
  pn_delivery_update(d, PN_ACCEPTED);
  pn_delivery_settle(d);
  received++;
  int credit = pn_link_credit(c->link);
  if (!pace && credit <= window / 2) pn_link_flow(c->link, (int)window - credit);
}

static void on_delivery(client_t *c, pn_delivery_t *d) {
  if (c->role == RECEIVER) {
    if (pn_delivery_readable(d))
      take_message(c, d);
    else if (pn_delivery_settled(d))
      pn_delivery_settle(d);
  } else if (pn_delivery_updated(d)) {
    uint64_t state = pn_delivery_remote_state(d);
    if (state == PN_ACCEPTED) {
      accepted++;
      if (!c->accepted++) c->first_accepted = now();
    } else if (state) {
      refused++;
    }
    if (state || pn_delivery_settled(d)) pn_delivery_settle(d);
  }
}

void on_event(wire_t *wire, pn_event_t *event) {
  client_t *c = (client_t *)wire;
  switch (pn_event_type(event)) {
    case PN_LINK_REMOTE_OPEN:
      if (!c->attached) c->attached = true, attached++;
      break;
    case PN_LINK_FLOW:
      if (c->role != RECEIVER) send_all(c);
      break;
    case PN_DELIVERY:
      on_delivery(c, pn_event_delivery(event));
      break;
    default:
      break;
  }
}

static void turn(double wait) {
  long before = sent + accepted + received, accepted_before = accepted;
  wire_turn(wait);
  if (sent + accepted + received != before) moved = now();
  if (accepted != accepted_before) last_accepted = moved;
}

/* Give the receivers the credit that has become due by now. */
static void keep_pace(client_t *all_receivers) {
  static long given;
  long due = (long)((now() - start) * pace) - given;
  if (due < receivers) return;
  for (int i = 0; i < receivers; i++) {
    pn_link_flow(all_receivers[i].link, (int)(due / receivers));
    given += due / receivers;
    wire_flush(&all_receivers[i].wire);
  }
}

static bool done(void) {
  return accepted + refused >= count && (!receivers || received >= count - refused);
}

static int by_size(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void print_latencies(void) {
  long n = received < count ? received : count;
  if (!rate || !n) return;
  qsort(latencies, (size_t)n, sizeof *latencies, by_size);
  printf("\"p50\": %.6f, \"p99\": %.6f, \"longest\": %.6f, \"waits\": %ld, ", latencies[n / 2], latencies[n * 99 / 100],
         latencies[n - 1], waits);
}

static double cpu(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void options(int argc, char **argv) {
  const char *name, *value;
  while ((value = next_option(argc, argv, &name))) {
    if (common_option(name, value)) continue;
    long n = number(name, value);
    if (!strcmp(name, "--senders")) senders = (int)n;
    else if (!strcmp(name, "--idle")) idle = (int)n;
    else if (!strcmp(name, "--receivers")) receivers = (int)n;
    else if (!strcmp(name, "--queues")) queues = n;
    else if (!strcmp(name, "--count")) count = n;
    else if (!strcmp(name, "--window")) window = n;
    else if (!strcmp(name, "--pace")) pace = n;
    else if (!strcmp(name, "--rate")) rate = n;
    else if (!strcmp(name, "--seconds")) seconds = (double)n;
    else fprintf(stderr, "load: there is no option %s\n", name), exit(2);
  }
  if (rate && size < sizeof(double)) fprintf(stderr, "load: --rate needs a --size of 8 at least\n"), exit(2);
}

int main(int argc, char **argv) {
  options(argc, argv);
  int total = senders + idle + receivers;
  make_message();
  scratch = malloc(scratch_size);
  if (rate) latencies = calloc((size_t)count, sizeof *latencies);
  client_t *clients = calloc((size_t)total, sizeof *clients);
  for (int i = 0; i < total; i++) {
    client_t *c = &clients[i];
    int s = i - idle - receivers;
    c->role = i < idle ? IDLE : s < 0 ? RECEIVER : SENDER;
    if (c->role == SENDER) c->quota = count / senders + (s < count % senders);
    attach(c, i, c->role == SENDER ? s : c->role == RECEIVER ? i - idle : i);
    turn(0);
  }
  moved = now();
  while (attached < total) {
    turn(0.1);
    if (now() - moved > 60) die("not all links could attach within 60 s");
  }
  double used = cpu();
  bool stalled = false;
  start = moved = now();
  go = true;
  client_t *first_receiver = &clients[idle], *first_sender = &clients[idle + receivers];
  for (int i = 0; i < senders; i++) send_all(&first_sender[i]), wire_flush(&first_sender[i].wire);
  while (!done()) {
    turn(rate ? 0.0002 : pace ? 0.001 : 0.1);
    if (pace) keep_pace(first_receiver);
    if (rate) keep_rate(first_sender);
    double t = now();
    if (seconds && t - start >= seconds) break;
    if ((stalled = t - moved > wait_ms / 1e3)) break;
  }
  double lasted = (stalled ? moved : now()) - (first_send ? first_send : start);
  used = cpu() - used;
  double turn_at = start;
  long without = 0;
  for (int i = 0; i < senders; i++) {
    if (!first_sender[i].accepted)
      without++;
    else if (first_sender[i].first_accepted > turn_at)
      turn_at = first_sender[i].first_accepted;
  }
  printf("{\"sent\": %ld, \"accepted\": %ld, \"refused\": %ld, \"received\": %ld, \"seconds\": %.6f, ", sent, accepted,
         refused, received, lasted);
  printf("\"client_cpu\": %.6f, \"turn_seconds\": %.6f, \"without_turn\": %ld, ", used, turn_at - start, without);
  print_latencies();
  printf("\"last_accepted\": %.6f, \"accepted_by\": [", last_accepted);
  for (int i = 0; i < senders; i++) printf(i ? ", %ld" : "%ld", first_sender[i].accepted);
  printf("]}\n");
  fflush(stdout);
  close_wires();
  return 0;
}
