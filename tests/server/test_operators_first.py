"""The loop's selector: every socket is served, operators' first, and closed ones not at all."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from brokers.server.operators_first import AT_ONCE, OperatorsFirst

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@pytest.fixture
def selector() -> Iterator[OperatorsFirst]:
    with OperatorsFirst() as selector:
        yield selector


@pytest.fixture
def ready(selector: OperatorsFirst) -> Iterator[list[socket.socket]]:
    """Sockets that there is something to read from, thrice as many as are served at once."""
    with ExitStack() as stack:
        mine = []
        for number in range(3 * AT_ONCE):
            one, other = (stack.enter_context(s) for s in socket.socketpair())
            other.send(b"x")
            selector.register(one, READ, number)
            mine.append(one)
        yield mine


def served(selector: OperatorsFirst) -> list[int]:
    return [key.data for key, events in selector.select(0) if events == READ]


def test_many_ready_sockets_are_served_in_turns(selector, ready):
    rounds = [served(selector) for _ in range(3)]
    assert [len(r) for r in rounds] == [AT_ONCE] * 3
    assert sorted(n for r in rounds for n in r) == list(range(3 * AT_ONCE))


def test_a_preferred_socket_is_served_in_every_round_and_once_in_each(selector, ready):
    last = served(selector)[-1]
    selector.prefer(ready[last])
    for _ in range(5):
        turn = served(selector)
        assert (turn[0], turn.count(last)) == (last, 1)
        assert len(turn) >= AT_ONCE


def test_a_preferred_socket_with_nothing_to_read_does_not_end_the_wait(selector):
    one, other = socket.socketpair()
    with one, other:
        selector.register(one, READ)
        selector.prefer(one)
        assert selector.select(0.01) == []
        other.send(b"x")
        assert [key.fileobj for key, _ in selector.select(10)] == [one]


def test_a_socket_that_was_unregistered_before_its_turn_is_not_served(selector, ready):
    first = served(selector)
    gone = next(n for n in range(len(ready)) if n not in first)
    selector.unregister(ready[gone])
    assert gone not in [n for _ in range(4) for n in served(selector)]


def test_a_preferred_socket_that_was_unregistered_is_forgotten(selector, ready):
    selector.prefer(ready[0])
    selector.unregister(ready[0])
    selector.register(ready[0], READ, 0)
    rounds = [served(selector) for _ in range(3)]
    assert sum(r.count(0) for r in rounds) == 1


def test_modified_registration_replaces_the_earlier_events(selector, ready):
    served(selector)
    for one in ready:
        selector.modify(one, WRITE, "changed")
    turn = selector.select(0)
    assert all((events, key.data) == (WRITE, "changed") for key, events in turn)


def test_all_is_read_only_once_everything_that_was_ready_had_its_turn(selector, ready):
    before = selector.polls
    for _ in range(2):
        served(selector)
        assert not selector.all_read_since(before)
    served(selector)
    assert selector.all_read_since(before)
    assert not selector.all_read_since(selector.polls)


def test_preferring_an_unregistered_socket_has_no_effect(selector):
    one, other = socket.socketpair()
    with one, other:
        selector.prefer(one)
        assert selector.select(0) == []
