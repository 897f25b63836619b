"""All calls of Proton's C library that the broker makes, by short names, and nothing else.

The wrapper objects of the `proton` package cost ten times what the calls cost, so the hot path uses the calls
(measured; see `brokers/README.md`). Names follow Proton's without their `pn_`; pointers are cffi's and are typed `Any`.
Rules for callers: `transport_push` consumes part of the bytes and returns how many; a pointer to a delivery or link is
invalid once its connection is released; `link_flow` ends a drain that `link_drain` began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import proton  # noqa: F401  (initialises the library)
from cproton_ffi import ffi, lib
from proton import UNDESCRIBED, Array, Data, Described, symbol, ulong

NULL = ffi.NULL
from_buffer, unpack, new, cast = ffi.from_buffer, ffi.unpack, ffi.new, ffi.cast

ACCEPTED, REJECTED, RELEASED, MODIFIED = lib.PN_ACCEPTED, lib.PN_REJECTED, lib.PN_RELEASED, lib.PN_MODIFIED
SND_SETTLED, SND_UNSETTLED, SND_MIXED, RCV_FIRST = (
    lib.PN_SND_SETTLED,
    lib.PN_SND_UNSETTLED,
    lib.PN_SND_MIXED,
    lib.PN_RCV_FIRST,
)
#: States of a delivery in transactions, which Proton has no names for (AMQP 1.0, part 4.5).
DECLARED, TRANSACTIONAL = 0x33, 0x34
#: Types of values, for `runs`.
TYPES = lib.PN_LIST, lib.PN_BINARY, lib.PN_DESCRIBED, lib.PN_ULONG
COORDINATOR, UNSPECIFIED, DIST_MODE_COPY = lib.PN_COORDINATOR, lib.PN_UNSPECIFIED, lib.PN_DIST_MODE_COPY
SOURCE, NONDURABLE, DELIVERIES, EXPIRE_NEVER = lib.PN_SOURCE, lib.PN_NONDURABLE, lib.PN_DELIVERIES, lib.PN_EXPIRE_NEVER

EV_DELIVERY, EV_LINK_FLOW = lib.PN_DELIVERY, lib.PN_LINK_FLOW
EV_CONNECTION_REMOTE_OPEN, EV_CONNECTION_REMOTE_CLOSE = lib.PN_CONNECTION_REMOTE_OPEN, lib.PN_CONNECTION_REMOTE_CLOSE
EV_TRANSPORT_TAIL_CLOSED = lib.PN_TRANSPORT_TAIL_CLOSED
EV_SESSION_REMOTE_OPEN, EV_SESSION_REMOTE_CLOSE = lib.PN_SESSION_REMOTE_OPEN, lib.PN_SESSION_REMOTE_CLOSE
EV_LINK_REMOTE_OPEN = lib.PN_LINK_REMOTE_OPEN
EV_LINK_REMOTE_CLOSE, EV_LINK_REMOTE_DETACH = lib.PN_LINK_REMOTE_CLOSE, lib.PN_LINK_REMOTE_DETACH

collector, collector_peek, collector_pop = lib.pn_collector, lib.pn_collector_peek, lib.pn_collector_pop
collector_release, collector_free = lib.pn_collector_release, lib.pn_collector_free
event_type, event_delivery, event_link = lib.pn_event_type, lib.pn_event_delivery, lib.pn_event_link
event_session = lib.pn_event_session

transport, transport_set_server, transport_bind = lib.pn_transport, lib.pn_transport_set_server, lib.pn_transport_bind
transport_push, transport_pending = lib.pn_transport_push, lib.pn_transport_pending
transport_peek, transport_pop = lib.pn_transport_peek, lib.pn_transport_pop
transport_close_tail, transport_close_head = lib.pn_transport_close_tail, lib.pn_transport_close_head
transport_tick, transport_unbind = lib.pn_transport_tick, lib.pn_transport_unbind
transport_set_idle_timeout = lib.pn_transport_set_idle_timeout
transport_remote_idle_timeout = lib.pn_transport_get_remote_idle_timeout
transport_set_max_frame, transport_condition = lib.pn_transport_set_max_frame, lib.pn_transport_condition

connection, connection_collect, connection_open = lib.pn_connection, lib.pn_connection_collect, lib.pn_connection_open
connection_close, connection_release = lib.pn_connection_close, lib.pn_connection_release
connection_set_container, connection_condition = lib.pn_connection_set_container, lib.pn_connection_condition
decref = lib.pn_decref

session_open, session_close, session_free = lib.pn_session_open, lib.pn_session_close, lib.pn_session_free

link_is_sender, link_session = lib.pn_link_is_sender, lib.pn_link_session
link_open, link_close, link_free = lib.pn_link_open, lib.pn_link_close, lib.pn_link_free
link_detach = lib.pn_link_detach
link_flow, link_drain, link_drained = lib.pn_link_flow, lib.pn_link_drain, lib.pn_link_drained
link_get_drain, link_credit = lib.pn_link_get_drain, lib.pn_link_credit
link_recv, link_send, link_advance = lib.pn_link_recv, lib.pn_link_send, lib.pn_link_advance
link_source, link_target = lib.pn_link_source, lib.pn_link_target
link_remote_source, link_remote_target = lib.pn_link_remote_source, lib.pn_link_remote_target
link_remote_snd_settle_mode = lib.pn_link_remote_snd_settle_mode
link_set_snd_settle_mode, link_set_rcv_settle_mode = lib.pn_link_set_snd_settle_mode, lib.pn_link_set_rcv_settle_mode
link_set_max_message_size, link_condition = lib.pn_link_set_max_message_size, lib.pn_link_condition

terminus_copy, terminus_type = lib.pn_terminus_copy, lib.pn_terminus_get_type
terminus_set_type = lib.pn_terminus_set_type
terminus_durability, terminus_set_durability = lib.pn_terminus_get_durability, lib.pn_terminus_set_durability
terminus_expiry_policy, terminus_set_expiry_policy = (
    lib.pn_terminus_get_expiry_policy,
    lib.pn_terminus_set_expiry_policy,
)
terminus_is_dynamic, terminus_distribution_mode = lib.pn_terminus_is_dynamic, lib.pn_terminus_get_distribution_mode

delivery, delivery_link, delivery_partial = lib.pn_delivery, lib.pn_delivery_link, lib.pn_delivery_partial
delivery_pending, delivery_readable = lib.pn_delivery_pending, lib.pn_delivery_readable
delivery_settle, delivery_settled, delivery_update = (
    lib.pn_delivery_settle,
    lib.pn_delivery_settled,
    lib.pn_delivery_update,
)
delivery_remote_state, delivery_aborted = lib.pn_delivery_remote_state, lib.pn_delivery_aborted
delivery_remote = lib.pn_delivery_remote
disposition_failed, disposition_undeliverable = lib.pn_disposition_is_failed, lib.pn_disposition_is_undeliverable


#: Who hears what Proton says of a transport: without one it writes to stderr.
_hearing: dict[Any, Callable[[str], None]] = {}


@ffi.callback("void(pn_transport_t *, char *)")  # type: ignore[untyped-decorator]
def _hear(pointer: Any, said: Any) -> None:
    if hear := _hearing.get(pointer):
        hear(_text(said))


def transport_hear(pointer: Any, hear: Callable[[str], None]) -> None:
    """Call `hear`, which must not raise, with each of Proton's warnings and errors of this transport, until
    `transport_deaf`."""
    _hearing[pointer] = hear
    lib.pn_transport_set_tracer(pointer, _hear)


def transport_deaf(pointer: Any) -> None:
    _hearing.pop(pointer, None)


def connection_hostname(pointer: Any) -> str:
    return _text(lib.pn_connection_remote_hostname(pointer))


def connection_container(pointer: Any) -> str:
    return _text(lib.pn_connection_remote_container(pointer))


def link_name(pointer: Any) -> str:
    return _text(lib.pn_link_name(pointer))


def terminus_address(pointer: Any) -> str:
    """ "" if the terminus has no address."""
    return _text(lib.pn_terminus_get_address(pointer))


def set_terminus_address(pointer: Any, address: str) -> None:
    lib.pn_terminus_set_address(pointer, address.encode())


def terminus_filter(pointer: Any) -> Any:
    """The source's filter set as Python objects: usually a map, None if there is none."""
    data = Data(lib.pn_terminus_filter(pointer))
    data.rewind()
    return data.get_object() if data.next() is not None else None


def terminus_filters(pointer: Any) -> dict[str, Described]:
    """Return the readable filters of the source by the client's names for them."""
    try:
        found = terminus_filter(pointer)
    except Exception:  # a hostile value may raise any error in Proton's wrapper
        return {}
    items = found.items() if isinstance(found, dict) else ()
    return {str(name): value for name, value in items if isinstance(value, Described)}


def clear_terminus_filter(pointer: Any) -> None:
    lib.pn_data_clear(lib.pn_terminus_filter(pointer))


def set_terminus_filter(pointer: Any, filters: dict[Any, Described]) -> None:
    clear_terminus_filter(pointer)
    if filters:
        Data(lib.pn_terminus_filter(pointer)).put_object(filters)


def terminus_capabilities(pointer: Any) -> frozenset[str]:
    """Return the readable capabilities of a terminus."""
    return _names_in(lib.pn_terminus_capabilities(pointer))


def desired_capabilities(pointer: Any) -> frozenset[str]:
    """Return the readable capabilities that the peer desires of a connection."""
    return _names_in(lib.pn_connection_remote_desired_capabilities(pointer))


def connection_properties(pointer: Any) -> dict[str, Any]:
    """Return the readable properties that the peer gives its connection, by name."""
    data = Data(lib.pn_connection_remote_properties(pointer))
    data.rewind()
    try:
        found = data.get_object() if data.next() is not None else None
    except Exception:  # a hostile value may raise any error in Proton's wrapper
        return {}
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}


def _names_in(pointer: Any) -> frozenset[str]:
    data = Data(pointer)
    data.rewind()
    try:
        found = data.get_object() if data.next() is not None else None
    except Exception:  # a hostile value may raise any error in Proton's wrapper
        return frozenset()
    names = found.elements if isinstance(found, Array) else [found]
    return frozenset(str(name) for name in names if isinstance(name, str))


def set_terminus_properties(pointer: Any, properties: dict[Any, Any]) -> None:
    """Set the properties of a node that is created for the link."""
    data = lib.pn_terminus_properties(pointer)
    lib.pn_data_clear(data)
    Data(data).put_object(properties)


def set_terminus_capabilities(pointer: Any, *names: str) -> None:
    data = lib.pn_terminus_capabilities(pointer)
    lib.pn_data_clear(data)
    Data(data).put_object(_symbols(names))


def offer_capabilities(pointer: Any, *names: str) -> None:
    """Of a connection, before it is opened."""
    Data(lib.pn_connection_offered_capabilities(pointer)).put_object(_symbols(names))


def set_properties(pointer: Any, properties: dict[Any, Any]) -> None:
    """Of a connection, before it is opened."""
    Data(lib.pn_connection_properties(pointer)).put_object(properties)


def _symbols(names: Iterable[str]) -> Array:
    return Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, names))


def set_condition(pointer: Any, name: str, description: str, info: dict[Any, Any] | None = None) -> None:
    lib.pn_condition_set_name(pointer, name.encode())
    lib.pn_condition_set_description(pointer, description.encode())
    if info:
        Data(lib.pn_condition_info(pointer)).put_object(info)


def condition_text(pointer: Any) -> str:
    """Return the name and description of a condition; "" if it is not set."""
    if not lib.pn_condition_is_set(pointer):
        return ""
    name, description = lib.pn_condition_get_name(pointer), lib.pn_condition_get_description(pointer)
    return f"{_text(name)}: {_text(description)}"


def rejection_text(delivery: Any) -> str:
    """Return the peer's description of a rejected delivery; "" if there is none."""
    return condition_text(lib.pn_disposition_condition(lib.pn_delivery_remote(delivery)))


def delivery_error(pointer: Any, name: str, description: str) -> None:
    """Set the error of a rejected outcome."""
    set_condition(lib.pn_disposition_condition(lib.pn_delivery_local(pointer)), name, description)


def add_target_capabilities(pointer: Any, *names: str) -> None:
    """Replace the capabilities of a link's own target."""
    data = Data(lib.pn_terminus_capabilities(lib.pn_link_target(pointer)))
    data.clear()
    data.put_object(Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, names)))


_OUTCOMES = {
    "amqp:accepted:list": ACCEPTED,
    "amqp:rejected:list": REJECTED,
    "amqp:released:list": RELEASED,
    "amqp:modified:list": MODIFIED,
}


def transactional_state(pointer: Any) -> tuple[bytes, int, list[Any]]:
    """Return (id of the transaction, outcome, fields of the outcome) of a delivery whose remote state is TRANSACTIONAL;
    b"" and 0 for missing or unreadable values."""
    data = Data(lib.pn_disposition_data(lib.pn_delivery_remote(pointer)))
    data.rewind()
    try:
        given = data.get_object() if data.next() is not None else None
        number, *rest = given if isinstance(given, list) else [None]
        within = rest[0] if rest and isinstance(rest[0], Described) else None
        identity = bytes(number) if isinstance(number, bytes | memoryview) else b""
        if within is None:
            return identity, 0, []
        outcome = within.descriptor
        code = _OUTCOMES.get(outcome, 0) if isinstance(outcome, str) else int(outcome)
        return identity, code, within.value if isinstance(within.value, list) else []
    except Exception:  # a hostile value may raise any error in Proton's wrapper
        return b"", 0, []


def accepted_in(transaction: bytes) -> Any:
    """Return the state of a delivery that is accepted in a transaction, for `delivery_update_in`."""
    state = Data()
    data = state._data
    _put_id(data, transaction)
    lib.pn_data_put_described(data)
    lib.pn_data_enter(data)
    lib.pn_data_put_ulong(data, ACCEPTED)
    lib.pn_data_put_list(data)
    return state


def _put_id(data: Any, transaction: bytes) -> None:
    """Begin a list with the id of a transaction: for each of them, at half of the time of `Data.put_object`."""
    lib.pn_data_put_list(data)
    lib.pn_data_enter(data)
    lib.pn_data_put_binary(data, (len(transaction), from_buffer(transaction)))


def rejected_in(transaction: bytes, name: str, description: str) -> Any:
    """Return the state of a delivery that is rejected in a transaction, with an error."""
    data = Data()
    error = Described(symbol("amqp:error:list"), [symbol(name), description])
    data.put_object([transaction, Described(ulong(REJECTED), [error])])
    return data


def state_address(state: Any) -> int:
    """Return the address of the data of a state, for `runs.Lane.accept_in`. It is valid for as long as the state."""
    return int(cast("uintptr_t", state._data))


def delivery_update_in(pointer: Any, state: Any) -> None:
    """Set a delivery's outcome in its transaction."""
    lib.pn_data_copy(lib.pn_disposition_data(lib.pn_delivery_local(pointer)), state._data)
    lib.pn_delivery_update(pointer, TRANSACTIONAL)


def delivery_declared(pointer: Any, transaction: bytes) -> None:
    """Answer a declaration."""
    _put_id(lib.pn_disposition_data(lib.pn_delivery_local(pointer)), transaction)
    lib.pn_delivery_update(pointer, DECLARED)


def decode_first(data: bytes | memoryview) -> tuple[int, Any]:
    """Return (length, value) of the first AMQP value in `data`. Raises ValueError if it cannot be read."""
    value = Data()
    length = lib.pn_data_decode(value._data, from_buffer(data), len(data))
    if length < 0:
        raise ValueError("not an AMQP value")
    value.rewind()
    value.next()
    try:
        return length, _copied(value.get_object())
    except Exception as error:  # a hostile value may raise any error in Proton's wrapper
        raise ValueError(f"not a value that can be read: {error!r}") from error


def _copied(value: Any) -> Any:
    """Return the value with copies of its binaries, since Proton's views become invalid with their buffer. A descriptor
    that is neither a number nor a symbol becomes None: it has no meaning, and may not be hashable."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, Described):
        known = isinstance(value.descriptor, int | str)
        return Described(value.descriptor if known else None, _copied(value.value))
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _text(pointer: Any) -> str:
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""
