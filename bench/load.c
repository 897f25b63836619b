/* A load client for any AMQP 1.0 broker: senders and receivers, each on a connection of its own, in one thread.
 *
 * It measures and has no opinion: every message is unsettled and not durable, every receiver accepts each message, a
 * sender sends as soon as it has credit and gives credit back when it is asked to (drain). One line of JSON at the end.
 * It is C on Proton's connection driver so that it costs far less than the broker; `client_cpu` lets you check that.
 *
 *   load PORT ADDRESS SENDERS IDLE RECEIVERS COUNT SIZE WINDOW PACE QUIET_MS
 *
 * IDLE more senders attach before the SENDERS and never send. COUNT messages of SIZE bytes in all. A receiver keeps
 * WINDOW credit; with a PACE above 0 all receivers together take only so many messages a second. It ends when COUNT were received (without receivers: accepted), or when nothing has moved for QUIET_MS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/event.h>
#include <proton/link.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef enum { IDLE, RECEIVER, SENDER } role_t;

typedef struct {
  pn_connection_driver_t driver;
  pn_link_t *link;
  role_t role;
  int fd;
  bool want_write, ended, attached;
  long quota, sent, accepted, refused;
  double first_accepted; /* seconds, 0 if none */
} client_t;

static const char *address;
static long count, window, pace, received, accepted, sent, refused, attached;
static double first_send, last_receive, moved;
static char *message, *scratch;
static size_t message_size, scratch_size = 1 << 20;
static int poll_fd;
static bool go; /* everybody has attached */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void die(const char *what) {
  fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* An AMQP message that is one data section of `size` bytes. */
static void make_message(uint32_t size) {
  char *at = message = malloc(size + 16);
  *at++ = 0x00, *at++ = 0x53, *at++ = 0x75;
  if (size < 256) {
    *at++ = (char)0xa0, *at++ = (char)size;
  } else {
    uint32_t order = htonl(size);
    *at++ = (char)0xb0;
    memcpy(at, &order, 4);
    at += 4;
  }
  memset(at, 'x', size);
  message_size = (size_t)(at - message) + size;
}

static void attach(client_t *c, int number) {
  char name[64];
  pn_connection_t *connection = c->driver.connection;
  const char *roles[] = {"idle", "receiver", "sender"};
  snprintf(name, sizeof name, "load-%s-%d", roles[c->role], number);
  pn_connection_set_container(connection, name);
  pn_connection_set_hostname(connection, "default");
  pn_sasl_allowed_mechs(pn_sasl(c->driver.transport), "ANONYMOUS");
  pn_transport_set_max_frame(c->driver.transport, 65536);
  pn_connection_open(connection);
  pn_session_t *session = pn_session(connection);
  pn_session_open(session);
  if (c->role == RECEIVER) {
    c->link = pn_receiver(session, name);
    pn_terminus_set_address(pn_link_source(c->link), address);
  } else {
    c->link = pn_sender(session, name);
    pn_terminus_set_address(pn_link_target(c->link), address);
  }
  pn_link_open(c->link);
  if (c->role == RECEIVER && !pace) pn_link_flow(c->link, (int)window);
}

static void send_all(client_t *c) {
  pn_link_t *link = c->link;
  if (c->role == SENDER && go) {
    if (!first_send && pn_link_credit(link) > 0 && c->sent < c->quota) first_send = now();
    while (c->sent < c->quota && pn_link_credit(link) > 0) {
      uint64_t tag = (uint64_t)++c->sent;
      pn_delivery(link, pn_dtag((const char *)&tag, sizeof tag));
      pn_link_send(link, message, message_size);
      pn_link_advance(link);
      sent++;
    }
  }
  if (pn_link_get_drain(link)) pn_link_drained(link);
}

static void on_delivery(client_t *c, pn_delivery_t *d) {
  pn_link_t *link = pn_delivery_link(d);
  if (pn_link_is_receiver(link)) {
    if (!pn_delivery_readable(d)) {
      if (pn_delivery_settled(d)) pn_delivery_settle(d);
      return;
    }
    bool partial = pn_delivery_partial(d);
    while (pn_link_recv(link, scratch, scratch_size) > 0) {
    }
    if (partial) return;
    pn_delivery_update(d, PN_ACCEPTED);
    pn_delivery_settle(d);
    received++;
    int credit = pn_link_credit(link);
    if (!pace && credit <= window / 2) pn_link_flow(link, (int)window - credit);
  } else if (pn_delivery_updated(d)) {
    uint64_t state = pn_delivery_remote_state(d);
    if (state == PN_ACCEPTED) {
      accepted++;
      if (!c->accepted++) c->first_accepted = now();
    } else if (state) {
      refused++, c->refused++;
    }
    if (state || pn_delivery_settled(d)) pn_delivery_settle(d);
  }
}

static void end(client_t *c) {
  if (c->ended) return;
  c->ended = true;
  epoll_ctl(poll_fd, EPOLL_CTL_DEL, c->fd, NULL);
  close(c->fd);
}

static void complain(const char *what, pn_condition_t *condition) {
  if (pn_condition_is_set(condition)) {
    const char *description = pn_condition_get_description(condition);
    fprintf(stderr, "load: %s: %s: %s\n", what, pn_condition_get_name(condition), description ? description : "");
  } else {
    fprintf(stderr, "load: %s was closed by the broker\n", what);
  }
  exit(1);
}

static void events(client_t *c) {
  pn_event_t *e;
  while ((e = pn_connection_driver_next_event(&c->driver))) {
    switch (pn_event_type(e)) {
      case PN_LINK_REMOTE_OPEN:
        if (!c->attached) c->attached = true, attached++;
        break;
      case PN_LINK_FLOW:
        if (pn_link_is_sender(c->link)) send_all(c);
        break;
      case PN_DELIVERY:
        on_delivery(c, pn_event_delivery(e));
        break;
      case PN_LINK_REMOTE_CLOSE:
      case PN_LINK_REMOTE_DETACH:
        complain("a link", pn_link_remote_condition(pn_event_link(e)));
        break;
      case PN_CONNECTION_REMOTE_CLOSE:
        if (pn_connection_state(c->driver.connection) & PN_LOCAL_ACTIVE)
          complain("a connection", pn_connection_remote_condition(c->driver.connection));
        break;
      case PN_TRANSPORT_ERROR:
        complain("a transport", pn_transport_condition(c->driver.transport));
        break;
      default:
        break;
    }
  }
}

static void watch(client_t *c, bool write) {
  if (write == c->want_write) return;
  c->want_write = write;
  struct epoll_event change = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &change);
}

static void flush(client_t *c) {
  for (;;) {
    events(c);
    pn_bytes_t out = pn_connection_driver_write_buffer(&c->driver);
    if (!out.size) break;
    ssize_t n = write(c->fd, out.start, out.size);
    if (n < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        watch(c, true);
        return;
      }
      pn_connection_driver_write_close(&c->driver);
      break;
    }
    pn_connection_driver_write_done(&c->driver, (size_t)n);
  }
  watch(c, false);
}

static void take(client_t *c) {
  for (int rounds = 0; rounds < 16; rounds++) {
    pn_rwbytes_t in = pn_connection_driver_read_buffer(&c->driver);
    if (!in.size) break;
    ssize_t n = read(c->fd, in.start, in.size);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      pn_connection_driver_read_close(&c->driver);
      break;
    }
    pn_connection_driver_read_done(&c->driver, (size_t)n);
    events(c);
    if ((size_t)n < in.size) break;
  }
  if (pn_connection_driver_finished(&c->driver)) end(c);
}

static void open_client(client_t *c, int number, int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int yes = 1;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0) die("cannot connect");
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
  if (pn_connection_driver_init(&c->driver, NULL, NULL)) die("cannot make a connection");
  attach(c, number);
  struct epoll_event add = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &add) < 0) die("epoll");
  flush(c);
}

/* Serve what is ready, waiting `wait` ms at most. */
static void turn(int wait) {
  struct epoll_event ready[256];
  int n = epoll_wait(poll_fd, ready, 256, wait);
  long before = sent + accepted + received;
  for (int i = 0; i < n; i++) {
    client_t *c = ready[i].data.ptr;
    if (c->ended) continue;
    if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take(c);
    if (!c->ended) flush(c);
  }
  if (sent + accepted + received != before) moved = now();
}

/* Give the receivers the credit that has become due by now. */
static void keep_pace(client_t *receivers, int number, double start) {
  static long given;
  long due = (long)((now() - start) * pace) - given;
  if (due < number) return;
  for (int i = 0; i < number; i++) {
    pn_link_flow(receivers[i].link, (int)(due / number));
    given += due / number;
    flush(&receivers[i]);
  }
}

int main(int argc, char **argv) {
  if (argc != 11) {
    fprintf(stderr, "usage: load PORT ADDRESS SENDERS IDLE RECEIVERS COUNT SIZE WINDOW PACE QUIET_MS\n");
    return 2;
  }
  int port = atoi(argv[1]), senders = atoi(argv[3]), idle = atoi(argv[4]), receivers = atoi(argv[5]);
  address = argv[2], count = atol(argv[6]), window = atol(argv[8]), pace = atol(argv[9]);
  double quiet = atol(argv[10]) / 1e3;
  int total = senders + idle + receivers;
  make_message((uint32_t)atol(argv[7]));
  scratch = malloc(scratch_size);
  poll_fd = epoll_create1(0);
  client_t *clients = calloc((size_t)total, sizeof *clients);
  for (int i = 0; i < total; i++) {
    client_t *c = &clients[i];
    int s = i - idle - receivers;
    c->role = i < idle ? IDLE : i < idle + receivers ? RECEIVER : SENDER;
    if (c->role == SENDER) c->quota = count / senders + (s < count % senders);
    open_client(c, i, port);
    turn(0);
  }
  moved = now();
  while (attached < total) {
    turn(100);
    if (now() - moved > 60) die("not everybody could attach within 60 s");
  }
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  double start = moved = now();
  go = true;
  for (int i = 0; i < total; i++)
    if (clients[i].role == SENDER) send_all(&clients[i]), flush(&clients[i]);
  while ((receivers ? received : accepted + refused) < count) {
    turn(pace ? 1 : 100);
    if (pace) keep_pace(&clients[idle], receivers, start);
    if (now() - moved > quiet) break;
  }
  last_receive = (receivers ? received : accepted + refused) < count ? moved : now();
  getrusage(RUSAGE_SELF, &after);
  double turn_at = start;
  long without = 0;
  for (int i = idle + receivers; i < total; i++) {
    if (!clients[i].accepted)
      without++;
    else if (clients[i].first_accepted > turn_at)
      turn_at = clients[i].first_accepted;
  }
#define CPU(field) ((after.field.tv_sec - before.field.tv_sec) + (after.field.tv_usec - before.field.tv_usec) / 1e6)
  double seconds = last_receive - (first_send ? first_send : start);
  printf("{\"sent\": %ld, \"accepted\": %ld, \"refused\": %ld, \"received\": %ld, \"seconds\": %.6f, \"client_cpu\": %.6f, "
         "\"turn_seconds\": %.6f, \"without_turn\": %ld}\n",
         sent, accepted, refused, received, seconds, CPU(ru_utime) + CPU(ru_stime), turn_at - start, without);
  fflush(stdout);
  for (int i = 0; i < total; i++)
    if (!clients[i].ended) pn_connection_close(clients[i].driver.connection), flush(&clients[i]);
  return 0;
}
