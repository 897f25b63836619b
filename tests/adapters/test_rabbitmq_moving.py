"""What is passed on of a parked message, and where it belongs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from brokers.adapters.rabbitmq_moving import Fate, Taken, Target
from brokers.adapters.rabbitmq_parking import _place

SHORT = st.text(max_size=20)
PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "content_type": SHORT, "headers": st.dictionaries(SHORT, st.integers(-5, 2**40), max_size=3), "priority":
    st.integers(0, 9), "correlation_id": SHORT, "reply_to": SHORT, "expiration": SHORT, "message_id": SHORT,
    "message_type": SHORT, "user_id": st.sampled_from(["ada", "olga", "ö"]), "app_id": SHORT,
}  # fmt: skip


def taken(**properties: Any) -> Taken:
    header = ContentHeader(0, 7, Basic.Properties(**properties)).marshal()
    return Taken(1, header, (b"x" * 7,))


@given(st.fixed_dictionaries({}, optional=PROPERTIES))
def test_of_another_users_message_only_the_user_id_is_left_out(properties: dict[str, Any]) -> None:
    passed = taken(**properties).publishable_by("ada")
    if properties.get("user_id") != "ada":
        properties.pop("user_id", None)
    assert passed == taken(**properties)


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
