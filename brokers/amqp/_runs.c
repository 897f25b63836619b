/* Runs of ordinary deliveries, between Proton's C library and Python, one call of Python for each run.
 *
 * `drain` takes the events of a collector for as long as they are ordinary: a complete message of a producer that asks
 * for nothing special, or the acknowledgement of a message by its consumer. It returns the first event that is not,
 * untouched, after all that was collected before it was handed to Python: so the order on a link, the ends of
 * transactions, aborts, drains and closes are decided by the same code as without this extension. The rules of flow
 * control are not here: at the first message of a run Python says how many may come, how large, and after how many bytes
 * the run must end. A run is in one transaction, or in none.
 *
 * Proton's functions are those of the library that python-qpid-proton has loaded (`bind`); its pointers cross to Python
 * as integers. A link's context is its lane, which it owns a reference to until `Lane.end`: Python calls that before
 * the link is freed. All functions run with the interpreter's lock.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <dlfcn.h>

#include "_runs_ordinary.h"
#include "_runs_proton.h"
#include "_runs_transactions.h"

static bool bound;
static int DELIVERY;       /* the type of a delivery's event */
static uint64_t HANDLED;   /* bits: the types of the other events that Python handles */

/* (path of the loaded library, PN_DELIVERY, PN_ACCEPTED, the state of a delivery in a transaction, (PN_LIST,
 * PN_BINARY, PN_DESCRIBED, PN_ULONG), [types of events that are handled]). Raises ImportError if the library lacks a
 * function. */
static PyObject *bind(PyObject *module, PyObject *args) {
  const char *path;
  int delivery;
  unsigned long long accepted, transactional, handled = 0;
  PyObject *types;
  __typeof__(TYPES) values;
  if (!PyArg_ParseTuple(args, "siKK(iiii)O!", &path, &delivery, &accepted, &transactional, &values.list, &values.binary,
                        &values.described, &values.ulong, &PyList_Type, &types))
    return NULL;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(types); i++) {
    long type = PyLong_AsLong(PyList_GET_ITEM(types, i));
    if (type == -1 && PyErr_Occurred()) return NULL;
    if (type < 0 || type > 63) return PyErr_Format(PyExc_ImportError, "an event of type %ld", type);
    handled |= 1ull << type;
  }
  void *found[sizeof FUNCTIONS / sizeof *FUNCTIONS];
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD); /* another reference: it is never unloaded */
  if (!library) return PyErr_Format(PyExc_ImportError, "%s is not loaded", path);
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
    found[i] = dlsym(library, FUNCTIONS[i].name);
    if (!found[i]) return PyErr_Format(PyExc_ImportError, "%s has no function %s", path, FUNCTIONS[i].name);
  }
  /* All or nothing. */
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
    memcpy(FUNCTIONS[i].at, &found[i], sizeof found[i]);
  DELIVERY = delivery;
  ACCEPTED = accepted;
  TRANSACTIONAL = transactional;
  TYPES = values;
  HANDLED = handled;
  bound = true;
  Py_RETURN_NONE;
}

static bool is_bound(void) {
  if (!bound) PyErr_SetString(PyExc_RuntimeError, "bind first");
  return bound;
}

static PyObject *classify(PyObject *module, PyObject *body) {
  if (!PyBytes_Check(body)) return PyErr_Format(PyExc_TypeError, "bytes, not %.100s", Py_TYPE(body)->tp_name);
  return PyLong_FromLong(class_of(PyBytes_AS_STRING(body), (size_t)PyBytes_GET_SIZE(body)));
}

/* Its id as bytes; None if it is none. */
static PyObject *id_of(const Transaction *transaction) {
  if (!transaction->is_in) return Py_NewRef(Py_None);
  return PyBytes_FromStringAndSize(transaction->id, ID_BYTES);
}

/* -- lanes ---------------------------------------------------------------------------------------------------------- */

/* What is collected of one link. `owner`: its link in Python, or None once ended; a cycle until then. */
typedef struct {
  PyObject_HEAD
  PyObject *owner;
  PyObject *order;       /* its queue: at most one link of each collects at a time, so that their order is the peer's;
                            None: it may reach any queue */
  PyObject *messages;    /* list: bodies of a producer, messages that a consumer has acknowledged; NULL: none */
  PyObject *unsettled;   /* of a consumer: address of a delivery -> message */
  PyObject *special;     /* a message that was read and is not ordinary, until `take_special`; NULL: none */
  pn_link_t *link;       /* NULL once ended */
  pn_delivery_t **deliveries; /* of a producer, not settled */
  Py_ssize_t count, room;     /* of `deliveries` */
  Py_ssize_t size;            /* sum of the bodies, bytes */
  Py_ssize_t allowed;         /* messages that may still join the run */
  Py_ssize_t most_bytes;      /* of the run: it ends with the message that exceeds this */
  Py_ssize_t largest;         /* of a message, bytes */
  int class;
  Transaction transaction;    /* that the run is in */
  char producer;
} Lane;

static PyTypeObject LaneType;

static int lane_traverse(Lane *self, visitproc visit, void *arg) {
  Py_VISIT(self->owner);
  Py_VISIT(self->order);
  Py_VISIT(self->messages);
  Py_VISIT(self->unsettled);
  Py_VISIT(self->special);
  return 0;
}

static int lane_clear(Lane *self) {
  Py_CLEAR(self->owner);
  Py_CLEAR(self->order);
  Py_CLEAR(self->messages);
  Py_CLEAR(self->unsettled);
  Py_CLEAR(self->special);
  return 0;
}

static void lane_dealloc(Lane *self) {
  PyObject_GC_UnTrack(self);
  lane_clear(self);
  PyMem_Free(self->deliveries);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* (address of the link, owner, order, is it a producer's) */
static PyObject *lane_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  unsigned long long address;
  PyObject *owner, *order;
  int producer;
  if (!is_bound()) return NULL;
  if (kwargs && PyDict_GET_SIZE(kwargs)) return PyErr_Format(PyExc_TypeError, "no keywords");
  if (!PyArg_ParseTuple(args, "KOOp", &address, &owner, &order, &producer)) return NULL;
  if (!address) return PyErr_Format(PyExc_ValueError, "a link has an address");
  if (pn.link_get_context((pn_link_t *)(uintptr_t)address)) return PyErr_Format(PyExc_ValueError, "the link has a lane");
  Lane *self = (Lane *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->owner = Py_NewRef(owner);
  self->order = Py_NewRef(order);
  self->producer = (char)producer;
  self->unsettled = PyDict_New();
  if (!self->unsettled) {
    Py_DECREF(self);
    return NULL;
  }
  self->link = (pn_link_t *)(uintptr_t)address;
  pn.link_set_context(self->link, Py_NewRef(self)); /* until `end` */
  return (PyObject *)self;
}

/* Forget the link, which may be freed after this. Acknowledged messages that nobody took are unsettled again, since they
 * are not removed. Idempotent. */
static PyObject *lane_end(Lane *self, PyObject *unused) {
  if (self->link) {
    for (Py_ssize_t i = 0; !self->producer && self->messages && i < PyList_GET_SIZE(self->messages); i++) {
      PyObject *message = PyList_GET_ITEM(self->messages, i), *key = PyLong_FromVoidPtr(message);
      int failed = key ? PyDict_SetItem(self->unsettled, key, message) : -1;
      Py_XDECREF(key);
      if (failed) return NULL;
    }
    pn.link_set_context(self->link, NULL);
    self->link = NULL;
    self->count = self->size = 0;
    Py_CLEAR(self->messages);
    Py_CLEAR(self->special);
    Py_SETREF(self->owner, Py_NewRef(Py_None));
    Py_DECREF(self); /* the context's; the caller has another */
  }
  Py_RETURN_NONE;
}

/* Have the owner take what was collected, if anything: `take_run`. It must leave nothing. -1: an error. */
static int hand_over(Lane *self) {
  if (!self->messages) return 0;
  PyObject *owner = Py_NewRef(self->owner);
  PyObject *done = PyObject_CallMethod(owner, "take_run", NULL);
  Py_DECREF(owner);
  if (!done) return -1;
  Py_DECREF(done);
  if (self->messages || self->count) {
    PyErr_SetString(PyExc_RuntimeError, "take_run has left a part of the run");
    return -1;
  }
  return 0;
}

/* What was collected: (bodies, bytes, whether they are durable, id of their transaction or None) of a producer, whose
 * deliveries `accept` or `withhold` takes; ([messages], id of their transaction or None) of a consumer, whose deliveries
 * are settled. */
static PyObject *lane_take(Lane *self, PyObject *unused) {
  PyObject *messages = self->messages;
  self->messages = NULL;
  if (!messages && !(messages = PyList_New(0))) return NULL;
  PyObject *id = id_of(&self->transaction);
  if (!id) {
    Py_DECREF(messages);
    return NULL;
  }
  if (!self->producer) return Py_BuildValue("(NN)", messages, id);
  Py_ssize_t size = self->size;
  self->size = 0;
  return Py_BuildValue("(NnON)", messages, size, self->class == DURABLE ? Py_True : Py_False, id);
}

/* The message of the event that `drain` has returned, if it was read; None if it was not. */
static PyObject *lane_take_special(Lane *self, PyObject *unused) {
  PyObject *special = self->special;
  self->special = NULL;
  return special ? special : Py_NewRef(Py_None);
}

/* Accept and settle the deliveries of the run that was taken. */
static PyObject *lane_accept(Lane *self, PyObject *unused) {
  for (Py_ssize_t i = 0; i < self->count; i++) {
    pn.delivery_update(self->deliveries[i], ACCEPTED);
    pn.delivery_settle(self->deliveries[i]);
  }
  self->count = 0;
  Py_RETURN_NONE;
}

/* (address of the data of the state "accepted in the run's transaction"): as `accept`, with this state. */
static PyObject *lane_accept_in(Lane *self, PyObject *state_address) {
  pn_data_t *state = PyLong_AsVoidPtr(state_address);
  if (!state) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "data has an address");
  for (Py_ssize_t i = 0; i < self->count; i++) {
    pn_disposition_t *local = pn.delivery_local(self->deliveries[i]);
    pn_data_t *data = local ? pn.disposition_data(local) : NULL;
    if (!data || pn.data_copy(data, state)) return PyErr_Format(PyExc_RuntimeError, "Proton has not taken a state");
    pn.delivery_update(self->deliveries[i], TRANSACTIONAL);
    pn.delivery_settle(self->deliveries[i]);
  }
  self->count = 0;
  Py_RETURN_NONE;
}

/* [address of each delivery of the run that was taken; None for one that the client has settled, which is settled]. */
static PyObject *lane_withhold(Lane *self, PyObject *unused) {
  PyObject *found = PyList_New(self->count);
  if (!found) return NULL;
  for (Py_ssize_t i = 0; i < self->count; i++) {
    pn_delivery_t *each = self->deliveries[i];
    PyObject *address = pn.delivery_settled(each) ? Py_NewRef(Py_None) : PyLong_FromVoidPtr(each);
    if (!address) {
      Py_DECREF(found);
      return NULL;
    }
    PyList_SET_ITEM(found, i, address);
  }
  for (Py_ssize_t i = 0; i < self->count; i++)
    if (pn.delivery_settled(self->deliveries[i])) pn.delivery_settle(self->deliveries[i]);
  self->count = 0;
  return found;
}

/* ([(number, body)], last tag): send the messages, and add them to `unsettled`. Returns how many were sent: Proton has
 * refused the next one if they are not all. */
static PyObject *lane_send(Lane *self, PyObject *const *args, Py_ssize_t nargs) {
  if (nargs != 2 || !PyList_Check(args[0])) return PyErr_Format(PyExc_TypeError, "([messages], tag)");
  if (!self->link) return PyErr_Format(PyExc_RuntimeError, "the link has ended");
  uint64_t tag = PyLong_AsUnsignedLongLong(args[1]);
  if (PyErr_Occurred()) return NULL;
  Py_ssize_t sent = 0;
  for (; sent < PyList_GET_SIZE(args[0]); sent++) {
    PyObject *message = PyList_GET_ITEM(args[0], sent);
    if (!PyTuple_Check(message) || PyTuple_GET_SIZE(message) != 2 || !PyBytes_Check(PyTuple_GET_ITEM(message, 1)))
      return PyErr_Format(PyExc_TypeError, "a message is (number, body)");
    PyObject *body = PyTuple_GET_ITEM(message, 1);
    tag++;
    pn_delivery_t *delivery = pn.delivery(self->link, (pn_bytes_t){sizeof tag, (const char *)&tag}); /* copied */
    if (!delivery) break;
    PyObject *address = PyLong_FromVoidPtr(delivery);
    int failed = address ? PyDict_SetItem(self->unsettled, address, message) : -1;
    Py_ssize_t length = PyBytes_GET_SIZE(body);
    bool whole = failed == 0 && pn.link_send(self->link, PyBytes_AS_STRING(body), (size_t)length) == length;
    if (!whole) { /* nothing of it has been sent: it is dropped, where settling would send an empty one */
      if (failed == 0 && PyDict_DelItem(self->unsettled, address)) failed = -1;
      pn.delivery_abort(delivery);
    }
    Py_XDECREF(address);
    if (failed) return NULL;
    if (!whole) break;
    pn.link_advance(self->link);
  }
  return PyLong_FromSsize_t(sent);
}

static PyMethodDef lane_methods[] = {
    {"end", (PyCFunction)lane_end, METH_NOARGS, NULL},
    {"take", (PyCFunction)lane_take, METH_NOARGS, NULL},
    {"take_special", (PyCFunction)lane_take_special, METH_NOARGS, NULL},
    {"accept", (PyCFunction)lane_accept, METH_NOARGS, NULL},
    {"accept_in", (PyCFunction)lane_accept_in, METH_O, NULL},
    {"withhold", (PyCFunction)lane_withhold, METH_NOARGS, NULL},
    {"send", (PyCFunction)(void (*)(void))lane_send, METH_FASTCALL, NULL},
    {NULL},
};

static PyMemberDef lane_members[] = {
    {"unsettled", T_OBJECT_EX, offsetof(Lane, unsettled), READONLY, NULL},
    {NULL},
};

static PyTypeObject LaneType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "brokers.amqp._runs.Lane",
    .tp_doc = "Lane(address of a link, owner, order, is it a producer's): see the module",
    .tp_basicsize = sizeof(Lane),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = lane_new,
    .tp_dealloc = (destructor)lane_dealloc,
    .tp_traverse = (traverseproc)lane_traverse,
    .tp_clear = (inquiry)lane_clear,
    .tp_methods = lane_methods,
    .tp_members = lane_members,
};

/* -- events --------------------------------------------------------------------------------------------------------- */

/* Whether runs of these orders may reach the same queue. */
static bool same_order(PyObject *one, PyObject *other) { return one == other || one == Py_None || other == Py_None; }

/* Have the lanes that collected something hand it over, all or those of one order, and take them off the list. */
static int hand_over_all(PyObject *lanes, PyObject *order) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(lanes);) {
    Lane *lane = (Lane *)PyList_GET_ITEM(lanes, i);
    if (order && !same_order(lane->order, order)) {
      i++;
      continue;
    }
    Py_INCREF(lane);
    int failed = PyList_SetSlice(lanes, i, i + 1, NULL);
    if (!failed) failed = hand_over(lane);
    Py_DECREF(lane);
    if (failed) return -1;
  }
  return 0;
}

/* Begin a run of a lane that has none; those of the same order were handed over. -1: an error. */
static int begin(Lane *lane, PyObject *lanes) {
  lane->messages = PyList_New(0);
  if (!lane->messages) return -1;
  if (PyList_Append(lanes, (PyObject *)lane)) {
    Py_CLEAR(lane->messages);
    return -1;
  }
  return 0;
}

/* Ask how long the next run of a producer may be, in this transaction. Its answer is valid while nothing else happens to
 * the queue: so runs of the same order are handed over first. Returns false if a message of this length cannot be in it.
 * -1: an error. */
static int ask(Lane *lane, PyObject *lanes, size_t length, const Transaction *transaction) {
  if (hand_over_all(lanes, lane->order)) return -1;
  if (!lane->link) return 0;
  PyObject *allowance = PyObject_CallMethod(lane->owner, "run_allowance", "N", id_of(transaction));
  if (!allowance) return -1;
  int read = PyArg_ParseTuple(allowance, "nnn;messages, bytes, bytes of one message", &lane->allowed,
                              &lane->most_bytes, &lane->largest);
  Py_DECREF(allowance);
  if (!read) return -1;
  return lane->link && lane->allowed > 0 && (Py_ssize_t)length <= lane->largest;
}

static int add_delivery(Lane *lane, pn_delivery_t *delivery) {
  if (lane->count == lane->room) {
    Py_ssize_t room = lane->room ? 2 * lane->room : 64;
    pn_delivery_t **more = PyMem_Realloc(lane->deliveries, (size_t)room * sizeof *more);
    if (!more) {
      PyErr_NoMemory();
      return -1;
    }
    lane->deliveries = more;
    lane->room = room;
  }
  lane->deliveries[lane->count++] = delivery;
  return 0;
}

/* Add a message of this class to the run of a producer, or to a new one. Returns false if it cannot be in one. */
static int join(Lane *lane, PyObject *lanes, pn_delivery_t *delivery, PyObject *body, int class,
                const Transaction *transaction) {
  size_t length = (size_t)PyBytes_GET_SIZE(body);
  if (lane->messages && class != lane->class) {
    int may = ask(lane, lanes, length, transaction);
    if (may <= 0) return may;
  }
  if (!lane->messages && begin(lane, lanes)) return -1;
  if (PyList_Append(lane->messages, body) || add_delivery(lane, delivery)) return -1;
  lane->class = class;
  lane->transaction = *transaction;
  lane->size += (Py_ssize_t)length;
  lane->allowed--;
  pn.link_advance(lane->link);
  return 1;
}

/* Whether a producer's event is an ordinary message, which has joined a run: 1, 0, or -1 for an error. */
static int incoming(Lane *lane, PyObject *lanes, pn_delivery_t *delivery) {
  size_t length = pn.delivery_pending(delivery);
  if (length < 7 || length > PY_SSIZE_T_MAX / 2 || pn.delivery_partial(delivery) || pn.delivery_aborted(delivery) ||
      !pn.delivery_readable(delivery) || pn.link_current(lane->link) != delivery)
    return 0;
  Transaction transaction;
  if (!read_transaction(delivery, &transaction)) return 0;
  bool goes_on = lane->messages && lane->allowed > 0 && lane->size <= lane->most_bytes &&
                 same_transaction(&lane->transaction, &transaction);
  int may = goes_on ? (Py_ssize_t)length <= lane->largest : ask(lane, lanes, length, &transaction);
  if (may <= 0) return may;
  PyObject *body = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
  if (!body) return -1;
  ssize_t read = pn.link_recv(lane->link, PyBytes_AS_STRING(body), length);
  int class, joined;
  if (read != (ssize_t)length) { /* Proton has counted them: nothing that it says can be trusted */
    PyErr_Format(PyExc_RuntimeError, "Proton has read %zd of %zu bytes", read, length);
    joined = -1;
  } else if ((class = class_of(PyBytes_AS_STRING(body), length)) == SPECIAL) {
    joined = 0;
  } else {
    joined = join(lane, lanes, delivery, body, class, &transaction);
  }
  if (joined == 0) Py_XSETREF(lane->special, Py_NewRef(body)); /* it cannot be read a second time */
  Py_DECREF(body);
  return joined;
}

/* Ask whether acknowledgements in this transaction may be in a run. -1: an error. */
static int may_acknowledge(Lane *lane, const Transaction *transaction) {
  PyObject *answer = PyObject_CallMethod(lane->owner, "may_acknowledge", "N", id_of(transaction));
  if (!answer) return -1;
  int may = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  return may;
}

/* Whether a consumer's event is the acknowledgement of a message, which has joined a run: 1, 0, or -1 for an error. */
static int outgoing(Lane *lane, PyObject *lanes, pn_delivery_t *delivery) {
  Transaction transaction;
  if (!pn.delivery_settled(delivery) || !read_acceptance(delivery, &transaction)) return 0;
  if (!lane->messages || !same_transaction(&lane->transaction, &transaction)) {
    if (hand_over_all(lanes, lane->order)) return -1;
    if (!lane->link) return 0;
    int may = transaction.is_in ? may_acknowledge(lane, &transaction) : 1;
    if (may <= 0 || !lane->link) return may < 0 ? -1 : 0;
    lane->transaction = transaction;
  }
  PyObject *address = PyLong_FromVoidPtr(delivery);
  if (!address) return -1;
  int joined = 0;
  PyObject *message = PyDict_GetItemWithError(lane->unsettled, address);
  if (message) {
    Py_INCREF(message);
    joined = (!lane->messages && begin(lane, lanes)) || PyList_Append(lane->messages, message) ? -1 : 1;
    if (joined > 0 && PyDict_DelItem(lane->unsettled, address)) { /* it is in one of the two */
      Py_ssize_t last = PyList_GET_SIZE(lane->messages) - 1;
      PyList_SetSlice(lane->messages, last, last + 1, NULL);
      joined = -1;
    }
    Py_DECREF(message);
    if (joined > 0) pn.delivery_settle(delivery);
  } else if (PyErr_Occurred()) {
    joined = -1;
  }
  Py_DECREF(address);
  return joined;
}

/* (address of a collector): take ordinary events, hand over their runs, and return the address of the first event that
 * is not ordinary, which is not popped; 0: there is none. */
static PyObject *drain(PyObject *module, PyObject *collector_address) {
  if (!is_bound()) return NULL;
  pn_collector_t *collector = PyLong_AsVoidPtr(collector_address);
  if (!collector) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a collector has an address");
  PyObject *lanes = PyList_New(0);
  if (!lanes) return NULL;
  pn_event_t *event;
  int taken = 1;
  while (taken > 0 && (event = pn.collector_peek(collector))) {
    int type = pn.event_type(event);
    if (type == DELIVERY) {
      pn_delivery_t *delivery = pn.event_delivery(event);
      pn_link_t *link = delivery ? pn.delivery_link(delivery) : NULL;
      Lane *lane = link ? pn.link_get_context(link) : NULL;
      if (!lane) break;
      Py_INCREF(lane);
      taken = lane->producer ? incoming(lane, lanes, delivery) : outgoing(lane, lanes, delivery);
      Py_DECREF(lane);
    } else if (type >= 0 && type < 64 && HANDLED >> type & 1) {
      break;
    }
    if (taken > 0) pn.collector_pop(collector);
  }
  if (taken >= 0 && hand_over_all(lanes, NULL)) taken = -1;
  Py_DECREF(lanes);
  return taken < 0 ? NULL : PyLong_FromVoidPtr(event);
}

/* ([address of a delivery, or None]): accept and settle those that are in no transaction. Returns the addresses of the
 * others. */
static PyObject *accept(PyObject *module, PyObject *deliveries) {
  if (!is_bound()) return NULL;
  if (!PyList_Check(deliveries)) return PyErr_Format(PyExc_TypeError, "a list");
  PyObject *others = PyList_New(0);
  if (!others) return NULL;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(deliveries); i++) {
    PyObject *each = PyList_GET_ITEM(deliveries, i);
    if (each == Py_None) continue;
    pn_delivery_t *delivery = PyLong_AsVoidPtr(each);
    if (!delivery && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a delivery has an address");
    if (!delivery) {
      Py_DECREF(others);
      return NULL;
    }
    if (pn.delivery_remote_state(delivery) == TRANSACTIONAL) {
      if (PyList_Append(others, each)) {
        Py_DECREF(others);
        return NULL;
      }
      continue;
    }
    pn.delivery_update(delivery, ACCEPTED);
    pn.delivery_settle(delivery);
  }
  return others;
}

/* (address of a transport, bytes with which a piece ends) -> (the next piece of the pending output, or None; whether
 * there will be no more). */
static PyObject *output(PyObject *module, PyObject *args) {
  unsigned long long address;
  Py_ssize_t enough;
  if (!is_bound() || !PyArg_ParseTuple(args, "Kn", &address, &enough)) return NULL;
  if (!address) return PyErr_Format(PyExc_ValueError, "a transport has an address");
  pn_transport_t *transport = (pn_transport_t *)(uintptr_t)address;
  PyObject *out = NULL;
  ssize_t size = 0;
  while ((!out || PyBytes_GET_SIZE(out) < enough) && (size = pn.transport_pending(transport)) > 0) {
    const char *head = pn.transport_head(transport);
    if (!head) break;
    Py_ssize_t before = out ? PyBytes_GET_SIZE(out) : 0;
    if (size > PY_SSIZE_T_MAX - before) {
      Py_XDECREF(out);
      return PyErr_NoMemory();
    }
    if (!out) out = PyBytes_FromStringAndSize(NULL, size);
    else _PyBytes_Resize(&out, before + size);
    if (!out) return NULL;
    memcpy(PyBytes_AS_STRING(out) + before, head, (size_t)size);
    pn.transport_pop(transport, (size_t)size);
  }
  if (!out) out = Py_NewRef(Py_None);
  return Py_BuildValue("(NO)", out, size < 0 ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, NULL},    {"classify", classify, METH_O, NULL}, {"drain", drain, METH_O, NULL},
    {"accept", accept, METH_O, NULL},      {"output", output, METH_VARARGS, NULL}, {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_runs", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__runs(void) {
  if (PyType_Ready(&LaneType)) return NULL;
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  if (PyModule_AddObjectRef(module, "Lane", (PyObject *)&LaneType)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
