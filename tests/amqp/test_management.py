"""`$management` through Proton's own request-response client: every operation, every refusal, and hostile requests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from proton import (
    Array,
    Data,
    Described,
    Message,
    decimal64,
    int32,
    symbol,
    ulong,
)
from proton.utils import LinkDetached, SendException

from brokers.amqp.node_links import MAX_WAITING
from brokers.input_checks import value_faults
from brokers.model import TYPES
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import Crowd, Managing, ReplyTo, connected, fill, managing
from tests.amqp.frames import encode

QUEUE = "type=Queue,virtualhost=default,name=orders"


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managing]:
    """One client and broker for all the requests that must change nothing."""
    with BrokerThread(tmp_path_factory.mktemp("patient")) as broker:
        broker.queue("orders")
        with managing(broker) as asks:
            yield asks


@pytest.fixture
def manager(broker: BrokerThread) -> Iterator[Managing]:
    broker.queue("orders")
    with managing(broker) as asks:
        yield asks


# -- the draft's operations -----------------------------------------------------------------------------------------


def test_types_attributes_and_operations_are_those_declared(manager: Managing) -> None:
    assert set(manager.ask("GET-TYPES").body) == set(TYPES)
    attributes = manager.ask("GET-ATTRIBUTES", entityType="Queue").body
    assert attributes == {"Queue": [a.name for a in TYPES["Queue"].attributes]}
    operations = manager.ask("GET-OPERATIONS").body
    assert operations["Broker"]["stop-producers"] == [
        "reason",
        "actor",
        "pattern",
        "queues",
        "for_ms",
        "below",
        "effect",
        "user",
        "container_id",
        "link",
    ]
    assert manager.ask("GET-TYPES", entityType="Nothing").status == 404


@pytest.mark.parametrize("entity", TYPES)
def test_every_type_can_be_queried_and_every_result_read(broker: BrokerThread, manager: Managing, entity: str) -> None:
    with Crowd(broker) as crowd:
        crowd.publisher("orders", -1)
        crowd.taker("orders")
        broker.until_queue("orders", lambda q: q.gate.producer_count and q.consumer_count, "both are there")
        found = manager.ask("QUERY", entityType=entity)
        assert found.status == 200
        names = found.body["attributeNames"]
        assert names == ["object", "version", *(a.name for a in TYPES[entity].attributes if a.name != "version")]
        for row in found.body["results"]:
            shown = manager.ask("READ", name=row[0])
            assert (shown.status, shown.body["object"]) == (200, row[0])
            assert set(shown.body) == set(names)


def test_a_queue_is_created_read_updated_and_deleted(manager: Managing) -> None:
    name = "type=Queue,virtualhost=default,name=invoices"
    created = manager.ask("CREATE", {"capacity_messages": 10}, name=name)
    assert (created.status, created.body["effective_resume_messages"]) == (201, 8)
    changed = manager.ask("UPDATE", {"capacity_messages": 20}, name=name, version=created.body["version"])
    assert (changed.status, changed.body["capacity_messages"], changed.body["version"]) == (200, 20, 2)
    assert manager.ask("READ", name=name).body == changed.body
    assert manager.ask("DELETE", name=name, version=1).error == "stale-version"
    assert manager.ask("DELETE", name=name, version=2).status == 204
    assert manager.ask("READ", name=name).status == 404


def test_a_change_from_an_old_version_is_refused_and_names_the_current_one(manager: Managing) -> None:
    assert manager.ask("UPDATE", {"capacity_messages": 10}, name=QUEUE, version=1).status == 200
    late = manager.ask("UPDATE", {"capacity_messages": 99}, name=QUEUE, version=1)
    assert (late.status, late.error, late.body) == (409, "stale-version", {"current": 2})
    assert manager.ask("READ", name=QUEUE).body["capacity_messages"] == 10


def test_contradicting_limits_are_refused_with_both_values(manager: Managing) -> None:
    body = {"capacity_messages": 10, "flow_resume_messages": 11}
    refused = manager.ask("UPDATE", body, name=QUEUE, version=1)
    assert (refused.status, refused.error) == (400, "invalid-value")
    assert "11" in refused.body["errors"]["flow_resume_messages"]
    assert "10" in refused.body["errors"]["flow_resume_messages"]


def test_a_query_pages_sorts_searches_and_filters(broker: BrokerThread, manager: Managing) -> None:
    for number in range(12):
        broker.queue(f"q{number}", capacity_messages=number % 3 + 1)
    rows: list[Any] = []
    while page := manager.ask(
        "QUERY", {"search": "default/q", "attributeNames": ["name"]}, entityType="Queue", offset=len(rows), count=5
    ).body["results"]:
        assert len(page) <= 5
        rows.extend(page)
    assert len(rows) == 12
    assert len({row[0] for row in rows}) == 12
    body = {"where": {"capacity_messages": [1, 2]}, "sort": "-capacity_messages,name", "attributeNames": ["name"]}
    found = manager.ask("QUERY", body, entityType="Queue", count=3).body
    assert (found["total"], [row[2] for row in found["results"]]) == (8, ["q1", "q10", "q4"])
    none = manager.ask("QUERY", entityType="Queue", count=0)
    # 12 and the orders, and the temporary queue that this client gets its answers from.
    assert (none.body["results"], none.body["total"], none.properties["count"]) == ([], 14, 0)


def test_an_operation_is_answered_with_the_object_after_it(broker: BrokerThread, manager: Managing) -> None:
    plain = manager.ask("stop-producers", {"reason": "first"}, name=QUEUE)
    for given in ("true", 1, False):
        assert manager.ask("stop-producers", name=QUEUE, objectAfter=given).body.keys() == plain.body.keys()
    answer = manager.ask("start-producers", name=QUEUE, objectAfter=True)
    assert (answer.status, answer.properties["objectAfter"]) == (200, True)
    assert answer.body["answer"].keys() == plain.body.keys()
    assert (answer.body["answer"]["changed"], answer.body["object"]["state"]) == (True, "NORMAL")
    assert answer.body["object"] == manager.ask("READ", name=QUEUE).body
    with Crowd(broker) as crowd:
        crowd.publisher("orders", -1)
        broker.until_queue("orders", lambda q: q.gate.producer_count, "it is there")
        (row,) = manager.ask("QUERY", entityType="Producer").body["results"]
        client = manager.ask("READ", name=row[0]).body["connection"]
        closed = manager.ask("close", {"reason": "a test"}, name=client, objectAfter=True)
        assert closed.status == 200
        assert closed.body["object"] is None or closed.body["object"]["object"] == client
    refused = manager.ask("stop-producers", {"below": 400}, name=QUEUE, objectAfter=True)
    assert (refused.status, "objectAfter" in refused.properties) == (400, False)


def test_operations_are_called_with_arguments_and_answered(broker: BrokerThread, manager: Managing) -> None:
    fill(broker, "orders", ["one", "two"])
    stopped = manager.ask("stop-producers", {"reason": "why not", "pattern": "orders"}, name="type=Broker")
    assert stopped.body["queues"] == 1
    assert stopped.body["changed"] is True
    [stop] = manager.ask("READ", name=QUEUE).body["stops"]
    assert (stop["reason"], stop["actor"]) == ("why not", "console")
    assert manager.ask("start-producers", name="type=VirtualHost,name=default").body["changed"] is False
    assert manager.ask("start-producers", {"actor": "anna"}, name="type=Broker").body["changed"] is True
    assert manager.ask("purge", name=QUEUE).body == {"messages": 2}
    assert manager.ask("explain", name=QUEUE).body["fields"]["overflow"]["origin"] == "built-in"
    checked = manager.ask("check", {"attributes": {"capacity_messages": 10}}, name=QUEUE)
    assert checked.body["effective"]["effective_stop_messages"] == 10
    assert any("By : anna" in text for text in broker.texts())


def test_blocked_producer_reports_reason_time_and_what_would_unblock_it(
    broker: BrokerThread, manager: Managing
) -> None:
    manager.ask("UPDATE", {"capacity_messages": 10}, name=QUEUE, version=1)
    with Crowd(broker) as crowd:
        crowd.publisher("orders")
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        manager.ask("stop-producers", {"reason": "incident", "actor": "anna"}, name=QUEUE)
        found = manager.ask("QUERY", {"where": {"state": "BLOCKED"}}, entityType="Producer").body
        producer = dict(zip(found["attributeNames"], found["results"][0], strict=True))
    assert producer["reasons"] == ["queue-overfull:orders", "operator-stop:queue default/orders"]
    assert producer["blocked_since"] > 0
    assert "8 messages or fewer (now 11)" in producer["release"]
    assert "anna starts the producers" in producer["release"]
    assert producer["blocked_count"] == 1


# -- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "properties", "body", "expected"),
    [
        (None, {"name": "type=Broker"}, None, (400, "operation")),
        ("READ", {}, None, (400, "object name")),
        ("READ", {"name": "nonsense"}, None, (400, "nonsense")),
        ("READ", {"name": "type=Nothing"}, None, (400, "Nothing")),
        ("READ", {"name": "type=Queue,name=orders"}, None, (400, "virtualhost")),
        ("READ", {"name": "type=Queue,virtualhost=default,name=nowhere"}, None, (404, "nowhere")),
        ("READ", {"name": "type=Queue,virtualhost=none,name=orders"}, None, (404, "none")),
        ("READ", {"name": "type=Producer,virtualhost=default,id=x"}, None, (404, "x")),
        ("READ", {"name": "type=Producer,virtualhost=default,id=999999999999999999999999"}, None, (404, "999")),
        ("READ", {"name": "type=Broker", "type": "Queue"}, None, (400, "Queue")),
        ("CREATE", {"name": QUEUE}, {}, (409, "already")),
        ("CREATE", {"name": "type=Queue,virtualhost=default,name=$x"}, {}, (400, "$")),
        ("CREATE", {"name": "type=Queue,virtualhost=nowhere,name=x"}, {}, (404, "nowhere")),
        ("CREATE", {"name": "type=Queue,virtualhost=default,name=x"}, {"depth_messages": 5}, (400, "depth_messages")),
        ("CREATE", {"name": "type=Queue,virtualhost=default,name=x"}, {"name": "y"}, (400, "y")),
        ("CREATE", {"name": "type=Connection,virtualhost=default,id=7"}, {}, (403, "connection")),
        ("UPDATE", {"name": QUEUE}, {"capacity_messages": 1}, (400, "version")),
        ("UPDATE", {"name": QUEUE, "version": "1"}, {"capacity_messages": 1}, (400, "version")),
        ("UPDATE", {"name": QUEUE, "version": True}, {"capacity_messages": 1}, (400, "version")),
        ("UPDATE", {"name": QUEUE, "version": 1}, {"colour": "red"}, (400, "colour")),
        ("UPDATE", {"name": QUEUE, "version": 1}, {"capacity_messages": -1}, (400, "-1")),
        ("UPDATE", {"name": QUEUE, "version": 1}, {"capacity_messages": 1.5}, (400, "1.5")),
        ("UPDATE", {"name": QUEUE, "version": 1}, {"flow_stop_messages": "120%"}, (400, "120%")),
        ("UPDATE", {"name": QUEUE, "version": 1}, {"overflow": "explode"}, (400, "explode")),
        ("DELETE", {"name": "type=VirtualHost,name=default"}, None, (403, "default")),
        ("DELETE", {"name": "type=Broker"}, None, (403, "broker")),
        ("QUERY", {}, None, (400, "entityType")),
        ("QUERY", {"entityType": "Nothing"}, None, (404, "Nothing")),
        ("QUERY", {"entityType": "Queue", "count": 100_000}, None, (400, "100000")),
        ("QUERY", {"entityType": "Queue", "offset": -1}, None, (400, "-1")),
        ("QUERY", {"entityType": "Queue", "offset": "0"}, None, (400, "offset")),
        ("QUERY", {"entityType": "Queue"}, {"attributeNames": ["colour"]}, (400, "colour")),
        ("QUERY", {"entityType": "Queue"}, {"attributeNames": "name"}, (400, "attributeNames")),
        ("QUERY", {"entityType": "Queue"}, {"where": ["name"]}, (400, "where")),
        ("QUERY", {"entityType": "Queue"}, {"where": {"colour": 1}}, (400, "colour")),
        ("QUERY", {"entityType": "Queue"}, {"sort": "colour"}, (400, "colour")),
        ("explode", {"name": QUEUE}, None, (404, "explode")),
        ("purge", {"name": "type=Broker"}, None, (404, "purge")),
        ("purge", {"name": QUEUE}, {"force": True}, (400, "force")),
        ("check", {"name": QUEUE}, {}, (400, "attributes")),
        ("stop-producers", {"name": "type=Broker"}, {"pattern": "a.>.b"}, (400, "a.>.b")),
        ("stop-producers", {"name": "type=Broker"}, {"reason": 5}, (400, "5")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_request_is_answered_with_its_errors(
    patient: Managing, operation: str | None, properties: dict[str, Any], body: Any, expected: tuple[int, str]
) -> None:
    status, names = expected
    answer = patient.ask(operation, body, **properties)
    assert answer.status == status, answer
    assert names in answer.description, answer.description
    assert answer.error


HOSTILE_BODIES: dict[str, Any] = {
    "a list": [1, 2, 3],
    "text": "no map",
    "binary": b"\x00\xff",
    "a number": 5,
    "a described map": Described(symbol("x"), {"capacity_messages": 1}),
    "an array": Array(Data.LONG, Data.LONG, 1),
    "a huge integer": {"capacity_messages": ulong(2**64 - 1)},
    "an integer as text": {"capacity_messages": "9" * 200},
    "names that are no text": {7: 8, None: None, True: 5},
    "a binary value": {"capacity_messages": b"5"},
    "a map as a value": {"capacity_messages": {"a": {"b": [1, {"c": "d"}]}}},
    "a decimal": {"capacity_messages": decimal64(5)},
    "a uuid": {"capacity_messages": uuid.uuid4()},
    "not a number": {"capacity_messages": float("nan")},
    "a small integer": {"capacity_messages": int32(-5)},
    "a described value": {"capacity_messages": Described(symbol("x"), 5)},
    "control characters": {"overflow": "\x00\n\x1b[2J"},
    "a long text": {"overflow": "x" * 100_000},
}


@pytest.mark.parametrize("body", HOSTILE_BODIES.values(), ids=HOSTILE_BODIES.keys())
def test_a_hostile_body_is_refused_and_the_connection_lives_on(patient: Managing, body: Any) -> None:
    for operation in ("UPDATE", "CREATE", "check", "stop-producers", "purge"):
        name = QUEUE if operation != "CREATE" else "type=Queue,virtualhost=default,name=new"
        answer = patient.ask(operation, body, name=name, version=1)
        assert (answer.status, answer.error) == (400, "invalid-value"), (operation, answer)
    answer = patient.ask("QUERY", body, entityType="Queue", count=1)
    assert answer.status == (200 if isinstance(body, dict) and not value_faults(body) else 400)
    assert patient.ask("READ", name=QUEUE).body["version"] == 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (nested(100), "a.0.a.0"),
        ({"reason": "x" * 10_000}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"reason": "a\u202eb"}, "reason"),
        ({"pattern": "x" * 100_000}, "pattern"),
        ({f"field{number}": 1 for number in range(5000)}, "detail"),
        ({"for_ms": ulong(2**64 - 1)}, "for_ms"),
        ({"for_ms": float("inf")}, "for_ms"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_body_that_is_out_of_bounds_is_refused_with_its_field(patient: Managing, body: Any, field: str) -> None:
    answer = patient.ask("stop-producers", body, name="type=Broker")
    assert (answer.status, answer.error) == (400, "invalid-value")
    assert [name for name in answer.body["errors"] if name.startswith(field)]
    assert len(answer.description) < 5000
    assert patient.ask("READ", name=QUEUE).body["version"] == 1


def raw(manager: Managing, *sections: bytes, reply: bool = True) -> None:
    """Send a request that no library would encode; returns once it is settled. Raises if it was rejected."""
    sender = manager.requests.sender.link
    delivery = sender.delivery(sender.delivery_tag())
    to = encode(Described(ulong(0x73), [None, None, None, None, manager.requests.reply_to if reply else None, "id"]))
    sender.stream(to + b"".join(sections))
    sender.advance()
    manager.connection.wait(lambda: delivery.settled, timeout=5)
    state, condition = delivery.remote_state, delivery.remote.condition
    delivery.settle()
    if state == delivery.REJECTED:
        raise SendException(f"{condition.name}: {condition.description}")


DEEP = b"\x40"
for _ in range(20_000):
    DEEP = b"\xd0" + (len(DEEP) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + DEEP


@pytest.mark.parametrize(
    "sections",
    [
        [b"\x00\x53\x77\xc1\x07\x02\xa0\x02ab\x54\x05"],
        [b"\x00\x53\x77" + DEEP],
        [b"\x00\x53\x74" + DEEP],
        [b"\x00\x53\x74\xa1\x05hello"],
        [b"\x00\x53\x74\xc1\x03\x02\xa1\xff"],
        [b"\x00\x53\x77\xa1\x02\xff\xfe"],
        [b"\x00\x53\x77"],
        [b"\xff" * 100],
        [b"\x00\x53\x74" + encode({"operation": b"\xff\xfe", "name": "type=Broker"})],
        [b"\x00\x53\x74\xc1\x0f\x02\xa1\x09operation\xa1\x02\xff\xfe"],
    ],
    ids=[
        "binary names",
        "deep",
        "deep properties",
        "text as properties",
        "cut",
        "no utf-8",
        "empty",
        "noise",
        "binary",
        "bad operation",
    ],
)
def test_unreadable_request_is_rejected_and_the_connection_stays_open(patient: Managing, sections: list[bytes]) -> None:
    manager = patient
    try:
        raw(manager, *sections)
    except SendException as rejected:
        assert "amqp:decode-error: the request cannot be read" in str(rejected)  # noqa: PT017
    else:
        manager.connection.wait(lambda: manager.requests.response, timeout=5)
        assert manager.requests.response.properties["statusCode"] in (400, 404)
        manager.requests.response = None
        manager.requests.receiver.flow(1)
    assert manager.ask("READ", name=QUEUE).status == 200


# -- where answers go ------------------------------------------------------------------------------------------------


def test_a_request_without_a_reply_address_is_rejected(patient: Managing) -> None:
    with pytest.raises(SendException, match="reply-to is None"):
        raw(patient, b"\x00\x53\x77\x40", reply=False)
    assert patient.ask("READ", name=QUEUE).status == 200


def test_answers_go_to_an_address_that_the_client_chose(broker: BrokerThread) -> None:
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$management", credit=5, options=ReplyTo("my.answers"))
        sender = connection.create_sender("$management")
        properties = {"operation": "READ", "name": "type=Broker"}
        for id_ in ("text", ulong(7), uuid.uuid4(), b"bytes"):
            sender.send(Message(id=id_, reply_to="my.answers", properties=properties))
            answer = receiver.receive()
            found = answer.correlation_id
            assert (bytes(found) if isinstance(found, memoryview) else found) == id_
            assert answer.properties["statusCode"] == 200


def test_answer_is_never_sent_to_another_connection(broker: BrokerThread, manager: Managing) -> None:
    with managing(broker) as spy:
        request = Message(reply_to=manager.requests.reply_to, properties={"operation": "GET-TYPES"})
        spy.requests.sender.link.send(request)
        with pytest.raises(SendException):
            spy.requests.sender.send(request)
    assert manager.ask("READ", name=QUEUE).status == 200


def test_reply_address_ends_with_its_link(broker: BrokerThread) -> None:
    with connected(broker, user="console") as connection:
        sender = connection.create_sender("$management")
        request = Message(reply_to="mine", properties={"operation": "GET-TYPES"})
        old = connection.create_receiver("$management", credit=1, options=ReplyTo("mine"), name="old")
        new = connection.create_receiver("$management", credit=1, options=ReplyTo("mine"), name="new")
        old.close()
        sender.send(request)
        assert new.receive().properties["statusCode"] == 200, "the newer link keeps the address"
        new.close()
        with pytest.raises(SendException):
            sender.send(request)


def test_a_link_refused_by_its_node_takes_no_answers(broker: BrokerThread) -> None:
    from tests.amqp.clients import After

    with connected(broker, user="console") as connection:
        with pytest.raises(LinkDetached):
            connection.create_receiver("$events", options=[After("no number"), ReplyTo("mine")])
        sender = connection.create_sender("$management")
        with pytest.raises(SendException):
            sender.send(Message(reply_to="mine", properties={"operation": "GET-TYPES"}))


def test_a_client_that_never_takes_its_answers_loses_its_link(broker: BrokerThread) -> None:
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver("$management", credit=0, options=ReplyTo("mine"))
        sender = connection.create_sender("$management")
        request = Message(reply_to="mine", properties={"operation": "GET-OPERATIONS", "entityType": "Consumer"})
        for _ in range(MAX_WAITING):
            sender.send(request)
        with pytest.raises(LinkDetached, match="resource-limit-exceeded"):
            sender.send(request)
        assert receiver.link.remote_condition.name == "amqp:resource-limit-exceeded"


# -- who may ----------------------------------------------------------------------------------------------------------


def test_user_can_do_exactly_what_its_permissions_allow(strict_broker: BrokerThread) -> None:
    from proton.utils import BlockingConnection

    strict_broker.queue("orders")
    strict_broker.do(
        lambda s: s.broker.accounts.create({"name": "sends", "password": "geheim", "grants": ["default:publish"]})
    )
    strict_broker.do(
        lambda s: s.broker.accounts.create({"name": "takes", "password": "geheim", "grants": ["*:consume"]})
    )
    may = {"sends": {"sender orders"}, "takes": {"receiver orders"}, "console": None}
    for user, allowed in may.items():
        password = strict_broker.secret if user == "console" else "geheim"
        connection = BlockingConnection(
            strict_broker.url, timeout=5, allowed_mechs="PLAIN", user=user, password=password
        )
        for link in ("sender orders", "receiver orders", "sender $management", "receiver $events"):
            role, address = link.split()
            if allowed is None or link in allowed:
                getattr(connection, f"create_{role}")(address)
            else:
                with pytest.raises(LinkDetached, match="has no permission to"):
                    getattr(connection, f"create_{role}")(address)
        connection.close()


def test_a_wrong_password_is_refused_and_logged(broker: BrokerThread, caplog: pytest.LogCaptureFixture) -> None:
    from proton import ConnectionException
    from proton.utils import BlockingConnection

    with caplog.at_level("INFO", "headgate.broker"):
        with pytest.raises(ConnectionException):
            BlockingConnection(broker.url, timeout=5, allowed_mechs="PLAIN", user="console", password="wrong")
        broker.until(lambda s: "wrong password, or no such user: 'console'" in caplog.text, "it is in the log")
