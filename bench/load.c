/* A load client for any AMQP 1.0 broker: senders and receivers, each on a connection of its own, in one thread.
 *
 * It measures and has no opinion: every message is unsettled, every receiver accepts each message, a sender sends as soon
 * as it has credit and returns credit on a drain. One line of JSON at the end. It is C on Proton's
 * connection driver so that it costs far less than the broker; `client_cpu` lets you check that.
 *
 *   load --port N [--address QUEUE] [--senders N] [--idle N] [--receivers N] [--queues N] [--count N] [--size BYTES]
 *        [--durable] [--window N] [--unaccepted N] [--pace N] [--rate N] [--seconds N] [--quiet MS] [--exact] [--topic]
 *        [--transaction N] [--capability NAME] [--attended] [--user NAME --password WORD]
 *
 * --idle: number of further senders that attach first and never send. --queues N: links are spread over QUEUE.0 to QUEUE.N-1.
 * --count messages are sent in all; it ends when they were received and accepted, after --seconds, or when nothing has
 * moved for --quiet ms. A receiver keeps --window credit; with --pace all receivers together take only
 * messages per second. A sender has at most --unaccepted messages under way, however much credit it has. With --rate all
 * senders together send that many per second, each message carries the time when
 * it was due, and the latency is counted from then, so that a broker that holds up the senders does not look fast.
 * --exact: each message carries the number of this run and its own, and is counted as received once; those of other runs
 * are accepted, but not counted. --topic, with --exact: each receiver is to receive each message.
 * --transaction N: each sender sends in local transactions of N messages, which are accepted when the broker has
 * committed them; it begins the next one then. Receivers are not in a transaction.
 * --attended: it says "attached" before it begins, and waits for a line; and again before it closes its connections.
 */
#include <proton/delivery.h>
#include <proton/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "coordinator.h"

typedef enum { IDLE, RECEIVER, SENDER } role_t;

typedef struct {
  wire_t wire; /* the first member: an event's wire is its client */
  pn_link_t *link;
  role_t role;
  bool attached;
  int number; /* among those of its role */
  long quota, sent, accepted, answered; /* answered: accepted or refused */
  double first_accepted;                /* seconds, 0 if none */
  char *buffer;                         /* of the message that is being received */
  size_t have, capacity;                /* bytes of it that came, and that fit */
  coordinator_t coordinator;
  pn_delivery_t **enlisted; /* messages of the open transaction */
  long *numbers;            /* of these messages */
  long in_transaction, refused_in_it;
} client_t;

/* What the body of a message begins with. */
typedef struct {
  double due;
  uint64_t run, number;
} mark_t;

static long count = 1000, window = 1000, pace, rate, queues, unaccepted, transaction;
static bool exact, topic, attended;
static int senders = 1, idle, receivers = 1;
static double seconds;
static long received, accepted, sent, refused, attached, waits; /* waits: messages due that had no credit */
/* Received once more; of another run; settled by the broker when it sent it; before the commit was requested. */
static long repeated, foreign, presettled, early;
static double start, first_send, moved, last_accepted;
static float *latencies; /* seconds, one for each message received */
static uint64_t run;
static char *seen;      /* with --exact: whether it was received, by receiver (of a topic) and message */
static char *committed; /* with --exact, by message: whether the commit of its transaction was requested */
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
  if (c->role == SENDER && transaction) coordinator_attach(&c->coordinator, &c->wire, "transactions");
  c->link = c->role == RECEIVER ? wire_receiver(&c->wire, name, queue) : wire_sender(&c->wire, name, queue);
  if (c->role == RECEIVER && !pace) pn_link_flow(c->link, (int)window);
  wire_flush(&c->wire);
}

static void send_one(client_t *c, double due) {
  mark_t mark = {.due = due, .run = run, .number = (uint64_t)sent};
  uint64_t tag = (uint64_t)++c->sent;
  if (!first_send) first_send = now();
  if (exact || rate) memcpy((char *)message.start + message.size - size, &mark, exact ? sizeof mark : sizeof due);
  pn_delivery_t *d = pn_delivery(c->link, pn_dtag((const char *)&tag, sizeof tag));
  if (transaction) {
    coordinator_enlist(&c->coordinator, d);
    c->enlisted[c->in_transaction] = d;
    c->numbers[c->in_transaction++] = sent;
  }
  pn_link_send(c->link, message.start, message.size);
  pn_link_advance(c->link);
  sent++;
}

static bool may_send(client_t *c) {
  if (unaccepted && c->sent - c->answered >= unaccepted) return false;
  return c->sent < c->quota && pn_link_credit(c->link) > 0;
}

/* Do what is next: declare, send, or commit. */
static void go_on_with_transaction(client_t *c) {
  if (c->coordinator.waiting) return;
  if (!c->coordinator.id_size) {
    if (c->sent < c->quota) coordinator_declare(&c->coordinator);
    return;
  }
  while (c->in_transaction < transaction && may_send(c)) send_one(c, 0);
  if (c->in_transaction < transaction && c->sent < c->quota) return;
  if (coordinator_commit(&c->coordinator) && committed)
    for (long i = 0; i < c->in_transaction; i++) committed[c->numbers[i]] = 1;
}

static void send_all(client_t *c) {
  if (c->role == SENDER && go && !rate) {
    if (transaction)
      go_on_with_transaction(c);
    else
      while (may_send(c)) send_one(c, 0);
  }
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
    send_one(c, due);
    wire_flush(&c->wire);
  }
}

/* Whether a message is of this run and was not received before. `body`: NULL if it is too short. */
static bool is_first(client_t *c, const char *body) {
  mark_t mark = {0};
  if (body) memcpy(&mark, body, sizeof mark);
  if (mark.run != run || mark.number >= (uint64_t)count) {
    foreign++;
    return false;
  }
  if (committed && !committed[mark.number]) early++;
  char *at = seen + mark.number + (topic ? c->number * count : 0);
  if (*at) repeated++;
  return !*at && (*at = 1);
}

static void take_message(client_t *c, pn_delivery_t *d) {
  bool partial = pn_delivery_partial(d);
  size_t needed = c->have + pn_delivery_pending(d) + 1;
  if (needed > c->capacity && !(c->buffer = realloc(c->buffer, c->capacity = needed + 4096))) die("no memory");
  ssize_t n;
  while ((n = pn_link_recv(c->link, c->buffer + c->have, c->capacity - c->have)) > 0) c->have += (size_t)n;
  if (partial) return;
  const char *body = c->have >= size ? c->buffer + c->have - size : NULL;
  c->have = 0;
  bool counts = !exact || is_first(c, body);
  if (rate && body && counts && received < count) {
    double due;
    memcpy(&due, body, sizeof due);
    latencies[received] = (float)(now() - due);
  }
  presettled += pn_delivery_settled(d);
  pn_delivery_update(d, PN_ACCEPTED);
  pn_delivery_settle(d);
  received += counts;
  int credit = pn_link_credit(c->link);
  if (!pace && credit <= window / 2) pn_link_flow(c->link, (int)window - credit);
}

static void count_accepted(client_t *c, long messages) {
  if (messages && !c->accepted) c->first_accepted = now();
  accepted += messages;
  c->accepted += messages;
}

static void on_answer(client_t *c, pn_delivery_t *d) {
  answer_t answer = coordinator_answer(&c->coordinator, d);
  if (answer == COMMITTED || answer == ROLLED_BACK) {
    long lost = answer == COMMITTED ? c->refused_in_it : c->in_transaction;
    count_accepted(c, c->in_transaction - lost);
    refused += lost;
    c->answered += c->in_transaction;
    for (long i = 0; i < c->in_transaction; i++) pn_delivery_settle(c->enlisted[i]);
    c->in_transaction = c->refused_in_it = 0;
  }
  send_all(c);
}

/* The outcome of a message that was sent. In a transaction it is provisional, and the message settled at its end. */
static void on_outcome(client_t *c, pn_delivery_t *d) {
  uint64_t state = coordinator_outcome(d);
  pn_delivery_clear(d); /* two dispositions of it may have come, each with its event: it counts once */
  if (transaction) {
    if (state && state != PN_ACCEPTED) c->refused_in_it++;
    return;
  }
  if (state == PN_ACCEPTED)
    count_accepted(c, 1);
  else if (state)
    refused++;
  if (state || pn_delivery_settled(d)) pn_delivery_settle(d), c->answered++;
  if (unaccepted) send_all(c);
}

static void on_delivery(client_t *c, pn_delivery_t *d) {
  if (c->role == RECEIVER) {
    if (pn_delivery_readable(d))
      take_message(c, d);
    else if (pn_delivery_settled(d))
      pn_delivery_settle(d);
  } else if (pn_delivery_updated(d)) {
    if (transaction && pn_delivery_link(d) == c->coordinator.link)
      on_answer(c, d);
    else
      on_outcome(c, d);
  }
}

void on_event(wire_t *wire, pn_event_t *event) {
  client_t *c = (client_t *)wire;
  switch (pn_event_type(event)) {
    case PN_LINK_REMOTE_OPEN:
      if (!c->attached && pn_event_link(event) == c->link) c->attached = true, attached++;
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
  long to_come = (count - refused) * (topic ? receivers : 1);
  return accepted + refused >= count && (!receivers || received >= to_come);
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

static bool flag(const char *name) {
  if (!strcmp(name, "--exact")) exact = true;
  else if (!strcmp(name, "--topic")) topic = true;
  else if (!strcmp(name, "--attended")) attended = true;
  else return false;
  return true;
}

static void options(int argc, char **argv) {
  const char *name, *value;
  while ((value = next_option(argc, argv, &name))) {
    if (common_option(name, value)) continue;
    if (flag(name)) continue;
    long n = number(name, value);
    if (!strcmp(name, "--senders")) senders = (int)n;
    else if (!strcmp(name, "--idle")) idle = (int)n;
    else if (!strcmp(name, "--receivers")) receivers = (int)n;
    else if (!strcmp(name, "--queues")) queues = n;
    else if (!strcmp(name, "--unaccepted")) unaccepted = n;
    else if (!strcmp(name, "--transaction")) transaction = n;
    else if (!strcmp(name, "--count")) count = n;
    else if (!strcmp(name, "--window")) window = n;
    else if (!strcmp(name, "--pace")) pace = n;
    else if (!strcmp(name, "--rate")) rate = n;
    else if (!strcmp(name, "--seconds")) seconds = (double)n;
    else fprintf(stderr, "load: there is no option %s\n", name), exit(2);
  }
  if (rate && size < sizeof(double)) fprintf(stderr, "load: --rate needs a --size of 8 at least\n"), exit(2);
  if (exact && size < sizeof(mark_t)) fprintf(stderr, "load: --exact needs a --size of 24 at least\n"), exit(2);
  if (topic && !exact) fprintf(stderr, "load: --topic needs --exact\n"), exit(2);
  if (transaction && rate) fprintf(stderr, "load: --rate and --transaction exclude each other\n"), exit(2);
}

int main(int argc, char **argv) {
  options(argc, argv);
  int total = senders + idle + receivers;
  make_message();
  run = (uint64_t)getpid() << 40 ^ (uint64_t)(now() * 1e9);
  if (exact && !(seen = calloc((size_t)count * (topic ? (size_t)receivers : 1), 1))) die("no memory");
  if (exact && transaction && !(committed = calloc((size_t)count, 1))) die("no memory");
  if (rate) latencies = calloc((size_t)count, sizeof *latencies);
  client_t *clients = calloc((size_t)total, sizeof *clients);
  for (int i = 0; i < total; i++) {
    client_t *c = &clients[i];
    int s = i - idle - receivers;
    c->role = i < idle ? IDLE : s < 0 ? RECEIVER : SENDER;
    if (c->role == SENDER) c->quota = count / senders + (s < count % senders);
    if (transaction) {
      c->enlisted = calloc((size_t)transaction, sizeof *c->enlisted);
      c->numbers = calloc((size_t)transaction, sizeof *c->numbers);
    }
    c->number = c->role == SENDER ? s : c->role == RECEIVER ? i - idle : i;
    attach(c, i, c->number);
    turn(0);
  }
  moved = now();
  while (attached < total) {
    turn(0.1);
    if (now() - moved > 60) die("not all links could attach within 60 s");
  }
  if (attended) {
    printf("{\"step\": \"attached\"}\n");
    fflush(stdout);
    await_line();
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
  printf("{\"step\": \"done\", \"sent\": %ld, \"accepted\": %ld, \"refused\": %ld, \"received\": %ld, \"seconds\": %.6f, ", sent, accepted,
         refused, received, lasted);
  printf("\"repeated\": %ld, \"foreign\": %ld, \"presettled\": %ld, \"early\": %ld, ", repeated, foreign,
         presettled, early);
  printf("\"client_cpu\": %.6f, \"turn_seconds\": %.6f, \"without_turn\": %ld, ", used, turn_at - start, without);
  print_latencies();
  printf("\"last_accepted\": %.6f, \"accepted_by\": [", last_accepted);
  for (int i = 0; i < senders; i++) printf(i ? ", %ld" : "%ld", first_sender[i].accepted);
  printf("]}\n");
  fflush(stdout);
  if (attended) await_line();
  close_wires();
  return 0;
}
