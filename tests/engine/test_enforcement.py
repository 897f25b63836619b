"""Enforced policies: equal to a naive resolution of the rules, all or nothing, and immediate in both directions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.engine.broker import Broker
from brokers.engine.flow.gate import FlowGate
from brokers.engine.flow.table import State
from brokers.engine.services import enforcement
from brokers.engine.values.limits import InvalidPolicy, Limits, resolve
from brokers.engine.values.policy import BUILT_IN, FIELDS, Policy, Setting, Value, explain
from brokers.model import POLICY
from brokers.model.patterns import matches
from tests.engine.simulation import START, Simulation
from tests.engine.test_best_match import naive_rank


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def create(world: Simulation, pattern: str, priority: int = 0, **given: Any) -> Policy:
    policy = world.broker.enforcement.create_policy(world.host, pattern, given, priority=priority, actor="ann")
    world.settle()
    return policy


def update(world: Simulation, policy: Policy, **given: Any) -> Policy:
    policy = world.broker.enforcement.update_policy(policy, given, priority=policy.priority, actor="ann")
    world.settle()
    return policy


def delete(world: Simulation, policy: Policy) -> None:
    world.broker.enforcement.delete_policy(policy, actor="ann")
    world.settle()


def restarted(world: Simulation) -> Broker:
    broker = Broker(START + 60_000)
    broker.restore([(kind, key, value) for (kind, key), value in world.records.items()])
    return broker


# -- the layers, one by one ------------------------------------------------------------------------------------


@pytest.mark.domain("2 defaults")
def test_each_field_comes_from_the_most_specific_layer_and_explain_names_it(world):
    queue = world.queue("orders.eu", capacity_bytes=1)
    stocks = world.broker.routing.create_exchange(
        world.host, "stocks", "topic", dict.fromkeys(("capacity_bytes", "capacity_messages", "reject_after_ms"), 3)
    )
    world.broker.routing.bind(stocks, queue, "#")
    create(world, "orders.>", capacity_bytes=2, capacity_messages=2)
    world.broker.set_virtualhost_defaults(
        world.host, {"reject_after_ms": 4, "producer_window_messages": 4, "mechanism": "hold"}
    )
    world.broker.set_broker_defaults({"producer_window_messages": 5, "mechanism": "reject", "flow_control": "on"})
    explained = explain(queue.gate.settings)
    assert explained["capacity_bytes"] == {"value": 1, "origin": "own"}
    assert explained["capacity_messages"] == {"value": 2, "origin": "pattern orders.>"}
    assert explained["reject_after_ms"] == {"value": 3, "origin": "exchange stocks"}
    assert explained["producer_window_messages"] == {"value": 4, "origin": "virtualhost"}
    assert explained["flow_control"] == {"value": "on", "origin": "broker"}
    assert explained["overflow"] == {"value": "producers", "origin": "built-in"}


@pytest.mark.domain("5 best match")
def test_fields_that_the_best_match_does_not_set_do_not_come_from_the_next_match(world):
    create(world, "orders.>", capacity_messages=5, capacity_bytes=500)
    create(world, "orders.eu.>", capacity_messages=7)
    queue = world.queue("orders.eu.late")
    assert (queue.gate.limits.capacity_messages, queue.gate.limits.capacity_bytes) == (7, 0)


def test_policy_of_one_virtual_host_does_not_apply_to_another(world):
    world.broker.create_virtualhost("other")
    create(world, ">", capacity_messages=5)
    assert world.queue("orders").gate.limits.capacity_messages == 5
    assert world.queue("orders", "other").gate.limits.capacity_messages == 0


@pytest.mark.domain("5 several exchanges")
@pytest.mark.parametrize(
    ("first", "second", "name", "value"),
    [
        ({"capacity_messages": 5}, {"capacity_messages": 3}, "capacity_messages", 3),
        ({"capacity_messages": 0}, {"capacity_messages": 9}, "capacity_messages", 9),
        ({"flow_stop_messages": "80%"}, {"flow_stop_messages": 30}, "flow_stop_messages", 30),
        ({"flow_stop_messages": "20%"}, {"flow_stop_messages": 30}, "flow_stop_messages", "20%"),
        ({"flow_stop_messages": 0}, {"flow_stop_messages": 30}, "flow_stop_messages", 30),
        ({"flow_resume_messages": 0}, {"flow_resume_messages": "10%"}, "flow_resume_messages", 0),
        ({"producer_window_messages": 0}, {"producer_window_messages": 2000}, "producer_window_messages", 0),
        ({"producer_window_messages": 0}, {"producer_window_messages": 20}, "producer_window_messages", 20),
        ({"producer_window_bytes": 0}, {"producer_window_bytes": 2000}, "producer_window_bytes", 2000),
        ({"overflow": "ring"}, {"overflow": "producers"}, "overflow", "producers"),
        ({"flow_control": "off"}, {"flow_control": "on"}, "flow_control", "on"),
        ({"mechanism": "hold"}, {"mechanism": "reject"}, "mechanism", "hold"),
        ({"reject_after_ms": 0}, {"reject_after_ms": 20}, "reject_after_ms", 0),
    ],
)
def test_strictest_value_of_several_exchanges_applies(world, first, second, name, value):
    world.broker.set_virtualhost_defaults(world.host, {"capacity_messages": 100})
    queue = world.queue("orders")
    for number, own in enumerate((first, second)):
        exchange = world.broker.routing.create_exchange(world.host, f"x{number}", "fanout", own)
        world.broker.routing.bind(exchange, queue)
    winner = f"exchange x{[first, second].index({name: value})}"
    assert explain(queue.gate.settings)[name] == {"value": value, "origin": winner}


# -- at once, in both directions, while traffic runs -----------------------------------------------------------


@pytest.mark.domain("3 managed at run time")
def test_creating_a_policy_blocks_and_deleting_it_unblocks_at_once(world):
    queue = world.queue("orders.eu")
    sender = world.sender(queue)
    assert world.send(sender, 20) == 20
    policy = create(world, "orders.>", capacity_messages=10)
    assert queue.gate.state is State.OVERFULL
    assert sender.producer.blocked
    delete(world, policy)
    assert queue.gate.state is State.NORMAL
    assert not sender.producer.blocked
    assert world.send(sender, 20) == 20


def test_raising_a_policy_unblocks_a_producer_and_lowering_it_blocks_it_again(world):
    policy = create(world, "orders.>", capacity_messages=10)
    queue = world.queue("orders.eu")
    sender = world.sender(queue)
    world.send(sender, 50)
    assert (queue.gate.state, queue.gate.depth_messages) == (State.OVERFULL, 11)
    policy = update(world, policy, capacity_messages=20)
    assert queue.gate.state is State.NORMAL
    world.send(sender, 50)
    assert queue.gate.depth_messages == 21
    update(world, policy, capacity_messages=5)
    assert sender.producer.blocked
    assert "5 messages" in sender.producer.release_condition()


def test_better_match_applies_until_it_is_deleted(world):
    create(world, "orders.>", capacity_messages=10)
    queue = world.queue("orders.eu")
    better = create(world, "orders.*", capacity_messages=20, priority=1)
    assert queue.gate.limits.stop_messages == 20
    better = world.broker.enforcement.update_policy(better, {"capacity_messages": 30}, priority=1)
    assert queue.gate.limits.stop_messages == 30
    world.broker.enforcement.delete_policy(better)
    assert queue.gate.limits.stop_messages == 10


@pytest.mark.domain("5 best match")
def test_changing_the_priority_changes_the_best_match(world):
    create(world, "*.eu.*", capacity_messages=1, priority=5)
    other = create(world, "*.*.late", capacity_messages=2)
    queue = world.queue("orders.eu.late")
    assert queue.gate.limits.stop_messages == 1
    other = world.broker.enforcement.update_policy(other, other.given, priority=6)
    assert queue.gate.limits.stop_messages == 2
    world.broker.enforcement.update_policy(other, other.given, priority=4)
    assert queue.gate.limits.stop_messages == 1


@pytest.mark.domain("3 policies on queues and exchanges")
def test_binding_and_unbinding_change_effective_values_at_once(world):
    queue = world.queue("orders")
    sender = world.sender(queue)
    world.send(sender, 20)
    stocks = world.broker.routing.create_exchange(world.host, "stocks", "fanout", {"capacity_messages": 10})
    world.broker.routing.bind(stocks, queue)
    world.broker.routing.bind(stocks, queue, "again")
    assert queue.gate.state is State.OVERFULL
    world.broker.routing.unbind(stocks, queue)
    assert queue.gate.state is State.OVERFULL
    world.broker.routing.unbind(stocks, queue, "again")
    assert queue.gate.state is State.NORMAL
    assert queue.gate.settings["capacity_messages"].origin == "built-in"


# -- refused: all or nothing -----------------------------------------------------------------------------------


def refused(change: Callable[[], object]) -> dict[str, str]:
    with pytest.raises(InvalidValue) as caught:
        change()
    return dict(caught.value.errors)


def test_policy_that_contradicts_one_queue_changes_none_and_names_queue_pattern_and_values(world):
    fine = world.queue("orders.a")
    world.queue("orders.b", capacity_messages=500, flow_stop_messages=300)
    world.queue("orders.c")
    before = world.records.copy()
    errors = refused(lambda: create(world, "orders.>", capacity_messages=1000, flow_resume_messages=800))
    (text,) = errors.values()
    assert list(errors) == ["flow_resume_messages"]
    assert "queue default/orders.b with pattern orders.>" in text
    assert "800 (from pattern orders.>)" in text
    assert "300" in text
    assert fine.gate.limits == Limits()
    assert world.host.policies.by_pattern == {}
    world.settle()
    assert world.records == before
    assert "policy-changed" not in world.kinds()


def test_policy_that_contradicts_itself_or_what_it_inherits_is_refused_even_without_queues(world):
    assert "flow_stop_messages" in refused(lambda: create(world, "x", capacity_messages=5, flow_stop_messages=6))
    world.broker.set_virtualhost_defaults(world.host, {"flow_resume_messages": 10})
    text = refused(lambda: create(world, "x", capacity_messages=5))["flow_resume_messages"]
    assert "10 (from the virtualhost's defaults)" in text
    assert "5" in text


def test_deleting_a_policy_that_a_queue_needs_is_refused(world):
    policy = create(world, "orders.>", capacity_messages=100)
    world.broker.set_virtualhost_defaults(world.host, {"capacity_messages": 10})
    queue = world.queue("orders.eu", flow_stop_messages=50)
    text = refused(lambda: delete(world, policy))["flow_stop_messages"]
    assert "queue default/orders.eu without pattern orders.>" in text
    assert "50" in text
    assert "10 (from the virtualhost's defaults)" in text
    assert queue.gate.limits.capacity_messages == 100
    assert list(world.host.policies.by_pattern) == ["orders.>"]


def test_defaults_that_contradict_a_policy_are_refused_and_name_it(world):
    create(world, "orders.>", capacity_messages=10)
    text = refused(lambda: world.broker.set_broker_defaults({"flow_resume_messages": 20}))["flow_resume_messages"]
    assert "pattern orders.> of virtual host default" in text
    assert "20 (from the broker's defaults)" in text
    assert world.broker.registry.defaults == {}


def test_binding_that_contradicts_the_queue_is_refused_and_not_made(world):
    queue = world.queue("orders", flow_stop_messages=50)
    stocks = world.broker.routing.create_exchange(world.host, "stocks", "fanout", {"capacity_messages": 10})
    text = refused(lambda: world.broker.routing.bind(stocks, queue))["flow_stop_messages"]
    assert "queue default/orders with exchange stocks" in text
    assert "10 (from exchange stocks)" in text
    assert not stocks.bindings
    assert not world.host.bound


def test_exchanges_policy_that_contradicts_a_bound_queue_is_refused(world):
    queue = world.queue("orders", flow_stop_messages=50)
    stocks = world.broker.routing.create_exchange(world.host, "stocks", "fanout")
    world.broker.routing.bind(stocks, queue)
    text = refused(lambda: world.broker.routing.set_policy(stocks, {"capacity_messages": 10}))["flow_stop_messages"]
    assert "queue default/orders with exchange stocks" in text
    assert (stocks.own, stocks.version, queue.gate.limits.capacity_messages) == ({}, 1, 0)


@pytest.mark.parametrize("pattern", ["", "a..b", "a.>.b", "a*", " a", "a" * 256, "a\nb"])
def test_invalid_pattern_is_refused(world, pattern):
    assert list(refused(lambda: create(world, pattern))) == ["pattern"]
    assert not world.host.policies.by_pattern


def test_policy_is_not_created_twice_and_an_unknown_one_is_not_found(world):
    create(world, "a.>", capacity_messages=1)
    with pytest.raises(AlreadyExists, match=r"a\.>"):
        create(world, "a.>", capacity_messages=2)
    with pytest.raises(NotFound, match=r"b\.>"):
        world.broker.enforcement.policy("default", "b.>")


# -- records and facts -----------------------------------------------------------------------------------------


def test_policies_survive_a_restart(world):
    world.queue("orders.eu")
    policy = update(world, create(world, "orders.>", 3, capacity_messages=10), capacity_messages=12)
    delete(world, create(world, "gone.>", capacity_messages=1))
    broker = restarted(world)
    found = broker.enforcement.policy("default", "orders.>")
    assert (found.priority, found.version, dict(found.given)) == (3, policy.version, {"capacity_messages": 12})
    assert list(broker.virtualhost("default").policies.by_pattern) == ["orders.>"]
    assert broker.queue("default", "orders.eu").gate.limits.stop_messages == 12
    assert broker.virtualhost("default").policies.count("orders.>") == 1
    assert not broker.turn.take_facts()
    assert not broker.turn.take_records()


def test_changes_of_a_policy_are_facts_with_before_and_after(world):
    world.queue("orders.eu")
    world.facts.clear()
    policy = create(world, "orders.>", capacity_messages=10)
    policy = update(world, policy, capacity_bytes=100)
    delete(world, policy)
    facts = [f for f in world.facts if f.kind == "policy-changed"]
    assert [f.object for f in facts] == [policy.object_name] * 3
    assert [(f.attributes["change"], f.attributes["before"], f.attributes["after"]) for f in facts] == [
        ("created", {"priority": None, "capacity_messages": None}, {"priority": 0, "capacity_messages": 10}),
        (
            "changed",
            {"capacity_bytes": None, "capacity_messages": 10},
            {"capacity_bytes": 100, "capacity_messages": None},
        ),
        ("deleted", {"priority": 0, "capacity_bytes": 100}, {"priority": None, "capacity_bytes": None}),
    ]
    assert [f.text.partition("HGT-1003 : ")[2] for f in facts] == [
        "Policy Created : priority 0, capacity_messages 10",
        "Policy Changed : capacity_bytes inherited -> 100, capacity_messages 10 -> inherited",
        "Policy Deleted : priority 0, capacity_bytes 100",
    ]
    assert all((f.attributes["actor"], f.attributes["queues"]) == ("ann", 1) for f in facts)


def test_deleting_a_virtual_host_deletes_its_policies_and_exchanges(world):
    host = world.broker.create_virtualhost("other")
    queue = world.queue("orders", "other")
    world.broker.enforcement.create_policy(host, ">", {"capacity_messages": 1})
    stocks = world.broker.routing.create_exchange(host, "stocks", "fanout")
    world.broker.routing.bind(stocks, queue, "a")
    world.broker.delete_virtualhost(host)
    world.settle()
    assert {key[1] for key in world.records} == {"type=VirtualHost,name=default"}


# -- the cost of a change --------------------------------------------------------------------------------------


class Work:
    """Counts how often a change resolves limits, and how often it applies them to a queue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resolved = 0
        self.applied = 0
        set_limits = FlowGate.set_limits

        def counted_resolve(settings: Any) -> Limits:
            self.resolved += 1
            return resolve(settings)

        def counted_set_limits(gate: FlowGate, *given: Any) -> None:
            self.applied += 1
            set_limits(gate, *given)

        monkeypatch.setattr(enforcement, "resolve", counted_resolve)
        monkeypatch.setattr(FlowGate, "set_limits", counted_set_limits)
        self.start()

    def start(self) -> None:
        enforcement.effective.cache_clear()
        self.resolved = self.applied = 0


def test_cost_of_a_policy_change_is_proportional_to_changed_queues(world, monkeypatch):
    for area in range(20):
        create(world, f"area{area}.>", capacity_messages=10 + area)
        for n in range(20):
            world.queue(f"area{area}.queue{n}", **({"capacity_messages": 5} if n == 0 else {}))
    work = Work(monkeypatch)

    create(world, "area3.queue7", capacity_messages=99)
    assert (work.resolved, work.applied) == (1, 1)  # valid alone, as for its queue

    work.start()
    policy = world.broker.enforcement.policy("default", "area4.>")
    update(world, policy, capacity_messages=50)
    # Valid alone, as for the 19 queues without fields; the 20th has its own capacity.
    assert (work.resolved, work.applied) == (2, 19)

    work.start()
    every = create(world, ">", capacity_bytes=77)
    assert (work.resolved, work.applied) == (1, 0)  # no queue's best match

    work.start()
    delete(world, every)
    assert (work.resolved, work.applied) == (0, 0)

    work.start()
    world.broker.set_broker_defaults({"capacity_messages": 1000})
    assert work.applied == 0  # patterns override it for all of the 400
    assert work.resolved <= 2 + 21 + 40

    work.start()
    world.broker.set_virtualhost_defaults(world.host, {"capacity_bytes": 10_000})
    assert work.applied == 400
    assert work.resolved <= 1 + 21 + 40


def test_queues_with_equal_layers_share_one_result(world):
    create(world, "orders.>", capacity_messages=10)
    first, second = world.queue("orders.a"), world.queue("orders.b")
    assert first.gate.settings is second.gate.settings
    assert first.gate.limits is second.gate.limits


# -- random changes --------------------------------------------------------------------------------------------

NAMES = ["a", "a.b", "a.b.c", "b", "b.c"]
PATTERNS = [">", "a.>", "a.*", "*.b", "a.b", "*.c", "*", "#"]
EXCHANGES = ["x", "y", "z"]

given_fields = st.fixed_dictionaries(
    {},
    optional={
        "capacity_messages": st.sampled_from([0, 5, 10, 100]),
        "capacity_bytes": st.sampled_from([0, 1000]),
        "flow_stop_messages": st.sampled_from([0, 4, 50, "50%", "80%"]),
        "flow_resume_messages": st.sampled_from([0, 4, 20, "40%", "80%"]),
        "flow_control": st.sampled_from(["on", "off"]),
        "mechanism": st.sampled_from(["block", "reject"]),
        "overflow": st.sampled_from(["producers", "ring"]),
        "producer_window_bytes": st.sampled_from([0, 900]),
        "producer_window_messages": st.sampled_from([0, 3]),
    },
)
CHOICES = {a.name: a.choices for a in POLICY if a.choices}
Place = tuple[str, dict[str, Value]]


@dataclass
class Model:
    """The fields that each object sets."""

    broker: dict[str, Value] = field(default_factory=dict)
    host: dict[str, Value] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    exchanges: dict[str, dict[str, Value]] = field(default_factory=dict)
    queues: dict[str, dict[str, Value]] = field(default_factory=dict)
    bindings: set[tuple[str, str, str]] = field(default_factory=set)

    def settings(self, own: dict[str, Value], pattern: Place | None, exchanges: list[Place]) -> dict[str, Setting]:
        layers: list[list[Place]] = [
            [("own", own)],
            [pattern] if pattern else [],
            exchanges,
            [("virtualhost", self.host)],
            [("broker", self.broker)],
        ]
        found: dict[str, Setting] = {}
        for name in FIELDS:
            found[name] = Setting(BUILT_IN[name], "built-in", 5)
            for rank, places in reversed(list(enumerate(layers))):
                setters = [(origin, given[name]) for origin, given in places if name in given]
                if setters:
                    capacity = found.get(name.replace("flow_stop", "capacity").replace("flow_resume", "capacity"))
                    origin, value = min(setters, key=lambda s: (self.laxity(name, s[1], capacity), s[0]))
                    found[name] = Setting(value, origin, rank)
        return found

    @staticmethod
    def laxity(name: str, value: Value, capacity: Setting | None) -> Any:
        if name in CHOICES:
            return CHOICES[name].index(str(value))
        if isinstance(value, str):
            assert capacity is not None
            if not capacity.value:
                return float("inf")
            value = int(Fraction(value.rstrip("%")) * int(capacity.value) / 100)
        if value == 0 and name == "producer_window_messages":
            return 1000
        return float("inf") if value == 0 and "resume" not in name else value

    def of_queue(self, name: str) -> dict[str, Setting]:
        found = [p for p in self.policies.values() if matches(p.pattern, name)]
        best = max(found, key=naive_rank) if found else None
        bound = sorted({x for x, queue, _ in self.bindings if queue == name})
        return self.settings(
            self.queues[name],
            (f"pattern {best.pattern}", dict(best.given)) if best else None,
            [(f"exchange {x}", self.exchanges[x]) for x in bound],
        )

    def contradictory(self) -> bool:
        """Return whether the fields are contradictory for a present or future queue."""
        every = [self.settings({}, None, []), Model(self.broker).settings({}, None, [])]
        every += [self.settings({}, ("p", dict(p.given)), []) for p in self.policies.values()]
        every += [self.settings({}, None, [("x", own)]) for own in self.exchanges.values()]
        every += [self.of_queue(name) for name in self.queues]
        try:
            for settings_ in every:
                resolve(settings_)
        except InvalidPolicy:
            return True
        return False


class Changes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = Simulation()
        self.model = Model()

    def change(self, model: Model, make: Callable[[], object]) -> None:
        """Make a change that leads to this model, unless it is contradictory."""
        before = self.observed_state()
        if model.contradictory():
            with pytest.raises(InvalidValue):
                make()
            assert self.observed_state() == before, "a refused change had an effect"
            self.world.settle()
            assert self.observed_state() == before
        else:
            make()
            self.model = model
            self.world.settle()

    def observed_state(self) -> Any:
        """Return everything that a refused change must not alter."""
        host = self.world.host
        return copy.deepcopy(
            (
                self.world.broker.registry.defaults,
                host.defaults,
                {p.pattern: (p.given, p.priority, p.version) for p in host.policies.by_pattern.values()},
                {x.name: (x.own, x.version, self.keys(x)) for x in host.exchanges.values()},
                {q.name: (q.own, q.gate.limits, explain(q.gate.settings), q.version) for q in host.queues.values()},
                len(self.world.broker.turn.records),
                len(self.world.broker.turn.facts),
                self.world.records,
            )
        )

    @staticmethod
    def keys(exchange: Any) -> dict[str, list[str]]:
        return {queue.name: list(keys) for queue, keys in exchange.bindings.items()}

    @rule(given=given_fields)
    def set_broker_defaults(self, given: dict[str, Value]) -> None:
        model = copy.deepcopy(self.model)
        model.broker = given

        def make() -> None:
            self.world.broker.set_broker_defaults(given)
            self.world.broker.records.persist_broker()

        self.change(model, make)

    @rule(given=given_fields)
    def set_host_defaults(self, given: dict[str, Value]) -> None:
        model = copy.deepcopy(self.model)
        model.host = given

        def make() -> None:
            self.world.broker.set_virtualhost_defaults(self.world.host, given)
            self.world.broker.records.persist_virtualhost(self.world.host)

        self.change(model, make)

    @rule(pattern=st.sampled_from(PATTERNS), given=given_fields, priority=st.integers(0, 2))
    def put_a_policy(self, pattern: str, given: dict[str, Value], priority: int) -> None:
        model = copy.deepcopy(self.model)
        model.policies[pattern] = Policy("default", pattern, given, priority)
        control, old = self.world.broker.enforcement, self.world.host.policies.by_pattern.get(pattern)
        if old is None:
            self.change(
                model, lambda: control.create_policy(self.world.host, pattern, given, priority=priority, actor="ann")
            )
        else:
            self.change(model, lambda: control.update_policy(old, given, priority=priority))

    @rule(pattern=st.sampled_from(PATTERNS))
    def delete_a_policy(self, pattern: str) -> None:
        old = self.world.host.policies.by_pattern.get(pattern)
        if old is not None:
            model = copy.deepcopy(self.model)
            del model.policies[pattern]
            self.change(model, lambda: self.world.broker.enforcement.delete_policy(old))

    @rule(name=st.sampled_from(NAMES), own=given_fields)
    def put_a_queue(self, name: str, own: dict[str, Value]) -> None:
        model, broker = copy.deepcopy(self.model), self.world.broker
        model.queues[name] = own
        queue = self.world.host.queues.get(name)
        if queue is None:
            self.change(model, lambda: broker.create_queue(self.world.host, name, own))
        else:
            self.change(model, lambda: broker.set_own_policy(queue, own))

    @rule(name=st.sampled_from(NAMES))
    def delete_a_queue(self, name: str) -> None:
        queue = self.world.host.queues.get(name)
        if queue is not None:
            model = copy.deepcopy(self.model)
            del model.queues[name]
            model.bindings = {b for b in model.bindings if b[1] != name}
            self.change(model, lambda: self.world.broker.delete_queue(queue))

    @rule(name=st.sampled_from(EXCHANGES), own=given_fields)
    def put_an_exchange(self, name: str, own: dict[str, Value]) -> None:
        model, routing = copy.deepcopy(self.model), self.world.broker.routing
        model.exchanges[name] = own
        exchange = self.world.host.exchanges.get(name)
        if exchange is None:
            self.change(model, lambda: routing.create_exchange(self.world.host, name, "direct", own))
        else:
            self.change(model, lambda: routing.set_policy(exchange, own))

    @rule(name=st.sampled_from(EXCHANGES))
    def delete_an_exchange(self, name: str) -> None:
        exchange = self.world.host.exchanges.get(name)
        if exchange is not None:
            model = copy.deepcopy(self.model)
            del model.exchanges[name]
            model.bindings = {b for b in model.bindings if b[0] != name}
            self.change(model, lambda: self.world.broker.routing.delete_exchange(exchange))

    @rule(x=st.sampled_from(EXCHANGES), name=st.sampled_from(NAMES), key=st.sampled_from("kl"), binds=st.booleans())
    def bind_or_unbind(self, x: str, name: str, key: str, binds: bool) -> None:
        exchange, queue = self.world.host.exchanges.get(x), self.world.host.queues.get(name)
        if exchange is None or queue is None:
            return
        model, routing = copy.deepcopy(self.model), self.world.broker.routing
        (model.bindings.add if binds else model.bindings.discard)((x, name, key))
        self.change(model, lambda: (routing.bind if binds else routing.unbind)(exchange, queue, key))

    @invariant()
    def every_queue_has_and_explains_the_effective_values(self) -> None:
        assert set(self.world.host.queues) == set(self.model.queues)
        for name, queue in self.world.host.queues.items():
            expected = self.model.of_queue(name)
            assert explain(queue.gate.settings) == explain(expected), name
            assert queue.gate.limits == resolve(expected), name
            assert (queue.gate.stop_bytes, queue.gate.stop_messages) == (
                queue.gate.limits.stop_bytes,
                queue.gate.limits.stop_messages,
            )

    def teardown(self) -> None:
        """A broker restored from the records equals this one."""
        broker = restarted(self.world)
        host = broker.virtualhost("default")
        assert {n: (explain(q.gate.settings), q.gate.limits) for n, q in host.queues.items()} == {
            n: (explain(q.gate.settings), q.gate.limits) for n, q in self.world.host.queues.items()
        }
        assert {x.name: self.keys(x) for x in host.exchanges.values()} == {
            x.name: self.keys(x) for x in self.world.host.exchanges.values()
        }


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=60, stateful_step_count=30)
