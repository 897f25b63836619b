/* The client's side of a transaction coordinator (AMQP 1.0, 4.3): one local transaction after the other on a session. */
#include "wire.h"

typedef struct {
  pn_link_t *link;
  bool waiting;    /* for the answer to a request */
  size_t id_size;  /* of the transaction that is open, 0 if none is */
  char id[64];
} coordinator_t;

typedef enum { REQUEST_PENDING, DECLARED, COMMITTED, ROLLED_BACK } answer_t;

void coordinator_attach(coordinator_t *c, wire_t *wire, const char *name);
/* Request it, if the broker has granted credit; return whether it was requested. */
bool coordinator_declare(coordinator_t *c);
bool coordinator_commit(coordinator_t *c);
/* What a delivery of the coordinator's link says. A transaction that cannot be declared ends the program. */
answer_t coordinator_answer(coordinator_t *c, pn_delivery_t *delivery);
/* Put a message that is about to be sent into the open transaction. */
void coordinator_enlist(coordinator_t *c, pn_delivery_t *delivery);
/* The outcome that a message's remote state has: the state itself, or what is inside a transactional state. */
uint64_t coordinator_outcome(pn_delivery_t *delivery);
