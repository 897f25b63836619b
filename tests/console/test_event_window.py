"""The window of newest events, in order and without gaps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokers.admin import Event
from brokers.model import object_name
from console.links.event_window import EventWindow

BROKER = object_name("Broker")


def event(number: int) -> Event:
    return Event(number, 1_700_000_000_000 + number, "policy-changed", BROKER, f"event {number}")


def numbers(window: EventWindow, after: int) -> list[int]:
    return [e.number for e in window.after(after).events]


def test_number_within_the_window_returns_the_later_events() -> None:
    window = EventWindow()
    window.begin_after(0)
    window.add(event(n) for n in range(1, 8))
    assert numbers(window, 4) == [5, 6, 7]
    assert window.after(4).expired_before is None


def test_number_below_the_window_returns_the_first_event_left() -> None:
    window = EventWindow(capacity=3)
    window.begin_after(0)
    window.add(event(n) for n in range(1, 8))
    tail = window.after(2)
    assert tail.expired_before == 5
    assert [e.number for e in tail.events] == [5, 6, 7]


def test_number_just_before_the_window_has_missed_nothing() -> None:
    window = EventWindow(capacity=3)
    window.begin_after(0)
    window.add(event(n) for n in range(1, 8))
    assert window.after(4).expired_before is None
    assert numbers(window, 4) == [5, 6, 7]


def test_number_above_the_window_returns_the_whole_window() -> None:
    window = EventWindow()
    window.begin_after(0)
    window.add([event(1), event(2)])
    tail = window.after(900)
    assert tail.expired_before == 1
    assert len(tail.events) == 2


def test_duplicate_event_is_not_added() -> None:
    window = EventWindow()
    window.begin_after(0)
    window.add([event(1), event(2)])
    assert window.add([event(2), event(3)]) == [event(3)]
    assert numbers(window, 0) == [1, 2, 3]


@given(st.lists(st.integers(1, 60), max_size=60), st.integers(1, 20), st.integers(0, 70))
def test_every_gap_is_reported(arrivals: list[int], capacity: int, after: int) -> None:
    window = EventWindow(capacity)
    window.begin_after(0)
    for number in arrivals:
        window.add([event(number)])
    tail = window.after(after)
    got = [e.number for e in tail.events]
    start = after if tail.expired_before is None else tail.expired_before - 1
    assert got == list(range(start + 1, start + 1 + len(got)))
    assert window.last is not None
    if got or after < window.last:
        assert got
        assert got[-1] == window.last
