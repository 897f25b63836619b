"""The queues of a routing key, against a naive model; bindings and addresses of a broker."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.engine.broker import Broker
from brokers.engine.registry.exchange import LONGEST_CACHED, MOST_CACHED, MOST_CACHED_PARTS, MOST_WORDS, Exchange, Topic
from tests.engine.simulation import START, Simulation

KINDS = ("direct", "topic", "fanout")


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def exchange(world: Simulation, name: str = "stocks", kind: str = "topic", **own: Any) -> Exchange:
    return world.broker.routing.create_exchange(world.host, name, kind, own)


def restarted(world: Simulation) -> Broker:
    broker = Broker(START + 60_000)
    broker.restore([(kind, key, value) for (kind, key), value in world.records.items()])
    return broker


# -- routes ----------------------------------------------------------------------------------------------------


def finds(kind: str, bound: str, key: str) -> bool:
    if kind == "fanout":
        return True
    if kind == "direct":
        return bound == key
    parts = [
        {"*": r"\.[^.]*", "#": r"(\.[^.]*)*", ">": r"(\.[^.]*)*"}.get(w, r"\." + re.escape(w)) for w in bound.split(".")
    ]
    return re.fullmatch("".join(parts), "." + key) is not None


keys = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=5).map(".".join)
bound_keys = st.lists(st.sampled_from(["a", "b", "*", "#", ">"]), min_size=1, max_size=5).map(".".join)
steps = st.lists(st.tuples(st.booleans(), st.integers(0, 3), bound_keys), max_size=25)


@given(st.sampled_from(KINDS), steps, st.lists(keys, min_size=1, max_size=10))
def test_key_finds_each_queue_with_a_matching_binding_once(kind, steps, keys):
    exchange = Exchange("default", "x", kind)
    queues: list[Any] = ["q0", "q1", "q2", "q3"]
    bindings: set[tuple[str, str]] = set()
    for binds, number, bound in steps:
        queue = queues[number]
        had = (queue, bound) in bindings
        if binds:
            assert exchange.bind(queue, bound) is not had
            bindings.add((queue, bound))
        else:
            assert exchange.unbind(queue, bound) is had
            bindings.discard((queue, bound))
        for key in keys:
            found = exchange.route(key)
            assert len(found) == len(set(found))
            assert set(found) == {q for q, b in bindings if finds(kind, b, key)}, (kind, bindings, key)
            assert exchange.route(key) == found, "a repeated look-up differs"
    assert {q: set(ks) for q, ks in exchange.bindings.items()} == {
        q: {b for o, b in bindings if o == q} for q, _ in bindings
    }


def test_removed_bindings_leave_nothing_behind():
    topic = Topic()
    queue: Any = "q"
    for key in ("a.b.c", "a.*", "#", "a.b"):
        topic.add(queue, key)
    for key in ("a.b", "#", "a.b.c", "a.*"):
        topic.discard(queue, key)
    assert not topic._root.next
    assert topic.route("a.b") == ()


def test_cached_routes_are_bounded():
    exchange = Exchange("default", "x", "topic")
    queue: Any = "q"
    exchange.bind(queue, "a.#")
    router = exchange.router
    assert isinstance(router, Topic)
    for n in range(MOST_CACHED + 100):
        assert exchange.route(f"a.{n}") == (queue,)
    assert len(router._routes) <= MOST_CACHED


# -- bindings --------------------------------------------------------------------------------------------------


def cached(router: Topic) -> int:
    """Return how many characters and queues the cached routes have."""
    return sum(len(key) + len(route) for key, route in router._routes.items())


def test_memory_of_cached_routes_is_bounded_whatever_keys_clients_send():
    router: Any = Topic()
    router.add("q", "#")
    for n in range(100):
        assert router.route(f"{n}" + "x" * (1 << 20)) == ("q",)
        assert router.route(f"{n}".ljust(LONGEST_CACHED, ".")) == ("q",)
    assert max(map(len, router._routes)) <= LONGEST_CACHED
    for n in range(50_000):
        router.add(n, "#")
    for n in range(100):
        assert len(router.route(f"k{n}")) == 50_001
        assert cached(router) <= MOST_CACHED_PARTS
    assert router.route("k99") is router.route("k99")
    router.discard(0, "#")
    assert len(router.route("k99")) == 50_000
    assert router._cached_parts == cached(router)


def test_words_of_a_routing_key_are_bounded():
    router: Any = Topic()
    for key in ("#", "#.b", "a.#", "a.*"):
        router.add(key, key)
    assert set(router.route("a" + ".b" * (MOST_WORDS - 1))) == {"#", "#.b", "a.#"}
    assert set(router.route("a" + ".b" * 100_000)) == {"#", "a.#"}, "the rest counts as one word"


def test_bound_queue_is_found_and_an_unbound_one_is_not(world):
    orders, late, stocks = world.queue("orders"), world.queue("late"), exchange(world)
    routing = world.broker.routing
    assert routing.bind(stocks, orders, "eu.*")
    assert not routing.bind(stocks, orders, "eu.*")
    assert routing.bind(stocks, late, "#")
    assert set(stocks.route("eu.x")) == {orders, late}
    assert routing.unbind(stocks, orders, "eu.*")
    assert not routing.unbind(stocks, orders, "eu.*")
    assert stocks.route("eu.x") == (late,)
    world.settle()
    assert world.kinds()[-4:] == ["exchange-created", "binding-created", "binding-created", "binding-deleted"]


def test_facts_about_exchanges_have_qpids_words(world):
    orders, stocks = world.queue("orders"), exchange(world)
    world.settle()
    world.facts.clear()
    world.broker.routing.bind(stocks, orders, "eu.*", actor="ann")
    world.broker.routing.delete_exchange(stocks, actor="ann")
    world.settle()
    assert [f.text for f in world.facts] == [
        "[vh(/default)/ex(topic/stocks)/qu(orders)/rk(eu.*)] BND-1001 : Create",
        "[vh(/default)/ex(topic/stocks)/qu(orders)/rk(eu.*)] BND-1002 : Deleted",
        "[vh(/default)/ex(topic/stocks)] EXH-1002 : Deleted",
    ]
    assert all(f.attributes["actor"] == "ann" for f in world.facts)


def test_deleting_a_queue_removes_its_bindings(world):
    orders, stocks = world.queue("orders"), exchange(world, kind="fanout")
    world.broker.routing.bind(stocks, orders, "a")
    world.broker.routing.bind(stocks, orders, "b")
    world.broker.delete_queue(orders)
    world.settle()
    assert stocks.route("a") == ()
    assert not stocks.bindings
    assert not world.host.bound
    assert not [key for key in world.records if key[0] == "binding"]
    again = world.queue("orders")
    assert not world.host.bound.get(again)


def test_deleting_an_exchange_removes_its_bindings_and_its_policy(world):
    orders, stocks = world.queue("orders"), exchange(world, capacity_messages=5)
    world.broker.routing.bind(stocks, orders)
    assert orders.gate.limits.stop_messages == 5
    world.broker.routing.delete_exchange(stocks)
    world.settle()
    assert orders.gate.limits.capacity_messages == 0
    assert not world.host.exchanges
    assert not world.host.bound
    assert not [key for key in world.records if key[0] in ("binding", "exchange")]


def test_exchanges_bindings_and_their_policies_survive_a_restart(world):
    orders = world.queue("orders", flow_resume_messages="50%")
    stocks, other = exchange(world, capacity_messages=100), exchange(world, "other", "direct")
    world.broker.routing.bind(stocks, orders, "eu.#")
    world.broker.routing.bind(other, orders, 'odd/"key",')
    world.broker.routing.set_policy(stocks, {"capacity_messages": 40})
    world.settle()

    broker = restarted(world)

    host = broker.virtualhost("default")
    mine = broker.queue("default", "orders")
    assert mine.gate.limits == orders.gate.limits
    assert (mine.gate.limits.stop_messages, mine.gate.limits.resume_messages) == (40, 20)
    assert mine.gate.settings["capacity_messages"].origin == "exchange stocks"
    assert host.exchanges["stocks"].route("eu.de") == (mine,)
    assert host.exchanges["stocks"].version == stocks.version == 2
    assert host.exchanges["other"].route('odd/"key",') == (mine,)
    assert [e.name for e in host.bound[mine]] == ["stocks", "other"]
    assert not broker.turn.take_facts()


def test_stored_binding_of_an_unknown_queue_is_ignored(world):
    world.broker.routing.bind(exchange(world), world.queue("orders"), "a")
    world.settle()
    del world.records["queue", "type=Queue,virtualhost=default,name=orders"]
    assert not restarted(world).virtualhost("default").exchanges["stocks"].bindings


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [("", "direct", "''"), ("a/b", "direct", "'a/b'"), ("$x", "topic", "\\$x"), ("x", "headers", "'headers'")],
)
def test_invalid_exchange_is_refused_by_name(world, name, kind, words):
    with pytest.raises(InvalidValue, match=words):
        world.broker.routing.create_exchange(world.host, name, kind)
    assert not world.host.exchanges


def test_exchange_is_not_created_twice(world):
    exchange(world)
    with pytest.raises(AlreadyExists, match="stocks"):
        exchange(world)


@pytest.mark.parametrize("key", ["eu*", "a.#b", "x" * 256, "a\nb"])
def test_invalid_binding_key_is_refused_by_name(world, key):
    stocks, orders = exchange(world), world.queue("orders")
    with pytest.raises(InvalidValue) as refused:
        world.broker.routing.bind(stocks, orders, key)
    assert repr(key) in refused.value.errors["key"]
    assert not stocks.bindings


def test_wildcards_are_ordinary_in_the_keys_of_a_direct_exchange(world):
    stocks, orders = exchange(world, kind="direct"), world.queue("orders")
    world.broker.routing.bind(stocks, orders, "a*")
    assert stocks.route("a*") == (orders,)
    assert stocks.route("ab") == ()


# -- addresses -------------------------------------------------------------------------------------------------


def test_address_is_a_queue_an_exchange_or_an_exchange_with_a_key(world):
    orders, stocks, connection = world.queue("orders"), exchange(world), world.connection()
    resolve = world.broker.resolve_target
    assert resolve(connection, "orders") is orders
    assert resolve(connection, "stocks") == (stocks, None)
    assert resolve(connection, "stocks/eu.de") == (stocks, "eu.de")
    assert resolve(connection, "stocks/a/b") == (stocks, "a/b")
    assert resolve(connection, "stocks/") == (stocks, "")


def test_queue_takes_precedence_over_an_exchange_of_the_same_name(world):
    stocks, connection = exchange(world), world.connection()
    for address, other in (("stocks", (stocks, None)), ("stocks/eu", (stocks, "eu"))):
        assert world.broker.resolve_target(connection, address) == other
        queue = world.queue(address)
        assert world.broker.resolve_target(connection, address) is queue
        world.broker.delete_queue(queue)
        assert world.broker.resolve_target(connection, address) == other


def test_unknown_address_is_created_as_a_queue_if_allowed(world):
    connection = world.connection()
    created = world.broker.resolve_target(connection, "nothing/yet")
    assert created is world.broker.queue("default", "nothing/yet")
    world.host.create_on_attach = False
    with pytest.raises(NotFound, match="another"):
        world.broker.resolve_target(connection, "another")


def test_exchanges_of_another_virtual_host_are_not_found(world):
    exchange(world)
    other = world.broker.create_virtualhost("other")
    with pytest.raises(NotFound):
        world.broker.resolve_target(world.connection("other"), "stocks")
    assert not other.exchanges
