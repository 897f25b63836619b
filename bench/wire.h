/* An AMQP 1.0 connection on a loopback socket, on Proton's connection driver, and the loop that serves many of them.
 *
 * The programs that include it say what the events mean; nothing here knows of senders or receivers. Whatever goes
 * wrong ends the program with one line on stderr.
 */
#pragma once

#include <proton/connection_driver.h>
#include <proton/connection.h>
#include <proton/link.h>
#include <proton/session.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wire {
  pn_connection_driver_t driver;
  pn_session_t *session;
  int fd;
  bool want_write, ended;
} wire_t;

/* What every program takes; `wire_option` reads them. */
extern int port, wait_ms;                          /* --port; --quiet: ms without movement after which to give up */
extern const char *address, *user, *password;      /* --address, --user, --password: PLAIN instead of ANONYMOUS */
extern const char *capability;                     /* --capability: of each link's source or target, such as topic */
extern bool durable, durable_terminus;             /* --durable: messages; --durable-terminus: what RabbitMQ goes by */
extern uint32_t size;                              /* --size: bytes of a message's body */
extern pn_bytes_t message;                         /* the encoded message; its last `size` bytes are the body */

/* The value of the next option, or NULL after the last; `flag` options have none. Ends the program for a bad one. */
const char *next_option(int argc, char **argv, const char **name);
bool common_option(const char *name, const char *value);
long number(const char *name, const char *value);

double now(void); /* seconds, CLOCK_MONOTONIC */
void die(const char *what);
void make_message(void);

/* Connect and open, with one session. `name`: how the container id begins. */
void wire_open(wire_t *wire, const char *name);
/* Close them all, sessions first, and wait for the answers, so that nothing that was said is lost. */
void close_wires(void);
/* A link on the wire's session to or from `queue`, opened. */
pn_link_t *wire_sender(wire_t *wire, const char *name, const char *queue);
pn_link_t *wire_receiver(wire_t *wire, const char *name, const char *queue);
/* Say what Proton has to say, and hear its events. */
void wire_flush(wire_t *wire);
/* Serve the wires that are ready; wait `seconds` at most. */
void wire_turn(double seconds);
/* Serve the wires until a line was read from the input. The end of the input closes them, and ends the program. */
void await_line(void);

/* The program's own: a link's or delivery's event. Errors have been dealt with. */
void on_event(wire_t *wire, pn_event_t *event);
