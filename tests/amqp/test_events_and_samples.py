"""`$events` and `$samples`: no gaps, no unbounded buffers, and numbers that increase across restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException
from proton.utils import LinkDetached

from brokers.engine.values.stops import Scope
from brokers.server import event_node, sample_node
from brokers.server.config_store import StoreError
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import After, Crowd, connected, fill, managing, until
from tests.amqp.frames import Peer


def make_events(broker: BrokerThread, count: int) -> int:
    """Add `count` events; return the number of the last."""

    def stops(service: Any) -> None:
        for number in range(count):
            act = service.broker.stopping.start_producers if number % 2 else service.broker.stopping.stop_producers
            act(Scope(), f"event {number}", "test")

    broker.do(stops)
    return broker.look(lambda s: s.journal.last)


def numbers(receiver: Any, count: int) -> list[int]:
    return [int(receiver.receive().body["number"]) for _ in range(count)]


def test_events_are_replayed_from_any_number_and_then_go_on_live(broker: BrokerThread) -> None:
    last = make_events(broker, 20)
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$events", credit=50, options=After(5))
        now = broker.look(lambda s: s.journal.last)
        assert numbers(receiver, now - 5) == list(range(6, now + 1))
        assert now >= last
        live = make_events(broker, 4)
        assert numbers(receiver, live - now) == list(range(now + 1, live + 1))


def test_follower_without_a_number_gets_only_new_events(broker: BrokerThread) -> None:
    make_events(broker, 10)
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$events", credit=10)
        before = broker.look(lambda s: s.journal.last)
        make_events(broker, 2)
        event = receiver.receive().body
        assert event["number"] == before + 1
        assert set(event) == {"number", "at", "kind", "object", "text", "attributes"}
        assert (event["kind"], event["object"]) == ("producers-stopped", "type=Broker")
        assert event["text"].startswith("[broker] HGT-1001 : Producers Stopped")
        assert event["attributes"]["actor"] == "test"


def test_two_followers_and_a_slow_one_each_see_every_event_once_in_order(broker: BrokerThread) -> None:
    first = broker.look(lambda s: s.journal.last)
    with (
        connected(broker, user="console") as one,
        connected(broker, user="console") as two,
        connected(broker, user="console") as three,
    ):
        fast = [c.create_receiver("$events", credit=400, options=After(first)) for c in (one, two)]
        slow = three.create_receiver("$events", credit=1, options=After(first))
        last = first
        for _ in range(5):
            last = make_events(broker, 40)
        wanted = list(range(first + 1, last + 1))
        for receiver in (*fast, slow):
            assert numbers(receiver, len(wanted)) == wanted
        assert broker.look(lambda s: max(len(link.waiting) for link in s.events._reached)) == 0


def test_a_replay_longer_than_a_turn_is_complete_and_lets_others_work(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_node, "AT_ONCE", 7)
    last = make_events(broker, 100)
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$events", credit=1000, options=After(0))
        fill(broker, "q", ["others work"])
        make_events(broker, 30)
        now = broker.look(lambda s: s.journal.last)
        assert numbers(receiver, now) == list(range(1, now + 1))
        assert now > last


def test_request_for_pruned_events_is_refused_with_the_first_available_number(broker: BrokerThread) -> None:
    last = make_events(broker, 30)
    broker.look(lambda s: s.journal.prune(s.clock.now() + 10**12))
    first = broker.look(lambda s: s.journal.first)
    assert first == last + 1
    with connected(broker, user="console") as connection:
        with pytest.raises(LinkDetached) as refused:
            connection.create_receiver("$events", credit=1, options=After(3), name="late")
        assert "headgate:events-expired" in str(refused.value)
        now = broker.look(lambda s: s.journal.last)
        receiver = connection.create_receiver("$events", credit=10, options=After(first - 1))
        assert numbers(receiver, now - first + 1) == list(range(first, now + 1))


def test_the_refusal_carries_the_first_number(broker: BrokerThread) -> None:
    make_events(broker, 30)
    broker.look(lambda s: s.journal.prune(s.clock.now() + 10**12))
    with connected(broker, user="console") as connection:
        links: list[Any] = []

        class Watch(After):
            def apply(self, link: Any) -> None:
                super().apply(link)
                links.append(link)

        with pytest.raises(LinkDetached):
            connection.create_receiver("$events", credit=1, options=Watch(3))
        [link] = links
        assert link.remote_condition.name == "headgate:events-expired"
        assert link.remote_condition.info == {"first": 31 + _events_before(broker)}


def _events_before(broker: BrokerThread) -> int:
    """Events of the start, before the thirty."""
    return broker.look(lambda s: s.journal.first) - 31


def test_follower_that_falls_behind_the_journal_gets_an_error(broker: BrokerThread) -> None:
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$events", credit=0, options=After(0))
        make_events(broker, event_node.TAIL + 200)
        broker.look(lambda s: s.journal.prune(s.clock.now() + 10**12))
        receiver.link.flow(1)
        with pytest.raises(LinkDetached, match="events-expired"):
            until(connection, lambda: False, "it gets the error")


@pytest.mark.parametrize("number", ["ten", -1, 1.5, True, None, [1]])
def test_invalid_number_is_refused(broker: BrokerThread, number: Any) -> None:
    with connected(broker, user="console") as connection, pytest.raises(LinkDetached, match="amqp:invalid-field"):
        connection.create_receiver("$events", credit=1, options=After(number))


def test_a_number_that_was_never_reached_is_of_another_journal_and_refused(broker: BrokerThread) -> None:
    with connected(broker, user="console") as connection:
        with pytest.raises(LinkDetached, match="the first is number 1"):
            connection.create_receiver("$events", credit=5, options=After(10**9))
        now = broker.look(lambda s: s.journal.last)
        receiver = connection.create_receiver("$events", credit=5, options=After(now), name="next")
        make_events(broker, 1)
        assert numbers(receiver, 1) == [now + 1]


@pytest.mark.parametrize("address", ["$events", "$samples"])
def test_sending_to_events_or_samples_is_refused(broker: BrokerThread, address: str) -> None:
    refused = pytest.raises(LinkDetached, match="can only be received from")
    with connected(broker, user="console") as connection, refused:
        connection.create_sender(address)


def test_numbers_go_on_after_a_restart_and_no_event_is_lost(tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "broker") as broker:
        last = make_events(broker, 10)
    with BrokerThread(tmp_path / "broker") as broker, connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$events", credit=100, options=After(last - 2))
        now = broker.look(lambda s: s.journal.last)
        assert now > last
        assert numbers(receiver, now - last + 2) == list(range(last - 1, now + 1))


def test_events_of_a_client_have_the_texts_of_the_broker_log(broker: BrokerThread) -> None:
    broker.queue("MyQueue", capacity_messages=10, flow_resume_messages=8)
    with Crowd(broker) as crowd:
        crowd.publisher("MyQueue")
        broker.until_queue("MyQueue", lambda q: q.gate.state.overfull, "it is overfull")
        size, depth = broker.see("MyQueue", lambda q: (q.gate.depth_bytes // 11, q.gate.depth_messages))
        assert depth == 11
        with connected(broker) as connection:
            receiver = connection.create_receiver("MyQueue", credit=3)
            for _ in range(3):
                receiver.receive()
                receiver.accept()
            until(connection, lambda: any("QUE-1004" in t for t in broker.texts()), "it is underfull")
    texts = broker.texts()
    subject = "[vh(/default)/qu(MyQueue)]"
    assert f"{subject} QUE-1001 : Create" in texts
    assert (
        f"{subject} QUE-1003 : Overfull : Size : {11 * size:,} bytes, Capacity : 0,"
        " Messages : 11, Message Capacity : 10"
    ) in texts
    assert (
        f"{subject} QUE-1004 : Underfull : Size : {8 * size:,} bytes, Resume Capacity : 0,"
        " Messages : 8, Message Capacity : 8"
    ) in texts
    [blocked] = [t for t in texts if "CHN-1005" in t][:1]
    assert blocked.startswith("[con:")
    assert "(anonymous@127.0.0.1:" in blocked
    assert blocked.endswith("/default)/ch:0] CHN-1005 : Flow Control Enforced (Queue MyQueue)")
    assert any(t.endswith("/default)/ch:0] CHN-1006 : Flow Control Removed") for t in texts)
    assert any("CON-1001 : Open" in t for t in texts)
    wait_until(lambda: any("CON-1002 : Close" in t for t in broker.texts()), "the close is reported")


def test_a_client_s_name_cannot_forge_a_line_of_the_log(broker: BrokerThread, caplog: pytest.LogCaptureFixture) -> None:
    from tests.amqp.frames import AMQP_HEADER, OPEN, anonymous_init, frame

    with caplog.at_level("INFO", "headgate.broker.events"), Peer(broker.port) as peer:
        peer.write(anonymous_init() + AMQP_HEADER + frame(OPEN, "x\n[broker] HGT-1001 : Producers Stopped\u2028"))
        peer.expect(OPEN)
        wait_until(lambda: "CON-1001" in caplog.text, "it is logged")
        lines = [r.getMessage() for r in caplog.records]
    assert any("Container : x\\n[broker] HGT-1001" in line for line in lines)
    assert not any("\n" in line or "\u2028" in line for line in lines)


def test_a_disk_that_is_full_holds_up_no_message_and_no_event_is_lost(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append = broker.service.journal.append

    def full(facts: Any) -> Any:
        raise StoreError("events.sqlite3: database or disk is full")

    before = broker.look(lambda s: s.journal.last)
    with caplog.at_level("INFO", "headgate.broker"):
        broker.look(lambda s: monkeypatch.setattr(s.journal, "append", full))
        fill(broker, "q", ["one", "two"])
        with managing(broker) as manager:
            assert manager.ask("READ", name="type=Broker").status == 200
            # The stop itself is stored: an incident must not wait for the history's disk.
            assert manager.ask("stop-producers", {"reason": "x"}, name="type=Broker").status == 200
        assert broker.look(lambda s: s.journal.last) == before
        broker.look(lambda s: monkeypatch.setattr(s.journal, "append", append))
        wait_until(lambda: "all changes are saved" in caplog.text, "it is tried again")
    assert caplog.text.count("disk is full") == 1, "once is enough"
    texts = "\n".join(broker.texts())
    for wanted in ("QUE-1001 : Create", "CON-1001", "CON-1002", "HGT-1001"):
        assert wanted in texts


def test_a_change_that_the_disk_does_not_take_is_not_confirmed(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise StoreError("config.sqlite3: database or disk is full")

    broker.look(lambda s: monkeypatch.setattr(s.store, "commit", full))
    with managing(broker) as manager, pytest.raises(ConnectionException):
        manager.ask("stop-producers", {"reason": "x"}, name="type=Broker")
    broker.look(lambda s: monkeypatch.undo())
    broker.look(lambda s: s.store.commit())


# -- samples --------------------------------------------------------------------------------------------------------


def test_samples_contain_changed_queues_with_their_rates_and_no_idle_ones(broker: BrokerThread) -> None:
    queue = "type=Queue,virtualhost=default,name=q"
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$samples", credit=100)
        fill(broker, "q", list(range(30)))
        depth, rates, quiet = 0, [], False
        while not quiet:
            body = receiver.receive().body
            for row in body["rows"]:
                sample = dict(zip(["object", *body["names"]], row, strict=True))
                if sample["object"] == queue:
                    depth = sample["depth_messages"]
                    rates.append(sample["rate_in"])
            quiet = len(rates) > 1 and rates[-1] == 0
    assert depth == 30
    assert max(rates) > 0
    broker.do(lambda s: s.broker.sample())
    assert broker.do(lambda s: s.broker.sample()) == []


def test_a_link_without_credit_piles_up_no_samples_and_gets_the_present_values_later(broker: BrokerThread) -> None:
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$samples", credit=0)
        for number in range(3):
            fill(broker, "q", [number])
            broker.do(lambda s: s._second())
        assert broker.look(lambda s: [len(link.waiting) for link in s.samples._links]) == [0]
        body = receiver.receive().body  # gives credit for one message
        depths = {row[0]: row[1 + body["names"].index("depth_messages")] for row in body["rows"]}
        assert depths["type=Queue,virtualhost=default,name=q"] == 3
        assert broker.look(lambda s: [len(missed) for missed in s.samples._missed.values()]) == [0]


def test_more_queues_than_a_follower_has_credit_for_are_all_sampled(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of 20 messages of 500 queues, which a console gives credit for."""
    monkeypatch.setattr(sample_node, "ROWS", 1)
    names = [f"q{number}" for number in range(7)]
    with connected(broker, user="console") as connection:
        for name in names:
            fill(broker, name, ["one"])
        broker.do(lambda s: s.broker.sample())
        receiver = connection.create_receiver("$samples", credit=2)
        for name in names:
            fill(broker, name, ["two"])
        broker.do(lambda s: s._second())
        found: dict[str, int] = {}
        while found != dict.fromkeys(names, 2):
            body = receiver.receive().body
            for row in body["rows"]:
                found[row[0].rpartition("=")[2]] = row[1 + body["names"].index("depth_messages")]


def test_samples_of_many_queues_are_made_in_turns_between_which_clients_are_served(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop of all producers changes all queues at once: 10,000 of them took a third of a second."""
    monkeypatch.setattr(sample_node, "ROWS", 2)
    monkeypatch.setattr(broker.service, "_timed_turn", lambda call: None)  # no second but the test's
    names = [f"q{number}" for number in range(9)]
    with connected(broker, user="console") as connection:
        for name in names:
            fill(broker, name, ["one"])
        receiver = connection.create_receiver("$samples", credit=100)
        left = broker.do(lambda s: (s._second(), len(s.samples._due))[1])
        assert left == len(names) - 2, "one message in the turn of the sample"
        found: set[str] = set()
        while found != set(names):
            rows = receiver.receive().body["rows"]
            assert len(rows) <= 2
            found |= {row[0].rpartition("=")[2] for row in rows}
