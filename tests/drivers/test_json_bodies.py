"""The JSON bodies of events and samples: what one side writes, the other reads, and so does any AMQP client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message

from brokers.admin import Event
from brokers.json_bodies import event_json, events_message, events_of, samples_message, text_of
from brokers.model import ObjectName, object_name

_TEXTS = st.text(max_size=20)
_SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | _TEXTS
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4), max_leaves=8
)
_NAMES = st.one_of(
    st.just(object_name("Broker")),
    st.builds(lambda host, name: object_name("Queue", virtualhost=host, name=name), _TEXTS, _TEXTS),
)
_EVENTS = st.lists(
    st.builds(
        Event,
        number=st.integers(1, 1 << 62),
        at=st.integers(0, 1 << 62),
        kind=st.sampled_from(["queue-overfull", "producers-stopped"]),
        object=_NAMES,
        text=_TEXTS,
        attributes=st.dictionaries(_TEXTS, _VALUES, max_size=4),
    ),
    max_size=5,
)


@given(_EVENTS)
def test_events_are_read_as_they_were_written(events: list[Event]) -> None:
    message = events_message(map(event_json, events))
    assert list(events_of(text_of(message) or "")) == events
    decoded = Message()
    decoded.decode(message)
    assert [row[0] for row in json.loads(decoded.body)] == [event.number for event in events]


@given(st.lists(st.lists(_SCALARS, min_size=2, max_size=2), max_size=5))
def test_samples_are_readable_for_any_amqp_client(rows: list[list[Any]]) -> None:
    decoded = Message()
    decoded.decode(samples_message(5, ("one", "two"), rows))
    assert json.loads(decoded.body) == {"at": 5, "names": ["one", "two"], "rows": rows}


def test_half_a_character_ends_no_stream() -> None:
    event = Event(1, 2, "queue-overfull", object_name("Broker"), "a\ud800b", {"reason": "\udfff"})
    [read] = events_of(text_of(events_message([event_json(event)])) or "")
    assert (read.number, read.text, read.attributes) == (1, "a?b", {"reason": "?"})


def test_names_and_sets_are_written_as_text_and_lists() -> None:
    name = object_name("Queue", virtualhost="default", name='a,"b"')
    event = Event(1, 2, "queue-overfull", name, "", {"queue": name, "hosts": frozenset({"eu"})})
    [read] = events_of(text_of(events_message([event_json(event)])) or "")
    assert read.object == name
    assert ObjectName.parse(read.attributes["queue"]) == name
    assert read.attributes["hosts"] == ["eu"]


@pytest.mark.parametrize(
    "body", ["short", "x" * 300, b"bytes", 5, None, {"number": 5}, ["a"]], ids=lambda body: str(body)[:9]
)
def test_other_forms_of_a_message_are_left_to_an_amqp_decoder(body: Any) -> None:
    message = Message(body=body).encode()
    found = text_of(message)
    assert found is None or found == body


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 20])
def test_an_incomplete_message_is_not_read(cut: int) -> None:
    message = events_message(['[1,2,"k","type=Broker","text",{}]'])
    assert text_of(message[:cut]) is None
    assert text_of(message + b"x") is None
