"""Operators' stops: scopes, the results of calls, and restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from brokers.admin import InvalidValue, NotFound
from brokers.engine.broker import Broker
from brokers.engine.flow.table import State
from brokers.engine.values.clients import Client
from brokers.engine.values.stage import Stage
from brokers.engine.values.stops import End, Halt, Scope, Stop
from tests.engine.simulation import START, Simulation
from tests.engine.test_policy import patterns

EVERYWHERE = Scope()

hosts = st.sampled_from(["", "a", "b"])
queue_names = st.sampled_from(["a", "b", "a.a", "a.b", "b.a.b"])
scopes = st.one_of(
    st.builds(Scope, hosts, st.just(""), patterns),
    st.builds(Scope, st.sampled_from(["a", "b"]), queue_names, st.just("")),
    st.builds(Scope, st.sampled_from(["a", "b"]), exchange=st.sampled_from(["x", "y"])),
)
#: Names with the longest pattern's words and one more, in either virtual host, with the exchanges they are bound to.
PLACES = [
    (host, name, bound)
    for bound in ([], ["x"], ["x", "y"])
    for host in ("a", "b")
    for name in ("a", "b", "c", "a.a", "a.b", "b.a", "c.c", "a.a.a", "a.b.a", "b.a.b", "a.b.c.d", "a.a.b.b.c")
]


# -- scopes ----------------------------------------------------------------------------------------------------


@given(scopes, scopes)
def test_scope_that_contains_another_covers_every_queue_of_it(outer, inner):
    if outer.contains(inner):
        assert all(outer.covers(*place) for place in PLACES if inner.covers(*place))


@pytest.mark.parametrize(
    ("outer", "inner", "contained"),
    [
        (Scope(), Scope("a", "orders"), True),
        (Scope(), Scope("a", pattern="orders.*"), True),
        (Scope(pattern=">"), Scope(), True),
        (Scope("a"), Scope("a", pattern="x.*"), True),
        (Scope("a"), Scope(), False),
        (Scope("a"), Scope(pattern="x.*"), False),
        (Scope("a"), Scope("b"), False),
        (Scope("a", pattern="orders.>"), Scope("a", "orders.eu"), True),
        (Scope("a", pattern="orders.>"), Scope("a", pattern="orders.eu.*"), True),
        (Scope("a", pattern="orders.*"), Scope("a", pattern="orders.>"), False),
        (Scope("a", "orders"), Scope("a", pattern="orders"), False),
        (Scope("a", "orders"), Scope("a", "orders"), True),
        (Scope(), Scope("a", exchange="x"), True),
        (Scope("a", pattern="#"), Scope("a", exchange="x"), True),
        (Scope("b"), Scope("a", exchange="x"), False),
        (Scope("a", pattern="orders.>"), Scope("a", exchange="x"), False),
        (Scope("a", exchange="x"), Scope("a", "orders"), False),
        (Scope("a", exchange="x"), Scope("a", exchange="y"), False),
        (Scope("a", exchange="x"), Scope("a"), False),
    ],
)
def test_containment_of_scopes(outer, inner, contained):
    assert outer.contains(inner) is contained


def test_scopes_have_readable_texts():
    assert str(Scope()) == "broker"
    assert str(Scope(pattern="orders.*")) == "broker orders.*"
    assert str(Scope("default")) == "virtualhost default"
    assert str(Scope("default", pattern="orders.>")) == "virtualhost default orders.>"
    assert str(Scope("default", "orders")) == "queue default/orders"


awkward = st.text('ab /"\\.', max_size=4)


awkward_scopes = st.one_of(st.builds(Scope, awkward, st.just(""), awkward), st.builds(Scope, awkward, awkward))


@given(awkward_scopes, awkward_scopes)
@example(Scope("a b"), Scope("a", pattern="b"))
@example(Scope("a/b", "c"), Scope("a", "b/c"))
@example(Scope('"a b"'), Scope("a b"))
def test_different_scopes_never_have_the_same_text(one, other):
    assume(all(s.virtualhost or not s.queue for s in (one, other)))
    assert (str(one) == str(other)) is (one == other)


@given(scopes, st.text(), st.text(), st.integers(0, 1 << 53))
def test_stop_is_restored_from_its_record(scope, reason, actor, since):
    stop = Stop(scope, reason, actor, since)
    assert Stop.from_record(stop.record()) == stop


# -- stopping and starting -------------------------------------------------------------------------------------


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def test_stopping_a_queue_blocks_its_producers_only(world):
    orders, other = world.queue("orders"), world.queue("other")
    stopped, running = world.sender(orders).producer, world.sender(other).producer
    world.broker.stopping.stop_producers(Scope("default", "orders"), "incident", "ann")
    world.settle()
    assert orders.gate.state is State.STOPPED
    assert list(stopped.reasons) == ["operator-stop:queue default/orders"]
    assert stopped.credit == 0
    assert not running.blocked
    assert running.credit > 0


@pytest.mark.domain("3 stop and start all producers")
@pytest.mark.parametrize("scope", [Scope(), Scope("default"), Scope(pattern="orders.*"), Scope("default", "orders.eu")])
def test_second_stop_of_the_same_scope_changes_nothing(world, scope):
    world.queue("orders.eu")
    assert world.broker.stopping.stop_producers(scope, "first", "ann").changed
    world.settle()
    records, facts = dict(world.records), len(world.facts)
    again = world.broker.stopping.stop_producers(scope, "second", "bob")
    world.settle()
    assert not again.changed
    assert (world.records, len(world.facts)) == (records, facts)
    assert world.broker.stops[scope].reason == "first"


def test_starting_a_scope_that_is_not_stopped_changes_nothing(world):
    world.queue()
    world.kinds()
    assert not world.broker.stopping.start_producers(EVERYWHERE, "", "ann").changed
    world.settle()
    assert world.kinds() == []


@pytest.mark.domain("7 states")
def test_queue_under_two_stops_runs_when_both_are_lifted(world):
    queue = world.queue("orders")
    producer = world.sender(queue).producer
    world.broker.stopping.stop_producers(Scope("default"), "", "ann")
    world.broker.stopping.stop_producers(Scope("default", "orders"), "", "ann")
    assert list(producer.reasons) == ["operator-stop:virtualhost default", "operator-stop:queue default/orders"]
    world.broker.stopping.start_producers(Scope("default", "orders"), "", "ann")
    assert queue.gate.state is State.STOPPED
    assert list(producer.reasons) == ["operator-stop:virtualhost default"]
    world.broker.stopping.start_producers(Scope("default"), "", "ann")
    assert queue.gate.state is State.NORMAL
    assert not producer.blocked


@pytest.mark.domain("3 stop and start all producers")
def test_starting_the_broker_lifts_every_stop_inside_it(world):
    world.broker.create_virtualhost("other")
    queues = [world.queue("orders.eu"), world.queue("orders.us"), world.queue("orders.eu", "other")]
    for scope in (Scope(), Scope("other"), Scope(pattern="orders.*"), Scope("default", "orders.us")):
        world.broker.stopping.stop_producers(scope, "", "ann")
    outcome = world.broker.stopping.start_producers(EVERYWHERE, "", "ann")
    world.settle()
    assert outcome.changed
    assert not world.broker.stops
    assert not [key for key in world.records if key[0] == "stop"]
    assert all(q.gate.state is State.NORMAL and not q.gate.stops and q.gate.stopped_since is None for q in queues)


def test_starting_a_pattern_lifts_narrower_patterns_and_leaves_wider_ones(world):
    queue = world.queue("orders.eu.de")
    for pattern in ("orders.eu.*", "orders.>"):
        world.broker.stopping.stop_producers(Scope(pattern=pattern), "", "ann")
    world.broker.stopping.start_producers(Scope(pattern="orders.eu.>"), "", "ann")
    assert [str(s) for s in queue.gate.stops] == ["broker orders.>"]


def test_starting_a_queue_does_not_lift_its_virtual_hosts_stop(world):
    queue = world.queue("orders")
    world.broker.stopping.stop_producers(Scope("default"), "", "ann")
    assert not world.broker.stopping.start_producers(Scope("default", "orders"), "", "ann").changed
    assert queue.gate.state is State.STOPPED


@pytest.mark.domain("7 independent reasons")
def test_starting_all_producers_leaves_an_overfull_queues_reason(world):
    queue = world.queue("orders", capacity_messages=1)
    sender = world.sender(queue)
    world.send(sender, 2)
    world.broker.stopping.stop_producers(EVERYWHERE, "", "ann")
    assert queue.gate.state is State.OVERFULL_STOPPED
    world.broker.stopping.start_producers(EVERYWHERE, "", "ann")
    assert queue.gate.state is State.OVERFULL
    assert list(sender.producer.reasons) == ["queue-overfull:orders"]


def test_underfull_queue_stays_stopped(world):
    queue = world.queue("orders", capacity_messages=1)
    sender = world.sender(queue)
    world.send(sender, 2)
    world.broker.stopping.stop_producers(EVERYWHERE, "", "ann")
    world.consume(world.receiver(queue), 2)
    assert queue.gate.state is State.STOPPED
    assert list(sender.producer.reasons) == ["operator-stop:broker"]
    assert sender.producer.credit == 0


def test_queue_created_later_under_a_pattern_stop_starts_stopped(world):
    world.broker.stopping.stop_producers(Scope("default", pattern="orders.*"), "", "ann")
    later, outside = world.queue("orders.eu"), world.queue("stocks.eu")
    assert (later.gate.state, outside.gate.state) == (State.STOPPED, State.NORMAL)
    assert world.sender(later).producer.blocked
    assert not world.sender(outside).producer.blocked


def test_stops_with_similar_names_are_stored_and_lifted_separately(world):
    world.broker.create_virtualhost("a b")
    world.broker.create_virtualhost("a")
    world.broker.stopping.stop_producers(Scope("a b"), "", "ann")
    world.broker.stopping.stop_producers(Scope("a", pattern="b"), "", "ann")
    world.settle()
    assert len([key for key in world.records if key[0] == "stop"]) == 2


def test_unknown_queue_or_virtual_host_is_not_found(world):
    for scope in (Scope("default", "nowhere"), Scope("nowhere"), Scope("nowhere", "orders")):
        for call in (world.broker.stopping.stop_producers, world.broker.stopping.start_producers):
            with pytest.raises(NotFound, match="nowhere"):
                call(scope, "", "ann")
    assert not world.broker.stops


def test_stop_with_an_invalid_pattern_is_refused(world):
    with pytest.raises(InvalidValue) as refused:
        world.broker.stopping.stop_producers(Scope(pattern="a..b"), "", "ann")
    assert "a..b" in refused.value.errors["pattern"]
    assert not world.broker.stops


# -- answers ---------------------------------------------------------------------------------------------------


def test_answer_counts_queues_and_stopped_and_draining_producers(world):
    orders, other, empty = world.queue("orders"), world.queue("other"), world.queue("empty")
    world.sender(orders)
    world.sender(orders)
    world.sender(other)
    outcome = world.broker.stopping.stop_producers(Scope("default"), "", "ann")
    assert (outcome.queues, outcome.producers, outcome.stopped, outcome.draining) == (3, 3, 0, 3)
    world.settle()
    world.advance(500)
    again = world.broker.stopping.stop_producers(Scope("default"), "", "ann")
    assert (again.queues, again.producers, again.stopped, again.draining) == (3, 3, 3, 0)
    assert empty.gate.producer_count == 0


def test_unblocked_producer_counts_neither_as_stopped_nor_as_draining(world):
    full, other = world.queue("full", capacity_messages=1), world.queue("other")
    world.send(world.sender(full), 2)
    world.sender(full)
    world.advance(500)
    world.sender(other)
    world.broker.stopping.stop_producers(Scope("default", "other"), "", "ann")
    outcome = world.broker.stopping.start_producers(EVERYWHERE, "", "ann")
    assert (outcome.producers, outcome.stopped, outcome.draining) == (3, 2, 0)


@pytest.mark.parametrize("mechanism", ["hold", "reject-after"])
def test_blocked_producer_with_credit_counts_as_draining_and_not_as_stopped(world, mechanism):
    """Such a queue takes messages while it is overfull; `stopped` are those without credit."""
    queue = world.queue("full", capacity_messages=1, mechanism=mechanism)
    one, other = world.sender(queue), world.sender(queue)
    for sender in (one, other):
        sender.read()
        sender.send(100, 1)
    for sender in (one, other):
        world.arrive(sender)
    world.advance(500)
    assert queue.gate.state is State.OVERFULL
    with_credit = sum(1 for p in queue.gate.producers if p.credit)
    assert with_credit
    assert all(p.blocked for p in queue.gate.producers)
    outcome = world.broker.stopping.start_producers(EVERYWHERE, "", "ann")
    assert (outcome.producers, outcome.stopped, outcome.draining) == (2, 2 - with_credit, with_credit)


# -- exchanges ------------------------------------------------------------------------------------------------


def test_stop_of_an_exchange_covers_queues_while_they_are_bound(world):
    bound, later, other = (world.queue(name) for name in ("bound", "later", "other"))
    routing = world.broker.routing
    stocks = routing.create_exchange(world.host, "stocks", "topic")
    routing.bind(stocks, bound, "a")
    routing.bind(stocks, bound, "b")
    outcome = world.broker.stopping.stop_producers(Scope("default", exchange="stocks"), "incident", "ann")
    assert (outcome.queues, outcome.changed) == (1, True)
    assert [q.gate.state for q in (bound, later, other)] == [State.STOPPED, State.NORMAL, State.NORMAL]
    assert bound.gate.reasons() == ["operator-stop:exchange default/stocks"]
    routing.bind(stocks, later)
    assert later.gate.state is State.STOPPED
    routing.unbind(stocks, bound, "a")
    assert bound.gate.state is State.STOPPED
    routing.unbind(stocks, bound, "b")
    assert bound.gate.state is State.NORMAL
    world.settle()
    broker = restarted(world)
    assert broker.queue("default", "later").gate.state is State.STOPPED
    assert broker.queue("default", "bound").gate.state is State.NORMAL
    assert world.broker.stopping.start_producers(EVERYWHERE, "", "ann").changed
    assert later.gate.state is State.NORMAL


def test_deleting_an_exchange_lifts_its_stop(world):
    queue, routing = world.queue("orders"), world.broker.routing
    stocks = routing.create_exchange(world.host, "stocks", "fanout")
    routing.bind(stocks, queue)
    world.broker.stopping.stop_producers(Scope("default", exchange="stocks"), "incident", "ann")
    routing.delete_exchange(stocks)
    world.settle()
    assert queue.gate.state is State.NORMAL
    assert not world.broker.stops
    assert not [key for key in world.records if key[0] == "stop"]


def test_unknown_exchange_cannot_be_stopped(world):
    with pytest.raises(NotFound, match="stocks"):
        world.broker.stopping.stop_producers(Scope("default", exchange="stocks"), "", "ann")


# -- across a restart ------------------------------------------------------------------------------------------


def restarted(world: Simulation, later: int = 60_000) -> Broker:
    broker = Broker(START + later)
    broker.restore([(kind, key, value) for (kind, key), value in world.records.items()])
    return broker


def test_stops_queues_and_policies_survive_a_restart(world):
    world.broker.create_virtualhost("other")
    world.queue("orders.eu", capacity_messages=10)
    world.queue("orders.eu", "other")
    world.broker.set_broker_defaults({"capacity_bytes": 5000})
    world.broker.records.persist_broker()
    world.broker.stopping.stop_producers(Scope("default", pattern="orders.*"), "incident 7", "ann")
    world.settle()

    broker = restarted(world)

    assert set(broker.virtualhosts) == {"default", "other"}
    assert broker.stops == world.broker.stops
    mine = broker.queue("default", "orders.eu")
    assert mine.gate.state is State.STOPPED
    assert mine.gate.limits == world.broker.queue("default", "orders.eu").gate.limits
    assert (mine.gate.limits.stop_messages, mine.gate.limits.stop_bytes) == (10, 5000)
    assert broker.queue("other", "orders.eu").gate.state is State.NORMAL
    assert not broker.turn.take_facts()
    assert not broker.turn.take_records()


def test_restored_stop_retains_its_age(world):
    world.queue("orders")
    world.broker.stopping.stop_producers(Scope("default", "orders"), "", "ann")
    world.settle()
    assert restarted(world).queue("default", "orders").gate.stopped_since == START


def test_lifted_stop_is_not_restored(world):
    world.queue("orders")
    world.broker.stopping.stop_producers(EVERYWHERE, "", "ann")
    world.broker.stopping.start_producers(EVERYWHERE, "", "ann")
    world.settle()
    assert restarted(world).queue("default", "orders").gate.state is State.NORMAL


def test_stop_of_a_queue_without_a_record_can_still_be_lifted(world):
    world.queue("orders")
    world.broker.stopping.stop_producers(Scope("default", "orders"), "", "ann")
    world.settle()
    del world.records["queue", "type=Queue,virtualhost=default,name=orders"]
    broker = restarted(world)
    assert broker.stopping.start_producers(EVERYWHERE, "", "ann").changed
    assert not broker.stops


def test_deleting_a_queue_deletes_its_stop(world):
    queue = world.queue("orders")
    world.broker.stopping.stop_producers(Scope("default", "orders"), "", "ann")
    world.broker.delete_queue(queue)
    world.settle()
    assert not world.broker.stops
    assert not [key for key in world.records if key[0] in ("stop", "queue")]
    assert world.queue("orders").gate.state is State.NORMAL


def test_deleting_a_virtual_host_deletes_its_queues_and_stops(world):
    host = world.broker.create_virtualhost("other")
    world.queue("orders", "other")
    world.broker.stopping.stop_producers(Scope("other"), "", "ann")
    world.broker.stopping.stop_producers(Scope("other", "orders"), "", "ann")
    world.broker.delete_virtualhost(host)
    world.settle()
    assert not world.broker.stops
    assert {key[1] for key in world.records} == {"type=VirtualHost,name=default"}


# -- ends ------------------------------------------------------------------------------------------------------


def test_stop_that_was_due_while_the_broker_was_down_ends_with_the_first_check(world):
    world.queue("orders")
    world.broker.stopping.stop_producers(Scope("default"), "incident 7", "ann", End(until=START + 30_000))
    world.settle()
    broker = restarted(world)
    assert broker.stops == world.broker.stops
    assert broker.queue("default", "orders").gate.state is State.STOPPED
    broker.stopping.end_due_stops()
    assert broker.queue("default", "orders").gate.state is State.NORMAL
    (fact,) = broker.turn.take_facts()
    assert fact.kind == "producers-started"
    assert "By : itself" in fact.text
    assert [keep.value for keep in broker.turn.take_records()] == [None]


def test_stop_is_active_until_its_end(world):
    queue = world.queue("orders")
    world.broker.stopping.stop_producers(EVERYWHERE, "", "ann", End(until=world.broker.turn.now + 1000))
    world.advance(999)
    world.broker.stopping.end_due_stops()
    assert queue.gate.state is State.STOPPED
    world.advance(50)
    world.broker.stopping.end_due_stops()
    assert queue.gate.state is State.NORMAL


def test_stop_of_several_queues_ends_with_the_fullest_and_ignores_those_without_a_capacity(world):
    deep, flat = world.queue("deep", capacity_messages=10), world.queue("flat", capacity_bytes=10_000)
    world.queue("endless")
    world.send(world.sender(deep), 8)
    world.send(world.sender(flat), 40)
    world.advance(500)
    world.broker.stopping.stop_producers(Scope("default"), "", "ann", End(below=50))
    world.consume(world.receiver(deep), 5)
    world.broker.stopping.end_due_stops()
    assert deep.gate.state is State.NORMAL
    assert flat.gate.state is State.NORMAL


def test_repeated_stop_changes_only_the_end(world):
    queue = world.queue("orders")
    stopping = world.broker.stopping
    stopping.stop_producers(Scope("default"), "first", "ann", End(until=START + 90_000))
    assert not stopping.stop_producers(Scope("default"), "second", "bert", End(until=START + 90_000)).changed
    assert stopping.stop_producers(Scope("default"), "third", "bert").changed
    (stop,) = world.broker.stops.values()
    assert (stop.reason, stop.actor, stop.end) == ("first", "ann", End())
    assert list(queue.gate.stops.values()) == [stop]
    world.advance(100_000)
    stopping.end_due_stops()
    assert queue.gate.state is State.STOPPED
    assert restarted(world).stops == world.broker.stops


def test_due_stop_leaves_other_stops_of_the_same_queue(world):
    queue = world.queue("orders")
    stopping = world.broker.stopping
    stopping.stop_producers(Scope("default", "orders"), "mine", "ann")
    stopping.stop_producers(EVERYWHERE, "all", "ann", End(until=world.broker.turn.now + 1))
    world.advance(50)
    stopping.end_due_stops()
    assert list(queue.gate.stops) == [Scope("default", "orders")]
    assert queue.gate.state is State.STOPPED


def test_stopping_several_scopes_is_all_or_none(world):
    world.queue("orders")
    with pytest.raises(NotFound):
        world.broker.stopping.stop_all([Scope("default", "orders"), Scope("default", "gone")], "", "ann")
    assert not world.broker.stops


# -- staged starts ----------------------------------------------------------------------------------------------


def staged(world, *, rate=100, step_ms=10_000, halt=0):
    """A stopped queue with three producers, in a staged start."""
    queue = world.queue("orders", capacity_messages=10_000)
    senders = [world.sender(queue) for _ in range(3)]
    world.broker.stopping.stop_producers(Scope("default"), "incident 7", "ann")
    world.settle()
    world.advance(1000)
    stage = Stage(rate, step_ms, halt, world.broker.turn.now)
    assert world.broker.stopping.start_producers(EVERYWHERE, "staged", "ann", stage=stage).changed
    world.settle()
    return queue, senders


def sent_in(world, senders, ms):
    """Return how many messages busy senders enqueue in this time."""
    before = sum(sender.producer.messages for sender in senders)
    for _ in range(ms // 50):
        for sender in senders:
            world.send(sender, 1000)
        world.advance(50)
        world.broker.stopping.end_due_stops()
        world.settle()
    return sum(sender.producer.messages for sender in senders) - before


@pytest.mark.domain("3 stop and start all producers")
def test_start_of_many_queues_compares_each_stop_with_those_of_its_queue(world, monkeypatch):
    scopes = [Scope("default", f"q{n}") for n in range(200)]
    for scope in scopes:
        world.queue(scope.queue)
    of_a_client = [replace(scope, client=Client(user="ann")) for scope in scopes[:100]]
    world.broker.stopping.stop_all([*scopes, *of_a_client, Scope("default", pattern=">")], "a test", "anna")
    compared = []
    contains = Scope.contains

    def counted(scope, other):
        compared.append(other)
        return contains(scope, other)

    monkeypatch.setattr(Scope, "contains", counted)
    world.broker.stopping.start_all(scopes, "", "anna")
    assert list(world.broker.stops) == [Scope("default", pattern=">")]
    assert len(compared) == 300
    assert not any(queue.gate.client_stops for queue in world.broker.queues())
    assert all(len(queue.gate.stops) == 1 for queue in world.broker.queues())


def test_staged_start_grants_credit_at_its_rate_and_doubles_it_with_every_step(world):
    queue, senders = staged(world)
    assert queue.gate.state is State.NORMAL
    assert not any(sender.producer.blocked for sender in senders)
    assert 50 <= sent_in(world, senders, 1000) <= 130
    sent_in(world, senders, 9000)
    assert 150 <= sent_in(world, senders, 1000) <= 260
    assert all(sender.producer.messages for sender in senders)


def test_staged_start_completes_after_its_last_step_with_a_fact(world):
    queue, senders = staged(world, rate=1, step_ms=1000)
    sent_in(world, senders, 5000)
    assert world.broker.stops
    world.advance(2000)
    world.broker.stopping.end_due_stops()
    world.settle()
    assert not world.broker.stops
    assert not queue.gate.staged
    assert not [key for key in world.records if key[0] == "stop"]
    assert sent_in(world, senders, 1000) > 1000


def test_staged_start_halts_when_a_queue_exceeds_its_limit(world):
    queue, senders = staged(world, rate=2000, halt=20)
    sent_in(world, senders, 3000)
    assert queue.gate.state is State.STOPPED
    assert 2000 < queue.gate.depth_messages < 3000
    assert sent_in(world, senders, 1000) == 0


@pytest.mark.domain("3 staged start")
def test_halted_staged_start_reports_its_actor_time_and_queue(world):
    queue, senders = staged(world, rate=2000, halt=20)
    world.queue("other", capacity_messages=10_000)
    (before,) = world.broker.stops.values()
    begun = before.stage.since
    sent_in(world, senders, 3000)
    (stop,) = world.broker.stops.values()
    assert (stop.actor, stop.stage) == ("", None)
    assert begun < stop.since <= world.broker.turn.now  # not the age of the stop before
    assert stop.halted == Halt("ann", "staged", begun, str(queue.object_name), 21, 20)
    assert stop.reason == "the staged start of ann halted: queue orders is at 21%, above 20%"
    fact = [fact for fact in world.facts if fact.kind == "producers-stopped"][-1]
    assert (fact.attributes["actor"], fact.attributes["halted"]) == ("", stop.halted.as_json())
    assert "queue orders is at 21%" in fact.text
    assert "incident 7" not in fact.text
    again = restarted(world)
    assert again.stops == world.broker.stops


def test_stop_after_a_halt_belongs_to_its_actor(world):
    _, senders = staged(world, rate=2000, halt=20)
    sent_in(world, senders, 3000)
    assert world.broker.stopping.stop_producers(Scope("default"), "it stays so", "bert").changed
    (stop,) = world.broker.stops.values()
    assert (stop.reason, stop.actor, stop.halted) == ("it stays so", "bert", None)
    assert not world.broker.stopping.stop_producers(Scope("default"), "again", "ann").changed


def test_halted_staged_start_can_be_repeated(world):
    _, senders = staged(world, rate=2000, halt=20)
    sent_in(world, senders, 3000)
    stage = Stage(10, 10_000, 40, world.broker.turn.now)
    assert world.broker.stopping.start_producers(EVERYWHERE, "slower", "bert", stage=stage).changed
    (stop,) = world.broker.stops.values()
    assert (stop.halted, stop.stage.actor, stop.stage.reason) == (None, "bert", "slower")


def test_stop_during_a_staged_start_blocks_all_producers_again(world):
    queue, senders = staged(world)
    assert world.broker.stopping.stop_producers(Scope("default"), "again", "bert").changed
    world.settle()
    world.advance(500)
    assert queue.gate.state is State.STOPPED
    assert sent_in(world, senders, 1000) == 0
    assert not queue.gate.staged


def test_plain_start_during_a_staged_start_ends_it(world):
    queue, senders = staged(world, rate=1)
    assert world.broker.stopping.start_producers(EVERYWHERE, "enough", "bert").changed
    world.settle()
    assert not queue.gate.staged
    assert sent_in(world, senders, 1000) > 1000


def test_repeated_staged_start_continues_the_first(world):
    staged(world)
    (stop,) = world.broker.stops.values()
    world.advance(500)
    again = Stage(100, 10_000, 0, world.broker.turn.now)
    assert not world.broker.stopping.start_producers(EVERYWHERE, "", "ann", stage=again).changed
    assert list(world.broker.stops.values()) == [stop]


def test_staged_start_survives_a_restart_and_covers_new_queues(world):
    staged(world)
    broker = restarted(world, later=5000)
    assert broker.stops == world.broker.stops
    assert broker.queue("default", "orders").gate.staged
    assert broker.queue("default", "orders").gate.state is State.NORMAL
    late = broker.create_queue(broker.virtualhost("default"), "late")
    assert late.gate.staged


def test_idle_producer_does_not_use_up_the_credit_of_a_staged_start(world):
    _, senders = staged(world, rate=40)
    assert 20 <= sent_in(world, senders[:1], 2000) <= 110


def test_stop_of_a_queue_without_producers_is_sampled_and_gives_its_turn_no_work() -> None:
    world = Simulation()
    queue = world.queue()
    world.broker.sample()
    for stop, state in ((True, State.STOPPED), (False, State.NORMAL)):
        change = world.broker.stopping.stop_producers if stop else world.broker.stopping.start_producers
        change(EVERYWHERE, "", "ann")
        assert queue.gate.state is state
        assert queue not in world.broker.agenda.touched
        assert world.broker.sample() == [queue]
