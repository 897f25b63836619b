"""What is passed on of a parked message, and where it belongs."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from brokers.adapters.rabbitmq_moving import Fate, Taken, Target
from brokers.adapters.rabbitmq_parking import _place
from brokers.adapters.rabbitmq_properties import before_its_death, deaths, for_publisher

SHORT = st.text(max_size=20)
PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "content_type": SHORT, "headers": st.dictionaries(SHORT, st.integers(-5, 2**40), max_size=3), "priority":
    st.integers(0, 9), "correlation_id": SHORT, "reply_to": SHORT, "expiration": SHORT, "message_id": SHORT,
    "message_type": SHORT, "user_id": st.sampled_from(["ada", "olga", "ö"]), "app_id": SHORT,
}  # fmt: skip


def header(**properties: Any) -> bytes:
    return ContentHeader(0, 7, Basic.Properties(**properties)).marshal()


def taken(**properties: Any) -> Taken:
    return Taken(1, header(**properties), (b"x" * 7,))


@given(st.fixed_dictionaries({}, optional=PROPERTIES))
def test_of_another_users_message_only_the_user_id_is_left_out(properties: dict[str, Any]) -> None:
    passed = for_publisher(header(**properties), "ada")
    if properties.get("user_id") != "ada":
        properties.pop("user_id", None)
    assert passed == header(**properties)


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, width=32)
    | SHORT
    | st.binary().map(bytearray),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SHORT, inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(SHORT, ANY, max_size=4), st.fixed_dictionaries({}, optional=PROPERTIES), st.integers(1, 2))
def test_what_rabbitmq_adds_to_a_dropped_message_is_taken_away(
    theirs: dict[str, Any], properties: dict[str, Any], count: int
) -> None:
    """RabbitMQ drops a message that comes to a queue a second time without a rejection in between. Of a message that
    had died before, too, all stays: others may use it."""
    added = {"x-death": [death()] * count, "x-first-death-queue": "orders", "x-first-death-reason": "maxlen"}
    died = header(**{**properties, "headers": {**theirs, **added}})
    assert deaths(died)[0]["queue"] == "orders"
    expected = header(**{**properties, "headers": theirs}) if count == 1 else died
    if count == 1 and not theirs:  # pamqp leaves out an empty table
        expected = before_its_death(died)
        assert not deaths(expected)
        assert len(died) > len(expected) >= len(header(**{**properties, "headers": theirs}))
    assert before_its_death(died) == expected


def test_properties_that_cannot_be_decoded_are_passed_on() -> None:
    """A time in ms, and text that is not UTF-8: there are clients that send them."""
    given = header(content_type="text", timestamp=datetime(2026, 1, 1, tzinfo=UTC), app_id="app", user_id="olga")
    odd = given.replace(b"text", b"\xff\xfe\xff\xfe").replace(b"app", b"\xff\xff\xff")
    seconds = struct.pack(">Q", int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()))
    odd = odd.replace(seconds, struct.pack(">Q", 2**63 + 5))
    assert odd != given
    assert deaths(odd) == []
    assert before_its_death(odd) == odd
    assert for_publisher(odd, "olga") == odd
    assert len(for_publisher(odd, "ada")) == len(odd) - len(b"\x04olga")


def death(queue: str = "orders", reason: str = "maxlen", **more: Any) -> dict[str, Any]:
    return {"queue": queue, "reason": reason, "exchange": "", "routing-keys": ["eu", "x"], "count": 1, **more}


@pytest.mark.parametrize(
    ("deaths", "place"),
    [
        ([death()], Target("orders", "eu")),
        ([death(), death("other")], Target("orders", "eu")),  # the last one is first
        ([death(reason="rejected")], Fate.DELETED),
        ([death("gone")], Fate.LEFT),  # deleted, or its publishers are stopped still
        ([], Fate.LEFT),
        ([{"queue": "orders"}], Fate.LEFT),
        ("x", Fate.LEFT),
    ],
)
def test_a_parked_message_belongs_to_the_queue_that_dropped_it(deaths: Any, place: Target | Fate) -> None:
    assert _place(taken(headers={"x-death": deaths}), {"orders", "other"}) == place


def test_a_message_that_another_client_has_parked_is_left() -> None:
    assert _place(taken(), {"orders"}) is Fate.LEFT
