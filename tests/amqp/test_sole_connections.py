"""Connections that ask to be the only one of their user and container-id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from proton import UNDESCRIBED, Array, Data, symbol

from brokers.amqp import connection as amqp_connection
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.frames import AMQP_HEADER, CLOSE, OPEN, Frame, Peer, anonymous_init, frame, uint
from tests.engine.ports import Peer as EngineEnd

SOLE = Array(UNDESCRIBED, Data.SYMBOL, symbol("sole-connection-for-container"))


@contextmanager
def opened(broker: BrokerThread, container: str, *, sole: bool) -> Iterator[tuple[Peer, Frame]]:
    """A connection by hand, and the broker's open frame."""
    with Peer(broker.port) as peer:
        peer.write(anonymous_init() + AMQP_HEADER)
        others = (uint(65536), None, None, None, None, None)
        peer.write(frame(OPEN, container, None, *others, SOLE if sole else None))
        yield peer, peer.expect(OPEN)


def refusal(peer: Peer) -> tuple[str, dict[str, str]]:
    condition, _, info = [*peer.expect(CLOSE).field(0).value, None][:3]
    return str(condition), {str(k): str(v) for k, v in (info or {}).items()}


@pytest.mark.domain("clients sole connection")
@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True)])
def test_one_that_is_to_be_the_only_one_and_another_are_not_open_together(
    broker: BrokerThread, first: bool, second: bool
) -> None:
    with opened(broker, "me", sole=first) as (holder, _):
        with opened(broker, "me", sole=second) as (peer, answer):
            assert answer.field(9) == {symbol("amqp:connection-establishment-failed"): True}
            assert refusal(peer) == ("amqp:invalid-field", {"invalid-field": "container-id"})
        holder.is_alive()
        with opened(broker, "another", sole=True) as (peer, _):
            peer.is_alive()
        # Once the first has said that it closes, its name is free, whatever its socket does.
        holder.write(frame(CLOSE))
        holder.expect(CLOSE)
        with opened(broker, "me", sole=True) as (peer, _):
            peer.is_alive()


def test_connections_that_do_not_ask_for_exclusivity_share_a_container_id(broker: BrokerThread) -> None:
    with opened(broker, "me", sole=False) as (one, answer), opened(broker, "me", sole=False) as (two, _):
        assert "sole-connection-for-container" in [str(each) for each in answer.field(7).elements]
        one.is_alive()
        two.is_alive()


def test_connections_of_other_users_may_have_the_container_id(broker: BrokerThread) -> None:
    broker.user("anna", grants=["default:publish"])
    with opened(broker, "me", sole=True) as (peer, _):
        broker.do(
            lambda s: s.broker.open_connection(
                "", user="anna", remote_address="", container_id="me", idle_timeout=0, sole=True, handle=EngineEnd()
            )
        )
        peer.is_alive()
    broker.do(lambda s: [s.broker.close_connection(c) for c in list(s.broker.connections.values())])


def test_one_that_has_fallen_silent_holds_its_container_id_no_longer_than_the_idle_timeout(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp_connection, "IDLE_TIMEOUT_MS", 400)
    with opened(broker, "me", sole=True):  # and says nothing more
        broker.until(lambda s: not s.container.connections, "the broker gives it up")
        monkeypatch.undo()
        with opened(broker, "me", sole=True) as (peer, _):
            peer.is_alive()
