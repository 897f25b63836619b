"""Rules about queue conditions: overfull, blocked, stopped, dead letters, depth, oldest message, lost consumers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from brokers.admin import NotAllowed
from brokers.model import object_name
from console.alerts.consumed_queues import ConsumedQueues
from console.alerts.evaluator import Evaluator
from console.alerts.models import Alert, ConsumedQueue, Notification, Rule
from console.alerts.queue_conditions import QUEUE_CONDITIONS, Known, age_text, dead_letter_queues, matching_conditions
from tests.console.alerts.test_transitions import ORDERS, T0, World
from tests.console.conftest import Broker, until


def row(**values: Any) -> dict[str, Any]:
    return {
        "object": ORDERS,
        "virtualhost": "default",
        "name": "orders.1",
        "state": "NORMAL",
        "depth_messages": 0,
        "producers": 2,
        "blocked_producers": 0,
        "consumers": 1,
        "effective_capacity_messages": 120,
        "effective_capacity_bytes": None,
        "depth_bytes": None,
        "oldest_message_at": None,
        "overfull_since": None,
        "stopped_since": None,
        **values,
    }


def ms(at: float) -> int:
    return int((T0.timestamp() + at) * 1000)


CASES: dict[str, dict[str, Any]] = {
    "overfull": {"state": "OVERFULL", "overfull_since": ms(0), "depth_messages": 5},
    "producers-blocked": {"state": "OVERFULL", "blocked_producers": 1, "overfull_since": ms(0)},
    "stopped": {"state": "STOPPED", "stopped_since": ms(0)},
    "dead-letters": {"depth_messages": 1},
    "depth-above": {"depth_messages": 101},
    "depth-above-percent": {"depth_messages": 97},
    "oldest-message": {"oldest_message_at": ms(-1000)},
    "consumers-lost": {"consumers": 0},
}


def known(at: float = 0) -> Known:
    """What is known besides the rows, `at` seconds after the start."""
    return Known(ms(at), {ORDERS}, {ORDERS})


@pytest.mark.parametrize("kind", QUEUE_CONDITIONS)
def test_condition_fires_after_the_pending_period_and_resolves(kind: str) -> None:
    world = World(kinds=[kind], holds=600, depth=100)

    def notified(at: float, *, bad: bool = True) -> Any:
        rows = [row(**CASES[kind]) if bad else row()]
        return world.notified(*matching_conditions(world.rule, "local", rows, known(at)), at=at)

    assert notified(0) == {}
    for at in range(30, 600, 30):
        assert notified(at) == {}
    assert notified(600) == {"firing": 1}
    assert notified(630) == {}
    assert notified(660, bad=False) == {"resolved": 1}


@pytest.mark.parametrize("kind", QUEUE_CONDITIONS)
def test_unreported_values_meet_no_condition(kind: str) -> None:
    rule = Rule(kinds=[kind], depth=0, depth_percent=1, message_age=1)
    none = {name: None for name in row() if name not in ("object", "virtualhost", "name")}
    assert not list(matching_conditions(rule, "local", [row(**none)], known()))


def test_oldest_message_that_is_replaced_by_another_old_one_does_not_restart_the_pending_period() -> None:
    world = World(kinds=["oldest-message"], holds=60, message_age=600)

    def notified(at: float, arrived: float | None) -> Any:
        rows = [row(oldest_message_at=None if arrived is None else ms(arrived))]
        return world.notified(*matching_conditions(world.rule, "local", rows, known(at)), at=at)

    assert [notified(at, at - 601) for at in range(0, 60, 10)] == [{}] * 6
    assert notified(60, -541) == {"firing": 1}
    assert notified(70, -529) == {"resolved": 1}, "599 s"
    assert notified(80, 3000) == {}, "a broker whose clock was set back"
    assert notified(90, None) == {}


def test_depth_in_percent_compares_messages_and_bytes_with_the_capacity() -> None:
    rule = Rule(kinds=["depth-above-percent"], depth_percent=80)

    def met(**values: Any) -> bool:
        return bool(list(matching_conditions(rule, "local", [row(**values)], known())))

    assert not met(depth_messages=96)  # 80 of 100
    assert met(depth_messages=97)
    assert met(depth_messages=1, depth_bytes=810, effective_capacity_bytes=1000)
    assert not met(depth_messages=10**6, effective_capacity_messages=0)
    assert not met(depth_messages=10**6, effective_capacity_messages=None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (90000, "1 d 1 h"), (86400, "1 d")],
)
def test_age_is_written_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert age_text(seconds) == text


@pytest.mark.django_db
class TestConsumedQueues:
    RULE = Rule(kinds=["consumers-lost"], pattern="orders.>")

    def update(self, *rows: Any, rules: Any = None, complete: bool = True, memory: Any = None) -> set[str]:
        memory = memory or ConsumedQueues()
        return set(memory.update("local", [self.RULE] if rules is None else rules, rows, complete=complete))

    def test_queue_without_consumers_so_far_has_lost_none(self) -> None:
        assert self.update(row(consumers=0)) == set()
        assert self.update(row(consumers=None)) == set()

    def test_consumers_are_remembered_over_a_restart(self) -> None:
        assert self.update(row(consumers=1)) == {ORDERS}
        assert self.update(row(consumers=0)) == {ORDERS}, "by another process"

    def test_queues_that_no_rule_covers_are_not_recorded(self) -> None:
        bills = row(object="type=Queue,virtualhost=default,name=bills", name="bills")
        assert self.update(bills) == set()

    def test_deleted_queue_is_forgotten_but_not_while_the_rows_are_incomplete(self) -> None:
        memory = ConsumedQueues()
        assert self.update(row(), memory=memory) == {ORDERS}
        assert self.update(complete=False, memory=memory) == {ORDERS}
        assert self.update(memory=memory) == set()
        assert self.update(row(consumers=0), memory=memory) == set(), "a new queue of the same name"

    def test_without_a_rule_nothing_is_recorded(self) -> None:
        assert self.update(row()) == {ORDERS}
        assert self.update(row(), rules=[]) == set()
        assert not ConsumedQueue.objects.exists()


@pytest.mark.parametrize("kind", ["overfull", "stopped"])
def test_pending_period_starts_when_the_condition_began(kind: str) -> None:
    world = World(kinds=[kind], holds=3600)
    assert world.notified(*matching_conditions(world.rule, "local", [row(**CASES[kind])], known()), at=7200) == {
        "firing": 1
    }


def test_producer_that_attaches_to_a_queue_overfull_for_hours_has_just_been_blocked() -> None:
    world = World(kinds=["producers-blocked"], holds=300)

    def notified(at: float, producers: int) -> Any:
        rows = [row(**{**CASES["producers-blocked"], "stopped_since": ms(0), "blocked_producers": producers})]
        return world.notified(*matching_conditions(world.rule, "local", rows, known(at)), at=at)

    assert notified(7200, 0) == {}
    assert [notified(at, 1) for at in range(7230, 7530, 30)] == [{}] * 10
    assert notified(7530, 1) == {"firing": 1}


def test_condition_that_restarted_between_two_polls_is_pending_again() -> None:
    world = World(kinds=["overfull"], holds=60)
    world.evaluate(*matching_conditions(world.rule, "local", [row(**CASES["overfull"])], known()), at=50)
    again = row(state="OVERFULL", overfull_since=ms(55))
    assert world.notified(*matching_conditions(world.rule, "local", [again], known()), at=70) == {}
    assert world.notified(*matching_conditions(world.rule, "local", [again], known()), at=115) == {"firing": 1}


def test_depth_at_the_threshold_and_queues_outside_the_scope_do_not_match() -> None:
    rule = Rule(kinds=["depth-above"], depth=100, pattern="orders.>")
    assert not list(matching_conditions(rule, "local", [row(depth_messages=100)], known()))
    bills = row(object="type=Queue,virtualhost=default,name=bills", name="bills", depth_messages=500)
    assert not list(matching_conditions(rule, "local", [bills], known()))


def test_dead_letter_queues_of_queues_hosts_and_the_broker_are_found() -> None:
    def queue(name: str, **values: Any) -> dict[str, Any]:
        return row(object=str(object_name("Queue", virtualhost="default", name=name)), name=name, **values)

    rows = [queue("a", dead_letter_queue="dead.a"), queue("dead.a"), queue("dead"), queue("all"), queue("b")]
    scopes = [{"dead_letter_queue": "all"}, {"virtualhost": "default", "dead_letter_queue": "dead"}]
    found = dead_letter_queues(rows, [*scopes, {"virtualhost": "other", "dead_letter_queue": "b"}])
    assert found == {rows[1]["object"], rows[2]["object"], rows[3]["object"]}


@pytest.mark.django_db
def test_dead_letters_of_a_live_broker_fire_an_alert(broker: Broker) -> None:
    def letters(memory: Any) -> None:
        memory.management.create(
            object_name("Policy", virtualhost="default", pattern="orders.>"), {"dead_letter_queue": "dead"}
        )
        memory.fill("dead", 3)
        memory._end_turn()

    link = broker.connected()
    broker.do(letters)
    broker.sample()
    dead = str(object_name("Queue", virtualhost="default", name="dead"))
    until(lambda: (link.queue(dead) or {}).get("depth_messages") == 3)
    Rule.objects.create(name="letters", kinds=["dead-letters"], holds=0)
    Evaluator(lambda: [link], lambda number: None, now=lambda: T0 + dt.timedelta(days=3650)).poll()
    alert = Alert.objects.get()
    assert (alert.kind, alert.object, alert.saw) == ("dead-letters", dead, "Dead letters in the queue: 3.")
    assert Notification.objects.get().phase == "firing"


@pytest.mark.django_db
def test_scopes_that_cannot_be_read_disable_no_other_rule_and_end_no_alert(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = broker.connected()
    broker.do(lambda memory: memory.fill("orders", 6))
    broker.sample()
    orders = str(object_name("Queue", virtualhost="default", name="orders"))
    until(lambda: (link.queue(orders) or {}).get("depth_messages") == 6)
    Rule.objects.create(name="letters", kinds=["dead-letters"], holds=0)
    Rule.objects.create(name="deep", kinds=["depth-above"], depth=5, holds=0)
    reads: list[Any] = []
    scopes: list[Any] = [{"virtualhost": "default", "dead_letter_queue": "orders"}]

    def read_scopes(link: Any) -> Any:
        reads.append(link)
        if not scopes:
            raise NotAllowed("you may not list patterns")
        return list(scopes)

    monkeypatch.setattr("console.alerts.evaluator.read_scopes", read_scopes)
    seconds = 0.0
    evaluator = Evaluator(
        lambda: [link], lambda number: None, clock=lambda: seconds, now=lambda: T0 + dt.timedelta(seconds=seconds)
    )

    def state() -> dict[str, str]:
        return dict(Alert.objects.values_list("kind", "state"))

    evaluator.poll()
    assert state() == {"dead-letters": "firing", "depth-above": "firing"}
    scopes.clear()
    Alert.objects.filter(kind="depth-above").delete()
    reads.clear()
    for second in range(31, 60):
        seconds = float(second)
        evaluator.poll()
    assert state() == {"dead-letters": "firing", "depth-above": "firing"}
    assert len(reads) == 1, "a refusal is remembered, too"
    scopes.append({})
    seconds = 100.0
    evaluator.poll()
    assert state() == {"dead-letters": "resolved", "depth-above": "firing"}
