#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <proton/codec.h>
#include <proton/connection.h>
#include <proton/event.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int port, wait_ms = 5000;
const char *address = "bench", *user, *password, *capability;
bool durable, durable_terminus;
uint32_t size = 100;
pn_bytes_t message;

static int poll_fd = -1;
static wire_t *all[4096]; /* for their idle time-outs */
static int opened;

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

void die(const char *what) {
  fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
  exit(1);
}

/* -- options ------------------------------------------------------------------------------------------------------ */

const char *next_option(int argc, char **argv, const char **name) {
  static int at = 1;
  if (at >= argc) return NULL;
  *name = argv[at++];
  if (strncmp(*name, "--", 2)) fprintf(stderr, "load: %s is not an option\n", *name), exit(2);
  if (at >= argc || !strncmp(argv[at], "--", 2)) return "";
  return argv[at++];
}

long number(const char *name, const char *value) {
  char *rest;
  long n = strtol(value, &rest, 10);
  if (!*value || *rest || n < 0) fprintf(stderr, "load: %s %s: it must be a whole number\n", name, value), exit(2);
  return n;
}

bool common_option(const char *name, const char *value) {
  if (!strcmp(name, "--port")) port = (int)number(name, value);
  else if (!strcmp(name, "--quiet")) wait_ms = (int)number(name, value);
  else if (!strcmp(name, "--address")) address = value;
  else if (!strcmp(name, "--user")) user = value;
  else if (!strcmp(name, "--password")) password = value;
  else if (!strcmp(name, "--capability")) capability = value;
  else if (!strcmp(name, "--size")) size = (uint32_t)number(name, value);
  else if (!strcmp(name, "--durable")) durable = true;
  else if (!strcmp(name, "--durable-terminus")) durable_terminus = true;
  else return false;
  return true;
}

/* A header with the durable flag, if requested, and one data section of `size` bytes. */
void make_message(void) {
  static const char header[] = {0x00, 0x53, 0x70, (char)0xc0, 0x02, 0x01, 0x41};
  char *start = calloc(1, size + 32), *at = start;
  if (!start) die("no memory");
  if (durable) memcpy(at, header, sizeof header), at += sizeof header;
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
  message = pn_bytes((size_t)(at - start) + size, start);
}

/* -- connections -------------------------------------------------------------------------------------------------- */

void wire_open(wire_t *w, const char *name) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int yes = 1;
  if (poll_fd < 0) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    poll_fd = epoll_create1(0);
  }
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  w->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (w->fd < 0 || connect(w->fd, (struct sockaddr *)&to, sizeof to) < 0) die("cannot connect");
  setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(w->fd, F_SETFL, fcntl(w->fd, F_GETFL) | O_NONBLOCK);
  if (pn_connection_driver_init(&w->driver, NULL, NULL)) die("cannot make a connection");
  pn_connection_t *connection = w->driver.connection;
  char container[96]; /* ActiveMQ wants it unique */
  snprintf(container, sizeof container, "%s-%d", name, (int)getpid());
  pn_connection_set_container(connection, container);
  pn_connection_set_hostname(connection, "default");
  pn_sasl_t *sasl = pn_sasl(w->driver.transport);
  if (user) {
    pn_connection_set_user(connection, user);
    pn_connection_set_password(connection, password);
    pn_sasl_set_allow_insecure_mechs(sasl, true); /* it is loopback */
  }
  pn_sasl_allowed_mechs(sasl, user ? "PLAIN" : "ANONYMOUS");
  pn_transport_set_max_frame(w->driver.transport, 65536);
  pn_connection_open(connection);
  w->session = pn_session(connection);
  pn_session_open(w->session);
  struct epoll_event add = {.events = EPOLLIN, .data.ptr = w};
  if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, w->fd, &add) < 0) die("epoll");
  if (opened == sizeof all / sizeof *all) die("too many connections");
  all[opened++] = w;
  wire_flush(w);
}

static void set_terminus(pn_terminus_t *terminus, const char *queue) {
  pn_terminus_set_address(terminus, queue);
  if (durable_terminus) pn_terminus_set_durability(terminus, PN_DELIVERIES);
  if (capability) pn_data_put_symbol(pn_terminus_capabilities(terminus), pn_bytes(strlen(capability), capability));
}

pn_link_t *wire_sender(wire_t *w, const char *name, const char *queue) {
  pn_link_t *link = pn_sender(w->session, name);
  set_terminus(pn_link_target(link), queue);
  pn_link_open(link);
  return link;
}

pn_link_t *wire_receiver(wire_t *w, const char *name, const char *queue) {
  pn_link_t *link = pn_receiver(w->session, name);
  set_terminus(pn_link_source(link), queue);
  pn_link_open(link);
  return link;
}

static void end(wire_t *w) {
  if (w->ended) return;
  w->ended = true;
  epoll_ctl(poll_fd, EPOLL_CTL_DEL, w->fd, NULL);
  close(w->fd);
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

static void events(wire_t *w) {
  pn_event_t *e;
  while ((e = pn_connection_driver_next_event(&w->driver))) {
    switch (pn_event_type(e)) {
      case PN_LINK_REMOTE_CLOSE:
      case PN_LINK_REMOTE_DETACH:
        if (pn_link_state(pn_event_link(e)) & PN_LOCAL_ACTIVE)
          complain("a link", pn_link_remote_condition(pn_event_link(e)));
        on_event(w, e);
        break;
      case PN_SESSION_REMOTE_CLOSE:
        if (pn_session_state(w->session) & PN_LOCAL_ACTIVE)
          complain("a session", pn_session_remote_condition(w->session));
        break;
      case PN_CONNECTION_REMOTE_CLOSE:
        if (pn_connection_state(w->driver.connection) & PN_LOCAL_ACTIVE)
          complain("a connection", pn_connection_remote_condition(w->driver.connection));
        break;
      case PN_TRANSPORT_ERROR:
        if (pn_connection_state(w->driver.connection) & PN_LOCAL_ACTIVE)
          complain("a transport", pn_transport_condition(w->driver.transport));
        break;
      default:
        on_event(w, e);
        break;
    }
  }
}

static void watch(wire_t *w, bool write) {
  if (write == w->want_write) return;
  w->want_write = write;
  struct epoll_event change = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = w};
  epoll_ctl(poll_fd, EPOLL_CTL_MOD, w->fd, &change);
}

void wire_flush(wire_t *w) {
  for (;;) {
    events(w);
    pn_bytes_t out = pn_connection_driver_write_buffer(&w->driver);
    if (!out.size) break;
    ssize_t n = write(w->fd, out.start, out.size);
    if (n < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        watch(w, true);
        return;
      }
      pn_connection_driver_write_close(&w->driver);
      break;
    }
    pn_connection_driver_write_done(&w->driver, (size_t)n);
  }
  watch(w, false);
}

static void take(wire_t *w) {
  for (int rounds = 0; rounds < 16; rounds++) {
    pn_rwbytes_t in = pn_connection_driver_read_buffer(&w->driver);
    if (!in.size) break;
    ssize_t n = read(w->fd, in.start, in.size);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      pn_connection_driver_read_close(&w->driver);
      break;
    }
    pn_connection_driver_read_done(&w->driver, (size_t)n);
    events(w);
    if ((size_t)n < in.size) break;
  }
  if (pn_connection_driver_finished(&w->driver)) end(w);
}

/* Once a second: a broker may want to hear from its idle clients. */
static void tick_all(void) {
  static double last;
  double t = now();
  if (t - last < 1) return;
  last = t;
  for (int i = 0; i < opened; i++) {
    if (all[i]->ended) continue;
    pn_transport_tick(all[i]->driver.transport, (pn_timestamp_t)(t * 1e3));
    wire_flush(all[i]);
  }
}

void wire_turn(double seconds) {
  struct epoll_event ready[256];
  struct timespec wait = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (time_t)seconds) * 1e9)};
  int n = epoll_pwait2(poll_fd, ready, 256, &wait, NULL);
  for (int i = 0; i < n; i++) {
    wire_t *w = ready[i].data.ptr;
    if (w->ended) continue;
    if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take(w);
    if (!w->ended) wire_flush(w);
  }
  tick_all();
}

/* Serve until the other end has closed all sessions, or all connections, for 5 s at most. */
static void await_close(bool sessions) {
  double start = now();
  for (bool open = true; open && now() - start < 5;) {
    open = false;
    for (int i = 0; i < opened; i++) {
      if (!all[i]->ended) open |= !sessions || pn_session_state(all[i]->session) & PN_REMOTE_ACTIVE;
    }
    if (open) wire_turn(0.1);
  }
}

void close_wires(void) {
  for (int i = 0; i < opened; i++) {
    if (all[i]->ended) continue;
    pn_session_close(all[i]->session); /* first: RabbitMQ forgets settlements that a closing connection brings along */
    wire_flush(all[i]);
  }
  await_close(true);
  for (int i = 0; i < opened; i++) {
    if (all[i]->ended) continue;
    pn_connection_close(all[i]->driver.connection);
    wire_flush(all[i]);
  }
  await_close(false);
}

void await_line(void) {
  char line[16];
  fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
  for (;;) {
    ssize_t n = read(STDIN_FILENO, line, sizeof line);
    if (n > 0) return;
    if (!n) close_wires(), exit(0);
    wire_turn(0.02);
  }
}
