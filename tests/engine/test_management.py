"""Requests on managed objects: everything declared is implemented, and every refusal is a declared error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotAllowed, NotFound, StaleVersion
from brokers.engine.flow.turn import Close
from brokers.engine.management.queries import MAX_PAGE
from brokers.engine.management.requests import Management
from brokers.engine.management.resources.resource import ManagedResource
from brokers.engine.registry.subscription import SubscriptionSpec
from brokers.engine.values.stops import Scope
from brokers.model import TYPES, Kind, ObjectName, object_name
from tests.engine.plain_credentials import PlainCredentials
from tests.engine.ports import Link
from tests.engine.simulation import START, Simulation
from tests.engine.test_managed import anything, names

BROKER = object_name("Broker")


def queue_name(name: str, virtualhost: str = "default") -> ObjectName:
    return object_name("Queue", virtualhost=virtualhost, name=name)


@pytest.fixture
def world() -> Simulation:
    return Simulation()


@pytest.fixture
def management(world: Simulation) -> Management:
    return Management(world.broker)


def peopled() -> tuple[Simulation, Management]:
    """A broker with at least one object of every type, and some traffic."""
    world = Simulation()
    world.broker.create_virtualhost("other")
    orders = world.queue("orders", capacity_messages=2, capacity_bytes=10_000)
    world.queue("orders", "other")
    world.queue("stocks.eu")
    sender = world.sender(orders)
    world.send(sender, 3)
    world.receiver(orders, credit=1)
    world.receiver(orders, browsing=True)
    world.broker.enforcement.create_policy(world.host, "stocks.>", {"capacity_messages": 5})
    stocks = world.broker.routing.create_exchange(world.host, "stocks", "topic", {"capacity_bytes": 10_000})
    world.broker.routing.bind(stocks, orders, "eu.#")
    world.broker.stopping.stop_producers(Scope(pattern="stocks.*"), "incident", "ann")
    slow = {"topic": "stocks.>", "messageCount": 5, "policy": "log"}
    world.broker.slow_consumers.create(world.host, "slow", slow)
    spec = SubscriptionSpec("stocks.eu", "stocks", "eu", "client", "mine", durable=True, shared=True)
    subscription = world.broker.subscriptions.subscribe(world.connection(), spec)
    world.broker.attach_consumer(world.connection(), subscription.queue, "mine", Link(), browsing=False)
    world.broker.accounts.credentials = PlainCredentials()
    world.broker.accounts.create({"name": "anna", "grants": ["default:publish"]})
    world.settle()
    return world, Management(world.broker)


# -- declarations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", TYPES.values(), ids=TYPES)
def test_every_declared_attribute_has_a_reader_and_a_value_of_its_kind(declared):
    _, management = peopled()
    page = management.query(declared.name)
    assert page.total == len(page.items) > 0
    for found in page.items:
        assert set(found.attributes) == {a.name for a in declared.attributes}
        assert found.version == found["version"]
        for attribute in declared.attributes:
            value = found[attribute.name]
            if attribute.secret:
                assert value is None
            elif value is not None or not attribute.nullable:
                assert attribute.check(value) == value
            if attribute.kind in (Kind.INTEGER, Kind.TIMESTAMP) and value is not None:
                assert isinstance(value, int)
                assert not isinstance(value, bool)


def test_every_type_has_a_resource_and_no_other_has():
    _, management = peopled()
    assert set(management.resources) == set(TYPES)


@pytest.mark.parametrize("declared", TYPES.values(), ids=TYPES)
def test_resource_implements_exactly_what_its_type_declares(declared, management):
    resource = management.resources[declared.name]

    def does(method: str) -> bool:
        return getattr(type(resource), method) is not getattr(ManagedResource, method)

    assert resource.type_name == declared.name
    assert does("create_object") == declared.creatable
    assert does("update_object") == bool(declared.writable)
    assert does("delete_object") == declared.deletable
    assert set(resource.operations) == {operation.name for operation in declared.operations}


EMPTY: dict[Kind, Any] = {Kind.MAP: {}, Kind.LIST: [], Kind.INTEGER: 0, Kind.BOOLEAN: False}
OPERATIONS = [(t.name, o.name) for t in TYPES.values() for o in t.operations]


@pytest.mark.parametrize(("type_name", "operation"), OPERATIONS)
def test_every_declared_operation_is_implemented_and_answers_what_it_declares(type_name, operation):
    _, management = peopled()
    declared = TYPES[type_name].operation(operation)
    name = management.query(type_name).items[0].name
    given: dict[str, Any] = {a.name: EMPTY.get(a.kind, "") for a in declared.arguments}
    if "queue" in given:
        given["queue"] = "orders"
    if "to" in given:
        given["to"] = next(q["name"] for q in management.query("Queue").items if q.name != name)
    if "id" in given:
        given["id"] = management.call(name, "list-messages", {}, "ann")["messages"][0]["id"]
    answer = management.call(name, operation, given, "ann")
    assert set(answer) == {a.name for a in declared.returns}
    for field in declared.returns:
        assert field.check(answer[field.name]) == answer[field.name]


@pytest.mark.parametrize("type_name", TYPES)
def test_objects_found_by_a_query_can_be_read_by_name(type_name):
    _, management = peopled()
    for found in management.query(type_name).items:
        assert management.read(found.name) == found
        assert management.read(ObjectName.parse(str(found.name))) == found
        assert management.query(type_name, where={k: found[k] for k in TYPES[type_name].keys}).items == (found,)


def test_totals_are_sums_over_queues(world, management):
    world.broker.create_virtualhost("other")
    for host in ("default", "other"):
        queue = world.queue("orders", host, capacity_messages=1)
        world.send(world.sender(queue), 2, size=50)
        world.receiver(queue)
        world.queue("idle", host)
    broker = management.read(BROKER)
    hosts = management.query("VirtualHost").items
    for total in ("queues", "overfull_queues", "producers", "blocked_producers", "consumers", "depth_messages"):
        assert broker[total] == sum(h[total] for h in hosts) > 0
    assert (broker["queues"], broker["overfull_queues"], broker["depth_bytes"], broker["connections"]) == (4, 2, 200, 4)


def test_blocked_producer_has_reasons_since_and_what_would_unblock_it(world, management):
    queue = world.queue("orders", capacity_messages=2, capacity_bytes=10_000, flow_resume_messages=1)
    sender = world.sender(queue)
    world.send(sender, 3)
    world.advance(2000)
    world.broker.stopping.stop_producers(Scope("default"), "incident 7", "ann")
    world.settle()
    world.advance(1000)
    found = management.read(sender.producer.name)
    assert found["state"] == "BLOCKED"
    assert found["reasons"] == ["queue-overfull:orders", "operator-stop:virtualhost default"]
    assert (found["blocked_since"], found["blocked_ms"], found["blocked_count"]) == (START, 3000, 1)
    assert "orders falls to 1 message or fewer (now 3)" in found["release"]
    assert "ann starts the producers of virtualhost default again (incident 7)" in found["release"]
    assert "bytes" not in found["release"]


# -- queries ---------------------------------------------------------------------------------------------------


def fill(world: Simulation) -> None:
    for name, depth in (("a", 3), ("b", 1), ("c", 2), ("d", 2), ("q10", 0), ("q9", 0)):
        queue = world.queue(name)
        world.send(world.sender(queue), depth)


def found(management: Management, **query: Any) -> list[str]:
    return [o["name"] for o in management.query("Queue", **query).items]


def test_query_sorts_by_attributes_and_breaks_ties_by_name(world, management):
    fill(world)
    assert found(management) == ["a", "b", "c", "d", "q9", "q10"] or found(management)[:4] == ["a", "b", "c", "d"]
    assert found(management, sort="-depth_messages")[:4] == ["a", "c", "d", "b"]
    assert found(management, sort="depth_messages,-name")[2:] == ["b", "d", "c", "a"]
    assert found(management, sort=" -depth_messages , -name ")[:4] == ["a", "d", "c", "b"]


def test_query_sorts_by_attributes_that_are_not_set_or_of_mixed_kinds(world, management):
    for name, stop in (("a", None), ("b", "50%"), ("c", 7)):
        world.queue(name, **({"flow_stop_messages": stop} if stop else {}), capacity_messages=10)
    assert found(management, sort="flow_stop_messages") == ["a", "c", "b"]
    assert found(management, sort="-flow_stop_messages") == ["b", "c", "a"]
    assert found(management, sort="stops") == ["a", "b", "c"]


@given(offset=st.integers(0, 30), count=st.integers(0, 30))
def test_pages_are_slices_of_the_whole(offset, count):
    world = Simulation()
    fill(world)
    management = Management(world.broker)
    whole = management.query("Queue", sort="name")
    page = management.query("Queue", sort="name", offset=offset, count=count)
    assert page.items == whole.items[offset : offset + count]
    assert (page.total, page.offset) == (6, offset)


@pytest.mark.parametrize(("offset", "count"), [(-1, 10), (0, -1), (0, MAX_PAGE + 1)])
def test_invalid_page_is_refused(management, offset, count):
    with pytest.raises(InvalidValue, match=r"offset .* count"):
        management.query("Queue", offset=offset, count=count)


def test_query_filters_by_a_value_or_any_of_several(world, management):
    fill(world)
    world.broker.stopping.stop_producers(Scope("default", "b"), "", "ann")
    assert found(management, where={"depth_messages": 2}) == ["c", "d"]
    assert found(management, where={"name": ["a", "b", "nothing"]}) == ["a", "b"]
    assert found(management, where={"state": "STOPPED"}) == ["b"]
    assert found(management, where={"depth_messages": 2, "name": ("d",)}) == ["d"]
    assert found(management, where={"depth_messages": []}) == []


def test_query_searches_names_case_insensitively(world, management):
    world.queue("Orders.EU")
    world.queue("stocks")
    assert found(management, search="ders.eu") == ["Orders.EU"]
    assert found(management, search="ORDERS") == ["Orders.EU"]
    assert found(management, search="nothing") == []


def test_producers_are_found_by_their_queue_link_and_client(world, management):
    for name in ("orders", "orders.eu", "stocks"):
        world.sender(world.queue(name))

    def producers(**query):
        return [ObjectName.parse(o["queue"])["name"] for o in management.query("Producer", **query).items]

    assert producers(where={"queue": "orders"}) == ["orders"]
    assert producers(where={"queue": "type=Queue,virtualhost=default,name=orders"}) == ["orders"]
    assert producers(where={"queue": ["stocks", "orders.eu"]}) == ["orders.eu", "stocks"]
    assert producers(where={"queue": "default"}) == []  # the virtual host is no name of a queue
    assert producers(search="ORDERS.") == ["orders.eu"]
    client = management.query("Producer").items[0]["client"]
    assert len(producers(search=client)) >= 1
    assert producers(search="nothing like it") == []
    assert management.query("Connection", search=client.partition(" ")[0]).total >= 1


def test_query_by_an_unknown_attribute_or_type_is_refused_by_name(management):
    with pytest.raises(InvalidValue, match="bogus"):
        management.query("Queue", where={"bogus": 1})
    with pytest.raises(InvalidValue, match="bogus"):
        management.query("Queue", sort="-bogus")
    with pytest.raises(InvalidValue):
        management.query("Queue", sort="-")
    with pytest.raises(NotFound, match="Bogus"):
        management.query("Bogus")


# -- create, update, delete ------------------------------------------------------------------------------------


def test_queue_is_created_with_its_policy_and_cannot_be_created_twice(world, management):
    made = management.create(queue_name("orders"), {"capacity_messages": "10", "flow_stop_messages": "80 %"})
    assert (made["capacity_messages"], made["flow_stop_messages"], made["effective_stop_messages"]) == (10, "80%", 8)
    assert made.version == 1
    with pytest.raises(AlreadyExists, match="orders"):
        management.create(queue_name("orders"), {})


def test_virtual_host_is_created_with_its_defaults_and_persisted(world, management):
    name = object_name("VirtualHost", name="other")
    made = management.create(name, {"create_on_attach": True, "capacity_messages": 7})
    assert (made["create_on_attach"], made["anonymous"], made["capacity_messages"]) == (True, False, 7)
    assert management.create(queue_name("q", "other"), {})["effective_capacity_messages"] == 7
    world.settle()
    assert world.records["virtualhost", str(name)]["defaults"] == {"capacity_messages": 7}


def test_refused_creation_has_no_effect(world, management):
    for name, attributes in (
        (queue_name("orders"), {"capacity_messages": 5, "flow_stop_messages": 6}),
        (queue_name("orders"), {"bogus": 1}),
        (queue_name("orders"), {"depth_messages": 1}),
        (queue_name("orders"), {"name": "other"}),
        (queue_name("$orders"), {}),
        (object_name("VirtualHost", name="other"), {"capacity_messages": 5, "flow_stop_messages": 6}),
        (object_name("VirtualHost", name="other"), {"anonymous": None}),
        (object_name("VirtualHost", name=" other"), {}),
    ):
        with pytest.raises(InvalidValue) as refused:
            management.create(name, attributes)
        assert refused.value.errors
    world.settle()
    assert (len(world.broker.virtualhosts), list(world.broker.queues())) == (1, [])
    assert len(world.records) == 1


def test_queue_of_an_unknown_virtual_host_is_not_created(management):
    with pytest.raises(NotFound, match="nowhere"):
        management.create(queue_name("orders", "nowhere"), {})


@pytest.mark.parametrize("type_name", ["Broker", "Connection", "Producer", "Consumer"])
def test_types_that_cannot_be_created_or_deleted_refuse_it(type_name):
    _, management = peopled()
    name = management.query(type_name).items[0].name
    with pytest.raises(NotAllowed):
        management.create(name, {})
    with pytest.raises(NotAllowed):
        management.delete(name)


@pytest.mark.parametrize("type_name", ["Connection", "Producer", "Consumer"])
def test_types_without_writable_attributes_cannot_be_updated(type_name):
    _, management = peopled()
    with pytest.raises(NotAllowed):
        management.update(management.query(type_name).items[0].name, {}, 1)


def test_update_raises_the_version_and_a_stale_one_is_refused_with_the_current(world, management):
    world.queue("orders")
    name = queue_name("orders")
    assert management.update(name, {"capacity_messages": 5}, 1).version == 2
    with pytest.raises(StaleVersion) as stale:
        management.update(name, {"capacity_messages": 9}, 1)
    assert stale.value.current == 2
    assert management.read(name)["capacity_messages"] == 5
    assert management.update(name, {"capacity_messages": None}, 2)["capacity_messages"] is None


@pytest.mark.parametrize("name", [BROKER, object_name("VirtualHost", name="default")])
def test_updated_defaults_apply_to_queues_at_once(world, management, name):
    queue = world.queue("orders")
    sender = world.sender(queue)
    world.send(sender, 5)
    management.update(name, {"capacity_messages": 4}, 1)
    world.settle()
    assert sender.producer.blocked
    assert management.read(name).version == 2
    with pytest.raises(StaleVersion):
        management.update(name, {"capacity_messages": 9}, 1)
    management.update(name, {"capacity_messages": 0}, 2)
    world.settle()
    assert not sender.producer.blocked


def test_update_without_changes_retains_the_version_and_adds_no_fact(world, management):
    world.queue("orders", capacity_messages=5)
    world.kinds()
    same = {"capacity_messages": "5", "flow_stop_messages": None}
    assert management.update(queue_name("orders"), same, 1).version == 1
    world.settle()
    assert world.kinds() == []


def test_update_with_one_bad_value_changes_nothing_and_names_it(world, management):
    world.queue("orders")
    with pytest.raises(InvalidValue) as refused:
        management.update(queue_name("orders"), {"capacity_messages": 5, "capacity_bytes": -1, "state": "NORMAL"}, 1)
    assert set(refused.value.errors) == {"capacity_bytes", "state"}
    assert "-1" in refused.value.errors["capacity_bytes"]
    assert management.read(queue_name("orders"))["capacity_messages"] is None


def test_defaults_that_contradict_a_queue_are_refused_and_name_the_queue(world, management):
    world.queue("orders", flow_stop_messages=10)
    with pytest.raises(InvalidValue) as refused:
        management.update(BROKER, {"capacity_messages": 5}, 1)
    text = refused.value.errors["flow_stop_messages"]
    assert "queue default/orders" in text
    assert "10" in text
    assert "5 (from the broker's defaults)" in text
    assert management.read(BROKER)["capacity_messages"] is None


def test_policy_change_adds_a_fact_with_before_after_and_actor(world, management):
    world.queue("orders", capacity_messages=5)
    world.facts.clear()
    management.update(queue_name("orders"), {"capacity_messages": 6, "capacity_bytes": 7}, 1, "ann")
    (fact,) = world.broker.turn.take_facts()
    assert fact.kind == "policy-changed"
    assert fact.attributes["before"] == {"capacity_messages": 5, "capacity_bytes": None}
    assert fact.attributes["after"] == {"capacity_messages": 6, "capacity_bytes": 7}
    assert fact.attributes["actor"] == "ann"
    assert "capacity_messages 5 -> 6, capacity_bytes inherited -> 7" in fact.text


def test_deleting_needs_the_current_version_if_one_is_given(world, management):
    world.queue("orders")
    with pytest.raises(StaleVersion):
        management.delete(queue_name("orders"), 7)
    management.delete(queue_name("orders"), 1)
    with pytest.raises(NotFound):
        management.read(queue_name("orders"))


def test_default_virtual_host_and_one_in_use_cannot_be_deleted(world, management):
    with pytest.raises(NotAllowed, match="default"):
        management.delete(object_name("VirtualHost", name="default"))
    world.broker.create_virtualhost("other")
    connection = world.connection("other")
    with pytest.raises(InvalidValue, match="open connections"):
        management.delete(object_name("VirtualHost", name="other"))
    world.broker.close_connection(connection)
    management.delete(object_name("VirtualHost", name="other"))
    assert set(world.broker.virtualhosts) == {"default"}


# -- operations ------------------------------------------------------------------------------------------------


def test_check_returns_the_effective_limits_and_changes_nothing(world, management):
    world.queue("orders", capacity_messages=10)
    given = {"attributes": {"flow_stop_messages": "50%"}}
    assert management.call(queue_name("orders"), "check", given)["effective"]["effective_stop_messages"] == 5
    assert management.read(queue_name("orders"))["effective_stop_messages"] == 10
    with pytest.raises(InvalidValue) as refused:
        management.call(queue_name("orders"), "check", {"attributes": {"flow_stop_messages": 11}})
    assert set(refused.value.errors) == {"flow_stop_messages"}


def test_stop_and_start_by_type_and_pattern(world, management):
    for name in ("orders.eu", "stocks"):
        world.sender(world.queue(name))
    answer = management.call(BROKER, "stop-producers", {"pattern": "orders.*", "reason": "x"}, "ann")
    assert (answer["queues"], answer["producers"], answer["changed"]) == (1, 1, True)
    assert management.read(queue_name("orders.eu"))["stops"] == [
        {
            "scope": "broker orders.*",
            "object": "type=Broker",
            "pattern": "orders.*",
            "reason": "x",
            "actor": "ann",
            "since": START,
            "until": None,
            "below": 0,
            "stage": None,
            "halted": None,
        }
    ]
    assert management.read(queue_name("stocks"))["state"] == "NORMAL"
    assert management.call(BROKER, "start-producers", {})["changed"] is True
    assert management.read(queue_name("orders.eu"))["state"] == "NORMAL"


def test_call_on_behalf_of_a_person_is_attributed_to_that_person(world, management):
    management.call(BROKER, "stop-producers", {"actor": "bob", "reason": None}, "console")
    assert management.read(BROKER)["stops"][0]["actor"] == "bob"


def test_closing_a_connection_leaves_an_effect_for_the_protocol_layer(world, management):
    connection = world.connection()
    management.call(connection.name, "close", {"reason": "maintenance"}, "ann")
    (effect,) = world.broker.turn.take_effects()
    assert isinstance(effect, Close)
    assert effect.port is connection.handle
    assert "ann" in effect.description
    assert "maintenance" in effect.description


def test_unknown_operation_or_argument_is_refused_by_name(world, management):
    world.queue("orders")
    with pytest.raises(NotFound, match="explode"):
        management.call(queue_name("orders"), "explode", {})
    with pytest.raises(InvalidValue, match="pattern"):
        management.call(queue_name("orders"), "stop-producers", {"pattern": "x"})


# -- hostile requests ------------------------------------------------------------------------------------------

keys = st.one_of(st.sampled_from(sorted({a.name for t in TYPES.values() for a in t.attributes})), st.text(max_size=5))
attributes = st.dictionaries(keys, anything, max_size=3)
bare = st.builds(
    ObjectName,
    st.one_of(st.sampled_from(list(TYPES)), st.text(max_size=5)),
    st.lists(st.tuples(keys, st.text(max_size=5)), max_size=3).map(tuple),
)
targets = st.one_of(
    names(), bare, st.sampled_from([BROKER, queue_name("orders"), object_name("VirtualHost", name="default")])
)
hostile = settings(max_examples=150)


def attempt(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Any, AdminError | None]:
    """(the answer, None) or (None, the refusal). Any other exception is a bug."""
    try:
        return call(*arguments, **named), None
    except AdminError as refused:
        return None, refused


@hostile
@given(targets)
def test_reading_any_name_finds_it_or_raises_not_found(name):
    _, management = peopled()
    found, refused = attempt(management.read, name)
    if refused is None:
        assert found.name == name
    else:
        assert isinstance(refused, NotFound)
        assert str(refused)


@hostile
@given(targets, attributes)
@example(queue_name("\x7f"), {})
@example(queue_name("a\u2028b"), {})
@example(queue_name("x" * 256), {})
@example(object_name("VirtualHost", name="\u202eevil"), {})
@example(object_name("User", name="0"), {})
def test_creation_makes_a_readable_object_or_is_refused(name, attributes):
    _, management = peopled()
    made, refused = attempt(management.create, name, attributes)
    if refused is None:
        found, declared = management.read(made.name), TYPES[name.type]
        # A generated password is in this one answer only.
        open_ = [a.name for a in declared.attributes if not a.secret]
        assert {a: found[a] for a in open_} == {a: made[a] for a in open_}
        assert (found.name, found.version) == (made.name, made.version)
        assert all(v.isprintable() for _, v in made.name.keys)
    else:
        assert str(refused)


@hostile
@given(targets, attributes, st.one_of(st.just(1), anything))
def test_update_succeeds_or_is_refused_without_effect(name, attributes, version):
    _, management = peopled()
    before = [management.query(t) for t in TYPES]
    _, refused = attempt(management.update, name, attributes, version)
    if refused is not None:
        assert str(refused)
        assert [management.query(t) for t in TYPES] == before


@hostile
@given(targets, st.one_of(st.none(), st.integers()))
def test_deletion_succeeds_or_is_refused(name, version):
    world, management = peopled()
    _, refused = attempt(management.delete, name, version)
    world.settle()
    if refused is None:
        with pytest.raises(NotFound):
            management.read(name)
    else:
        assert str(refused)


@hostile
@given(
    targets,
    st.one_of(st.sampled_from(sorted({o for _, o in OPERATIONS})), st.text(max_size=5)),
    st.dictionaries(
        st.one_of(st.sampled_from(["reason", "actor", "pattern", "attributes"]), st.text(max_size=5)),
        anything,
        max_size=3,
    ),
)
def test_call_succeeds_or_is_refused(name, operation, arguments):
    world, management = peopled()
    answer, refused = attempt(management.call, name, operation, arguments, "ann")
    world.settle()
    if refused is None:
        assert set(answer) == {a.name for a in TYPES[name.type].operation(operation).returns}
    else:
        assert str(refused)


@hostile
@given(
    st.one_of(st.sampled_from(list(TYPES)), st.text(max_size=5)),
    st.one_of(attributes, anything),
    st.one_of(st.text(max_size=5), anything),
    st.one_of(st.lists(keys, max_size=3).map(",".join), anything),
    st.one_of(st.tuples(st.integers(-2, 5), st.integers(-2, 5)), st.tuples(anything, anything)),
)
def test_query_returns_a_page_or_is_refused(type_name, where, search, sort, bounds):
    _, management = peopled()
    offset, count = bounds
    page, refused = attempt(
        management.query, type_name, where=where, search=search, sort=sort, offset=offset, count=count
    )
    if refused is None:
        assert len(page.items) <= count
    else:
        assert isinstance(refused, (InvalidValue, NotFound))
        assert str(refused)
