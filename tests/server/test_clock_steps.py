"""The machine's clock is set by an hour, either way: what lasts goes on as it was, and times of day are right."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message

from brokers.drivers.bundled import BundledBroker
from brokers.engine.values.stage import stage
from brokers.engine.values.stops import End, Scope
from brokers.model import ObjectName
from brokers.steady_clock import STEP_MS, SteadyClock, time_of_day
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected

HOUR = 3_600_000
NS = 1_000_000  # in 1 ms
#: By how much a clock is set, ns: steps.
FAR = st.integers(-2 * HOUR * NS, -STEP_MS * NS) | st.integers(STEP_MS * NS, 2 * HOUR * NS)
#: Slow machines: what is compared is an hour.
SLACK = 120_000


def set_clock(broker: BrokerThread, by: int) -> None:
    """As an operator or a time service sets it, and the broker has seen."""

    def set_it(service) -> None:  # type: ignore[no-untyped-def]
        service.clock.time_of_day_ns = lambda: time.time_ns() + by * NS

    broker.look(set_it)
    broker.until(lambda s: abs(s.broker.turn.ahead - by) < STEP_MS, "the broker has seen it")


def attribute(broker: BrokerThread, of: str, name: str) -> object:
    async def read() -> object:
        driver = await BundledBroker.connect("127.0.0.1", broker.port, "console", broker.secret, timeout=20)
        found = await driver.read(ObjectName.parse(of))
        await driver.close()
        return found.attributes[name]

    return asyncio.run(read())


def test_steady_time_advances_and_the_time_of_day_follows_the_clock() -> None:
    clocks = {"day": 1_700_000_000_000, "steady": 5_000}
    clock = SteadyClock(lambda: clocks["day"] * NS, lambda: clocks["steady"] * NS)
    assert (clock.now(), clock.look(), clock.ahead) == (1_700_000_000_000, 0, 0)
    for by in (HOUR, -2 * HOUR):
        before, ahead = clock.now(), clock.ahead
        clocks["steady"] += 1_000
        clocks["day"] += 1_000 + by
        assert clock.now() == before + 1_000
        assert (clock.look(), clock.look()) == (by, 0)
        assert clock.ahead == ahead + by
        assert clock.now() + clock.ahead == clocks["day"]
    clocks["day"] += STEP_MS - 1
    assert clock.look() == 0, "no step"


@given(
    st.integers(0, NS - 1), st.integers(0, NS - 1), st.lists(st.tuples(st.integers(0, 3 * NS), st.just(0) | FAR)),
)  # fmt: skip
def test_shown_time_is_never_later_than_the_time_of_day(day: int, steady: int, steps: list[tuple[int, int]]) -> None:
    """Wherever in their milliseconds both clocks are at the start. It is less than 2 ms earlier, without steps 1."""
    clocks = {"day": 1_700_000_000_000 * NS + day, "steady": 5_000 * NS + steady}
    clock = SteadyClock(lambda: clocks["day"], lambda: clocks["steady"])
    for passed, by in [(0, 0), *steps]:
        clocks["steady"] += passed
        clocks["day"] += passed + by
        earlier = clocks["day"] // NS - (clock.shown() + clock.now())
        assert 0 <= earlier <= (1 if clock.ahead else 0)


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_message_expires_after_its_time_to_live_and_not_before(tmp_path: Path, by: int) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), "q", {}, durable=True))
        with connected(broker) as connection:
            sender = connection.create_sender("q")
            sender.send(Message(body="stays", durable=True, ttl=HOUR / 1000 * 0.9))
            set_clock(broker, by)
            sender.send(Message(body="goes", durable=True, ttl=0.3))
            sender.send(Message(body="stays, too", durable=True, ttl=HOUR / 1000 * 0.9))
            broker.until_queue("q", lambda q: q.lanes.expired == 1, "the short one has expired")
            receiver = connection.create_receiver("q", credit=2)
            assert [receiver.receive(timeout=5).body for _ in range(2)] == ["stays", "stays, too"]
        rows = broker.look(lambda s: [row[4] for row in s.messages.recover("default")])
        # On the disk it is the time of day, which the next start begins with.
        assert abs(rows[-1] - (time_of_day() + by + 0.9 * HOUR)) < SLACK


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_timed_stop_ends_on_time_and_reports_times_of_day(tmp_path: Path, by: int) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.queue("long")
        broker.queue("short")

        def stop(name: str, for_ms: int) -> None:
            broker.do(
                lambda s: s.broker.stopping.stop_all(
                    [Scope("default", name)], "test", "admin", End(s.broker.turn.now + for_ms)
                )
            )

        stop("long", HOUR // 2)
        set_clock(broker, by)
        stop("short", 300)
        broker.until(lambda s: len(s.broker.stops) == 1, "the short one has ended")
        [shown] = attribute(broker, "type=Queue,virtualhost=default,name=long", "stops")  # type: ignore[misc]
        assert abs(shown["until"] - (time_of_day() + by + HOUR // 2)) < SLACK
        assert abs(shown["since"] - (time_of_day() + by)) < SLACK
        since = attribute(broker, "type=Queue,virtualhost=default,name=long", "stopped_since")
        assert abs(since - (time_of_day() + by)) < SLACK  # type: ignore[operator]


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_staged_start_continues_with_its_rate_after_a_clock_step(tmp_path: Path, by: int) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.queue("q")
        scope = Scope("default", "q")
        broker.do(lambda s: s.broker.stopping.stop_all([scope], "test", "admin"))
        broker.do(
            lambda s: s.broker.stopping.start_all(
                [scope], "test", "admin", stage=stage(10, 600_000, 0, s.broker.turn.now)
            )
        )
        set_clock(broker, by)
        rate = broker.look(lambda s: s.broker.stops[scope].stage.rate_at(s.broker.turn.now))
        assert rate == 10, "neither complete nor begun again"


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_events_have_the_time_of_day_and_none_is_dropped_for_its_age(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, by: int
) -> None:
    caplog.set_level(logging.WARNING)
    with BrokerThread(tmp_path) as broker:
        first = broker.look(lambda s: s.journal.first)
        set_clock(broker, by)
        broker.queue("later")
        broker.look(lambda s: s._minute())
        assert broker.look(lambda s: s.journal.first) == first
        last = broker.look(lambda s: s.journal.read(s.journal.last - 1)[0])
        assert abs(last.at - (time_of_day() + by)) < SLACK
    way = "forward" if by > 0 else "back"
    assert [text for text in caplog.messages if f"the clock was set {way} by 3600" in text]


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_pause_after_wrong_passwords_and_an_idle_transaction_last_as_long(tmp_path: Path, by: int) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.queue("q")
        attempts = broker.look(lambda s: s.container.attempts)
        now = time.monotonic_ns() // 1_000_000
        for _ in range(5):
            attempts.failed("127.0.0.1", "anna", now)
        set_clock(broker, by)
        with connected(broker) as connection:  # heartbeats and sign-in have their time
            connection.create_sender("q").send(Message(body="x"))
        assert 0 <= attempts.wait_ms("127.0.0.1", "anna", time.monotonic_ns() // 1_000_000) <= 1_000
        active = broker.look(lambda s: s.broker.turn.now)
        assert abs(active - time_of_day()) < SLACK, "the engine's time has not jumped"
