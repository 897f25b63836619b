"""Every call into Proton's C library that the broker makes, by its own short name, and nothing else.

The wrapper objects of the `proton` package cost ten times what the calls cost, so the hot path uses the calls
(measured; see `brokers/README.md`). Names follow Proton's without their `pn_`; pointers are cffi's and are typed `Any`.
Rules that must be kept, learned the hard way: `transport_push` takes part of the bytes and says how many; a pointer
to a delivery or link is dead once its connection is released; `link_flow` ends a drain that `link_drain` began.
"""

from __future__ import annotations

from typing import Any

import proton  # noqa: F401  (initialises the library)
from cproton_ffi import ffi, lib
from proton import UNDESCRIBED, Array, Data, symbol

NULL = ffi.NULL
from_buffer, unpack, new, cast = ffi.from_buffer, ffi.unpack, ffi.new, ffi.cast

ACCEPTED, REJECTED, RELEASED, MODIFIED = lib.PN_ACCEPTED, lib.PN_REJECTED, lib.PN_RELEASED, lib.PN_MODIFIED
SND_SETTLED, SND_UNSETTLED, SND_MIXED, RCV_FIRST = (
    lib.PN_SND_SETTLED,
    lib.PN_SND_UNSETTLED,
    lib.PN_SND_MIXED,
    lib.PN_RCV_FIRST,
)
COORDINATOR, UNSPECIFIED, DIST_MODE_COPY = lib.PN_COORDINATOR, lib.PN_UNSPECIFIED, lib.PN_DIST_MODE_COPY

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


def set_terminus_filter(pointer: Any, filters: dict[Any, Any]) -> None:
    """In place of what is there; an empty map: none."""
    lib.pn_data_clear(lib.pn_terminus_filter(pointer))
    if filters:
        Data(lib.pn_terminus_filter(pointer)).put_object(filters)


def offer_capabilities(pointer: Any, *names: str) -> None:
    """Of a connection, before it is opened."""
    Data(lib.pn_connection_offered_capabilities(pointer)).put_object(
        Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, names))
    )


def set_condition(pointer: Any, name: str, description: str, info: dict[Any, Any] | None = None) -> None:
    lib.pn_condition_set_name(pointer, name.encode())
    lib.pn_condition_set_description(pointer, description.encode())
    if info:
        Data(lib.pn_condition_info(pointer)).put_object(info)


def condition_text(pointer: Any) -> str:
    """Name and description of a condition; "" if it is not set."""
    if not lib.pn_condition_is_set(pointer):
        return ""
    name, description = lib.pn_condition_get_name(pointer), lib.pn_condition_get_description(pointer)
    return f"{_text(name)}: {_text(description)}"


def rejection_text(delivery: Any) -> str:
    """What the peer said about a delivery that it rejected; "" if nothing."""
    return condition_text(lib.pn_disposition_condition(lib.pn_delivery_remote(delivery)))


def delivery_error(pointer: Any, name: str, description: str) -> None:
    """Set the error that goes with a rejected outcome."""
    set_condition(lib.pn_disposition_condition(lib.pn_delivery_local(pointer)), name, description)


def decode_first(data: bytes | memoryview) -> tuple[int, Any]:
    """(length, value) of the first AMQP value in `data`; raises ValueError if it cannot be read."""
    value = Data()
    length = lib.pn_data_decode(value._data, from_buffer(data), len(data))
    if length < 0:
        raise ValueError("not an AMQP value")
    value.rewind()
    value.next()
    try:
        return length, value.get_object()
    except Exception as error:  # whatever a hostile value does to Proton's wrapper
        raise ValueError(f"not a value that can be read: {error!r}") from error


def _text(pointer: Any) -> str:
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""
