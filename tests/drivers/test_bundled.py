"""The driver of the bundled broker against a peer under control: answers, refusals, silence and broken connections."""

import asyncio
import gc
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from proton import Condition, Delivery, Message, int32, symbol, timestamp, uint, ulong

from brokers.admin import (
    AdminError,
    AlreadyExists,
    BrokerUnreachable,
    Called,
    Event,
    EventsExpired,
    InvalidValue,
    NotAllowed,
    NotFound,
    Samples,
    StaleVersion,
    TryAgain,
)
from brokers.drivers.bundled import BundledBroker
from brokers.model import TYPES, ObjectName
from tests.drivers.fake_broker import FakeBroker, Peer, after_filter, answer_to

QUEUE = ObjectName.parse("type=Queue,virtualhost=default,name=orders")
LIMIT = 60.0


@pytest.fixture
async def fake() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as fake:
        yield fake


@pytest.fixture
async def broker(fake: FakeBroker) -> AsyncIterator[BundledBroker]:
    broker = await connect(fake)
    fake.requests.clear()
    yield broker
    await broker.close()


async def connect(fake: FakeBroker, **more: Any) -> BundledBroker:
    return await BundledBroker.connect("127.0.0.1", fake.port, "console", "secret", **{"timeout": LIMIT, **more})


async def soon(awaitable: Any) -> Any:
    async with asyncio.timeout(LIMIT):
        return await awaitable


async def until(condition: Callable[[], object]) -> None:
    """For what nothing can be awaited: the fake broker's own state."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


# Connecting


async def test_types_are_the_declared_ones(broker: BundledBroker) -> None:
    assert await broker.types() == TYPES
    assert (await broker.types())["Queue"] is TYPES["Queue"]


async def test_its_connections_say_which_process_they_are_of(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_LOG_PROCESS", "recorder")
    broker = await connect(fake)
    names = [peer.connection.remote_container for peer in fake.peers]
    assert len(set(names)) == len(names)
    assert all(name.startswith(f"headgate-recorder-{os.getpid()}-") for name in names)
    assert {peer.connection.remote_properties[symbol("product")] for peer in fake.peers} == {"Headgate"}
    await broker.close()


async def test_a_wrong_password_is_not_allowed(fake: FakeBroker) -> None:
    with pytest.raises(NotAllowed, match="does not take user 'console'"):
        await BundledBroker.connect("127.0.0.1", fake.port, "console", "wrong", timeout=LIMIT)


async def test_refused_connection_raises_unreachable_with_the_address(unused_tcp_port: int) -> None:
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{unused_tcp_port}"):
        await BundledBroker.connect("127.0.0.1", unused_tcp_port, "console", "secret", timeout=LIMIT)


@pytest.mark.parametrize("silent_at", ["sign_in", "open_connections"])
async def test_a_broker_that_never_answers_is_unreachable_in_time(fake: FakeBroker, silent_at: str) -> None:
    setattr(fake, silent_at, False)
    with pytest.raises(BrokerUnreachable, match=r"within 0\.2 s"):
        await connect(fake, timeout=0.2)
    await soon(fake.peers[0].gone)


async def test_another_protocol_is_unreachable() -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n" * 10)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}"):
            await BundledBroker.connect("127.0.0.1", port, "console", "secret", timeout=LIMIT)


async def test_management_refused_is_not_allowed(fake: FakeBroker) -> None:
    fake.refuse["$management"] = Condition("amqp:unauthorized-access", "console may not manage")
    with pytest.raises(NotAllowed, match="may not manage"):
        await connect(fake)


async def test_connecting_that_is_cancelled_leaves_no_connection(fake: FakeBroker) -> None:
    fake.open_connections = False
    connecting = asyncio.create_task(connect(fake))
    await until(lambda: fake.peers)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await soon(fake.peers[0].gone)


# Requests


async def test_a_read_gives_the_object_in_plain_values(fake: FakeBroker, broker: BundledBroker) -> None:
    fake.answer = lambda request: answer_to(
        request,
        {
            "object": str(QUEUE),
            "version": ulong(3),
            "depth_bytes": uint(5),
            "overfull_since": timestamp(7),
            "capacity_bytes": None,
            "state": symbol("NORMAL"),
            "stops": [{"since": int32(1)}],
            "rate_in": 1.5,
        },
    )
    found = await broker.read(QUEUE)
    assert (found.name, found.version) == (QUEUE, 3)
    given = {key: found[key] for key in found.attributes if found[key] is not None}  # the others are unknown
    assert given == {
        "version": 3,
        "depth_bytes": 5,
        "overfull_since": 7,
        "state": "NORMAL",
        "stops": [{"since": 1}],
        "rate_in": 1.5,
    }
    assert found["capacity_bytes"] is None
    for value in (found.version, found["depth_bytes"], found["overfull_since"], found["stops"][0]["since"]):
        assert type(value) is int
    assert type(found["state"]) is str
    (request,) = fake.requests
    assert request.properties == {"operation": "READ", "type": "Queue", "name": str(QUEUE)}


async def test_requests_for_changes_have_the_wire_format(fake: FakeBroker, broker: BundledBroker) -> None:
    fake.answer = lambda request: answer_to(request, {"object": str(QUEUE), "version": 4, "capacity_bytes": 9})
    await broker.create(QUEUE, {"capacity_bytes": 9, "flow_stop_bytes": "80%"})
    await broker.update(QUEUE, {"capacity_bytes": None}, 3)
    await broker.delete(QUEUE)
    await broker.delete(QUEUE, 4)
    assert [(request.properties, request.body) for request in fake.requests] == [
        (
            {"operation": "CREATE", "type": "Queue", "name": str(QUEUE)},
            {"capacity_bytes": 9, "flow_stop_bytes": "80%"},
        ),
        ({"operation": "UPDATE", "type": "Queue", "name": str(QUEUE), "version": 3}, {"capacity_bytes": None}),
        ({"operation": "DELETE", "type": "Queue", "name": str(QUEUE)}, {}),
        ({"operation": "DELETE", "type": "Queue", "name": str(QUEUE), "version": 4}, {}),
    ]


async def test_an_operation_is_called_with_its_arguments_and_gives_its_answer(
    fake: FakeBroker, broker: BundledBroker
) -> None:
    fake.answer = lambda request: answer_to(request, {"queues": 1, "changed": True})
    answer = await broker.call(ObjectName.parse("type=Broker"), "stop-producers", {"reason": "why", "pattern": "a.*"})
    assert answer == {"queues": 1, "changed": True}
    assert not isinstance(answer, Called), "a broker of an earlier release"
    about = {"type": "Broker", "name": "type=Broker"}
    assert fake.requests[0].properties == {"operation": "stop-producers", **about, "objectAfter": True}
    assert fake.requests[0].body == {"reason": "why", "pattern": "a.*"}
    await broker.call(ObjectName.parse("type=Broker"), "preview-stop", {})
    assert fake.requests[1].properties == {"operation": "preview-stop", **about}, "it changes nothing"


async def test_an_operation_gives_the_object_after_it(fake: FakeBroker, broker: BundledBroker) -> None:
    found: list[dict[str, Any] | None] = [{"object": str(QUEUE), "version": 4, "state": "STOPPED"}, None]

    def answered(request: Message) -> Message:
        return answer_to(request, {"answer": {"changed": True}, "object": found.pop(0)}, objectAfter=True)

    fake.answer = answered
    for state in ("STOPPED", None):
        answer = await broker.call(QUEUE, "stop-producers", {"reason": "why"})
        assert isinstance(answer, Called)
        assert answer == {"changed": True}
        assert (answer.after and (answer.after.version, answer.after["state"])) == (state and (4, state))


async def test_a_query_gives_its_page(fake: FakeBroker, broker: BundledBroker) -> None:
    fake.answer = lambda request: answer_to(
        request,
        {
            "attributeNames": ["object", "version", "state"],
            "results": [[str(QUEUE), 1, "NORMAL"], ["type=Queue,virtualhost=v,name=b", 2, "STOPPED"]],
            "total": 17,
        },
    )
    page = await broker.query(
        "Queue", where={"state": ("NORMAL", "STOPPED")}, search="o", sort="-depth_bytes,name", offset=5, count=2
    )
    assert (page.total, page.offset) == (17, 5)
    assert [(o.name["name"], o.version, o["state"]) for o in page.items] == [
        ("orders", 1, "NORMAL"),
        ("b", 2, "STOPPED"),
    ]
    assert fake.requests[0].properties == {
        "operation": "QUERY",
        "type": "org.amqp.management",
        "name": "self",
        "entityType": "Queue",
        "offset": 5,
        "count": 2,
    }
    assert fake.requests[0].body == {
        "attributeNames": [],
        "where": {"state": ["NORMAL", "STOPPED"]},
        "search": "o",
        "sort": "-depth_bytes,name",
    }


async def test_an_answer_of_many_frames_is_read_whole(fake: FakeBroker, broker: BundledBroker) -> None:
    rows = [[f"type=Queue,virtualhost=default,name=q{n}", n, "x" * 300] for n in range(10_000)]
    fake.answer = lambda request: answer_to(
        request, {"attributeNames": ["object", "version", "state"], "results": rows, "total": len(rows)}
    )
    page = await broker.query("Queue", count=10_000)
    assert [item.version for item in page.items] == list(range(10_000))


async def test_answers_in_another_order_find_their_requests(fake: FakeBroker, broker: BundledBroker) -> None:
    requests: list[Message] = []

    def answer(request: Message) -> None:
        requests.append(request)
        if len(requests) == 50:
            peer = fake.peers[0]
            for one in reversed(requests):
                name = one.properties["name"]
                peer.send(peer.reply_links[one.reply_to], answer_to(one, {"object": name, "version": 1}))

    fake.answer = answer
    names = [ObjectName.parse(f"type=Queue,virtualhost=default,name=q{n}") for n in range(50)]
    found = await asyncio.gather(*(broker.read(name) for name in names))
    assert [f.name for f in found] == names


async def test_more_requests_than_credit_are_all_answered(fake: FakeBroker) -> None:
    fake.request_credit = 3
    broker = await connect(fake)
    fake.answer = lambda request: answer_to(request, {"object": request.properties["name"], "version": 1})
    names = [ObjectName.parse(f"type=Queue,virtualhost=default,name=q{n}") for n in range(2500)]
    found = await soon(asyncio.gather(*(broker.read(name) for name in names)))
    assert [f.name for f in found] == names
    await broker.close()


@pytest.mark.parametrize(
    ("status", "properties", "body", "error"),
    [
        (404, {"error": "not-found"}, {}, NotFound),
        (404, {}, {}, NotFound),
        (409, {"error": "already-exists"}, {}, AlreadyExists),
        (403, {"error": "not-allowed"}, {}, NotAllowed),
        (403, {}, {}, NotAllowed),
        (501, {"error": "not-implemented"}, {}, NotFound),
        (400, {"error": "invalid-value"}, {"errors": {"a": "a is 1: no"}}, InvalidValue),
        (400, {}, {}, InvalidValue),
        (409, {"error": "stale-version"}, {"current": 9}, StaleVersion),
        (503, {"error": "try-again"}, {}, TryAgain),
        (500, {}, None, AdminError),
    ],
)
async def test_a_refusal_becomes_its_error(  # noqa: PLR0917
    fake: FakeBroker, broker: BundledBroker, status: int, properties: dict[str, str], body: Any, error: type
) -> None:
    fake.answer = lambda request: answer_to(request, body, status, **properties)
    with pytest.raises(AdminError) as caught:
        await broker.update(QUEUE, {}, 1)
    assert type(caught.value) is error
    if isinstance(caught.value, StaleVersion):
        assert caught.value.current == 9
    if isinstance(caught.value, InvalidValue) and body:
        assert caught.value.errors == {"a": "a is 1: no"}
    else:
        assert str(caught.value) == "as configured"


@pytest.mark.parametrize("value", [1 << 63, object(), b"bytes", {"a": [1 << 80]}, {1: 2}, "\ud800"])
async def test_a_value_that_amqp_cannot_carry_is_invalid_and_nothing_is_sent(
    fake: FakeBroker, broker: BundledBroker, value: Any
) -> None:
    with pytest.raises(InvalidValue) as caught:
        await broker.update(QUEUE, {"capacity_bytes": value, "capacity_messages": 1}, 1)
    assert list(caught.value.errors) == ["capacity_bytes"]
    assert repr(value) in str(caught.value)
    assert fake.requests == []


async def test_no_answer_in_time_is_unreachable_and_the_next_request_is_answered(fake: FakeBroker) -> None:
    broker = await connect(fake)
    broker._timeout = 0.1
    late: list[Message] = []
    fake.answer = late.append
    with pytest.raises(BrokerUnreachable, match=r"to READ type=Queue,virtualhost=default,name=orders within 0\.1 s"):
        await broker.read(QUEUE)
    broker._timeout = LIMIT

    def answer(request: Message) -> Message:
        peer = fake.peers[0]
        # The late answer is discarded.
        peer.send(peer.reply_links[request.reply_to], answer_to(late[0], {"object": str(QUEUE), "version": 1}))
        return answer_to(request, {"object": str(QUEUE), "version": 2})

    fake.answer = answer
    assert (await broker.read(QUEUE)).version == 2
    assert broker._waiting == {}
    await broker.close()


async def test_a_request_that_the_broker_rejects_fails_with_its_reason(fake: FakeBroker, broker: BundledBroker) -> None:
    def on_request(peer: Peer, link: Any) -> None:
        delivery = link.current
        delivery.local.condition = Condition("amqp:decode-error", "cannot read it")
        delivery.update(Delivery.REJECTED)
        link.advance()
        delivery.settle()

    fake.peers[0].on_request = lambda link: on_request(fake.peers[0], link)
    with pytest.raises(AdminError, match="cannot read it"):
        await broker.read(QUEUE)


# The connection is lost


async def test_lost_connection_ends_every_pending_call(fake: FakeBroker, broker: BundledBroker) -> None:
    fake.answer = lambda _request: None
    waiting = [
        asyncio.create_task(broker.read(QUEUE)),
        asyncio.create_task(anext(broker.events())),
        asyncio.create_task(anext(broker.samples())),
    ]
    await soon(fake.attached.get())
    await soon(fake.attached.get())
    await until(lambda: fake.requests)
    fake.peers[0].break_off()
    for result in await soon(asyncio.gather(*waiting, return_exceptions=True)):
        assert type(result) is BrokerUnreachable
    for later in (broker.read(QUEUE), anext(broker.events())):
        with pytest.raises(BrokerUnreachable, match="has ended"):
            await soon(later)


async def test_a_broker_that_closes_with_a_reason_is_quoted(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events()
    peer, _ = await soon(fake.attached.get())
    peer.connection.condition = Condition("amqp:connection:forced", "the broker is shutting down")
    peer.connection.close()
    peer.pump()
    with pytest.raises(BrokerUnreachable, match="shutting down"):
        await soon(anext(stream))
    await soon(peer.gone)
    assert peer.closed_properly


async def test_a_broker_that_falls_silent_is_noticed(fake: FakeBroker) -> None:
    broker = await connect(fake, idle_timeout=1.0)
    stream = broker.events()
    peer, _ = await soon(fake.attached.get())
    peer.silent = True
    with pytest.raises(BrokerUnreachable, match="idle"):
        await soon(anext(stream))
    await soon(peer.gone)


async def test_bytes_that_are_no_amqp_end_the_connection(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events()
    peer, _ = await soon(fake.attached.get())
    peer.socket.write(b"\0\0\0\x08\x01\x00\x00\x00 rubbish")
    with pytest.raises(BrokerUnreachable):
        await soon(anext(stream))


async def test_unreadable_answer_is_discarded(fake: FakeBroker, broker: BundledBroker) -> None:
    def answer(request: Message) -> Message:
        peer = fake.peers[0]
        link = peer.reply_links[request.reply_to]
        link.delivery("x")
        link.stream(b"\xff\xff\xff")
        link.advance()
        return answer_to(request, {"object": str(QUEUE), "version": 1})

    fake.answer = answer
    assert (await soon(broker.read(QUEUE))).version == 1


async def test_close_is_orderly_and_ends_pending_calls(fake: FakeBroker) -> None:
    broker = await connect(fake)
    fake.answer = lambda _request: None
    stream = broker.events()
    waiting = [asyncio.create_task(broker.read(QUEUE)), asyncio.create_task(anext(stream))]
    await soon(fake.attached.get())
    await soon(broker.close())
    await soon(broker.close())
    for result in await soon(asyncio.gather(*waiting, return_exceptions=True)):
        assert type(result) is BrokerUnreachable
    await soon(fake.peers[0].gone)
    assert fake.peers[0].closed_properly


async def test_close_does_not_wait_for_a_silent_broker(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokers.drivers.amqp_client._CLOSE_TIMEOUT_SECONDS", 0.05)
    broker = await connect(fake)
    fake.peers[0].silent = True
    await soon(broker.close())
    await soon(fake.peers[0].gone)


async def test_a_hundred_connections_leave_nothing_behind(fake: FakeBroker) -> None:
    for _ in range(100):
        broker = await connect(fake)
        await broker.close()
    await soon(asyncio.gather(*(peer.gone for peer in fake.peers)))
    del broker
    gc.collect()
    assert sum(type(o) is BundledBroker for o in gc.get_objects()) == 0


# Events and samples


def message(number: int) -> Message:
    return Message(
        body={
            "number": number,
            "at": 1000 + number,
            "kind": "queue-overfull",
            "object": str(QUEUE),
            "text": f"event {number}",
            "attributes": {"depth_bytes": number},
        }
    )


def event(number: int) -> Event:
    return Event(number, 1000 + number, "queue-overfull", QUEUE, f"event {number}", {"depth_bytes": number})


@pytest.mark.parametrize("after", [None, 0, 41, (1 << 63) - 1])
async def test_events_are_requested_after_a_number(fake: FakeBroker, broker: BundledBroker, after: int | None) -> None:
    stream = broker.events(after)
    _, link = await soon(fake.attached.get())
    assert link.remote_source.address == "$events"
    assert after_filter(link) == after
    await stream.aclose()


def batch(*numbers: int) -> Message:
    rows = [[n, 1000 + n, "queue-overfull", str(QUEUE), f"event {n}", {"depth_bytes": n}] for n in numbers]
    return Message(body=json.dumps(rows))


async def test_single_events_of_an_earlier_release_arrive_in_order_with_a_bounded_number_in_flight(
    fake: FakeBroker, broker: BundledBroker
) -> None:
    stream = broker.events(0)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    sent, most = 0, 0

    def send_all() -> None:
        nonlocal sent, most
        while link.credit > 0 and sent < 5000:
            sent += 1
            peer.send(link, message(sent))

    for number in range(1, 5001):
        while number > sent:
            fake.flowed.clear()
            send_all()
            if number > sent:
                await soon(fake.flowed.wait())
        assert await soon(anext(stream)) == event(number)
        most = max(most, sent - number)
        assert sent <= number + 500
    assert most >= 100, "few in flight would be slow over a network"
    await stream.aclose()


async def test_batches_arrive_in_order_with_few_in_flight(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events(0)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    sent = batches = read = 0
    while read < 3000:
        while link.credit > 0:
            batches += 1
            size = 1 + batches * 7 % 200
            peer.send(link, batch(*range(sent + 1, sent + size + 1)))
            sent += size
        fake.flowed.clear()
        while read < sent:
            read += 1
            assert await soon(anext(stream)) == event(read)
            assert sent - read <= 4 * 200
        await soon(fake.flowed.wait())
    await stream.aclose()


async def test_events_after_a_number_have_a_connection_of_their_own(fake: FakeBroker, broker: BundledBroker) -> None:
    streams = [broker.events(0), broker.events(), broker.samples()]
    peers = {}
    for _ in streams:
        peer, link = await soon(fake.attached.get())
        after = link.remote_source.address == "$events" and after_filter(link) is not None
        peers["after" if after else link.remote_source.address] = peer
    assert peers == {"after": fake.peers[1], "$events": fake.peers[0], "$samples": fake.peers[0]}
    # A connection of events that the broker does not serve delays no answer.
    fake.peers[1].silent = True
    fake.answer = lambda request: answer_to(request, {"object": str(QUEUE), "version": 1})
    assert (await soon(broker.read(QUEUE))).version == 1


async def test_both_connections_are_closed_and_lost_ones_end_their_streams(
    fake: FakeBroker, broker: BundledBroker
) -> None:
    stream = broker.events(0)
    await soon(fake.attached.get())
    fake.peers[1].break_off()
    with pytest.raises(BrokerUnreachable, match="has ended"):
        await soon(anext(stream))
    with pytest.raises(BrokerUnreachable, match="has ended"):
        await soon(anext(broker.events(0)))
    other = await connect(fake)
    await other.close()
    await soon(asyncio.gather(*(peer.gone for peer in fake.peers[2:])))
    assert [peer.closed_properly for peer in fake.peers[2:]] == [True, True]


async def test_no_connection_is_left_if_the_second_one_is_refused(fake: FakeBroker) -> None:
    fake.peers = _SecondHangs()
    with pytest.raises(BrokerUnreachable, match=r"within 0\.3 s"):
        await connect(fake, timeout=0.3)
    await soon(asyncio.gather(*(peer.gone for peer in fake.peers)))
    assert len(fake.peers) == 2


class _SecondHangs(list[Peer]):
    """Connections at the fake broker, of which it serves the first."""

    def append(self, peer: Peer) -> None:
        super().append(peer)
        peer.silent = len(self) > 1


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.999])
async def test_a_connection_cut_in_the_middle_of_a_batch_repeats_and_omits_no_event(
    fake: FakeBroker, share: float
) -> None:
    broker = await connect(fake)
    stream = broker.events(0)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    peer.send(link, batch(*range(1, 51)))
    first = await soon(anext(stream))
    # The second batch, of several frames, reaches the client only in part.
    data = batch(*range(51, 151)).encode()
    link.delivery("cut")
    link.stream(data)
    link.advance()
    pending = peer.transport.pending()
    assert pending > 3000
    peer.socket.write(peer.transport.peek(pending)[: int(pending * share)])
    peer.socket.close()
    got = [first.number]
    while len(got) < 50:
        got.append((await soon(anext(stream))).number)
    with pytest.raises(BrokerUnreachable):
        await soon(anext(stream))
    assert got == list(range(1, 51))
    await broker.close()
    again = await connect(fake)
    stream = again.events(got[-1])
    peer, link = await soon(fake.attached.get())
    assert after_filter(link) == 50
    await soon(fake.flowed.wait())
    peer.send(link, batch(*range(51, 151)))
    assert [(await soon(anext(stream))).number for _ in range(100)] == list(range(51, 151))
    await again.close()


_ROW = [5, 1, "queue-overfull", str(QUEUE), "text", {}]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "null",
        "[",
        "5",
        '"text"',
        "[[5]]",
        "[null]",
        "[" * 100_000,
        json.dumps([[*_ROW, 1]]),
        json.dumps([["5", *_ROW[1:]]]),
        json.dumps([[True, *_ROW[1:]]]),
        json.dumps([[5.0, *_ROW[1:]]]),
        json.dumps([[*_ROW[:3], "type=Nonsense", "text", {}]]),
        json.dumps([[*_ROW[:3], None, "text", {}]]),
        json.dumps([[*_ROW[:5], None]]),
        json.dumps([_ROW, _ROW[:3]]),
    ],
)
async def test_an_unreadable_batch_ends_the_stream(fake: FakeBroker, broker: BundledBroker, body: str) -> None:
    stream = broker.events(4)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    peer.send(link, Message(body=body))
    with pytest.raises(BrokerUnreachable, match="unreadable"):
        await soon(anext(stream))
    await until(lambda: link.state & link.REMOTE_CLOSED)


async def test_an_empty_batch_is_no_event_and_costs_no_credit(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events(0)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    reading = asyncio.ensure_future(anext(stream))
    for _ in range(20):
        while link.credit == 0:
            fake.flowed.clear()
            await soon(fake.flowed.wait())
        peer.send(link, batch())
    while link.credit == 0:
        fake.flowed.clear()
        await soon(fake.flowed.wait())
    peer.send(link, batch(1))
    assert await soon(reading) == event(1)


@pytest.mark.parametrize(("numbers", "error"), [((5, 7), "event 7 after event 5"), ((5, 6, 6), "at event 6, before")])
async def test_a_gap_or_a_double_within_a_batch_is_not_passed_on(
    fake: FakeBroker, broker: BundledBroker, numbers: tuple[int, ...], error: str
) -> None:
    stream = broker.events(4)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    peer.send(link, batch(*numbers))
    for number in range(5, 5 + len(set(numbers) & {5, 6})):
        assert await soon(anext(stream)) == event(number)
    with pytest.raises(AdminError, match=error):
        await soon(anext(stream))


async def test_a_stream_forgotten_within_a_batch_detaches_its_link(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events(0)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    peer.send(link, batch(1, 2, 3))
    assert (await soon(anext(stream))).number == 1
    del stream
    await until(lambda: link.state & link.REMOTE_CLOSED)


async def test_an_event_left_out_is_not_passed_over(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events(4)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    peer.send(link, message(5))
    peer.send(link, message(7))
    assert await soon(anext(stream)) == event(5)
    with pytest.raises(BrokerUnreachable, match="event 7 after event 5"):
        await soon(anext(stream))


async def test_numbers_that_went_back_are_another_history(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events(100)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    peer.send(link, message(7))
    with pytest.raises(EventsExpired, match="at event 7, before the requested event 100") as caught:
        await soon(anext(stream))
    assert caught.value.first == 7


async def test_expired_events_name_the_first_available_number(fake: FakeBroker, broker: BundledBroker) -> None:
    fake.refuse["$events"] = Condition("headgate:events-expired", "gone", {symbol("first"): ulong(77)})
    stream = broker.events(3)
    for _ in range(2):
        with pytest.raises(EventsExpired, match="gone") as caught:
            await soon(anext(stream))
        assert caught.value.first == 77
    # The connection goes on.
    fake.answer = lambda request: answer_to(request, {"object": str(QUEUE), "version": 1})
    assert (await broker.read(QUEUE)).version == 1


@pytest.mark.parametrize(
    ("condition", "error"), [("amqp:unauthorized-access", NotAllowed), ("amqp:internal-error", BrokerUnreachable)]
)
async def test_a_refused_stream_raises_its_reason(
    fake: FakeBroker, broker: BundledBroker, condition: str, error: type
) -> None:
    fake.refuse["$samples"] = Condition(condition, "may not be")
    with pytest.raises(error, match="may not be"):
        await soon(anext(broker.samples()))


async def test_buffered_events_are_read_before_the_end_is_raised(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events(0)
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    for number in (1, 2):
        peer.send(link, message(number))
    peer.end(link, None)
    assert [await soon(anext(stream)), await soon(anext(stream))] == [event(1), event(2)]
    with pytest.raises(BrokerUnreachable):
        await soon(anext(stream))


async def test_closing_a_stream_ends_its_reader_and_detaches_its_link(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events()

    async def read() -> list[Event]:
        return [event async for event in stream]

    reading = asyncio.create_task(read())
    _, link = await soon(fake.attached.get())
    await stream.aclose()
    assert await soon(reading) == []
    await until(lambda: link.state & link.REMOTE_CLOSED)


async def test_a_forgotten_stream_detaches_its_link(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.events()
    _, link = await soon(fake.attached.get())
    del stream
    await until(lambda: link.state & link.REMOTE_CLOSED)


async def test_samples_give_the_changed_queues(fake: FakeBroker, broker: BundledBroker) -> None:
    stream = broker.samples()
    peer, link = await soon(fake.attached.get())
    await soon(fake.flowed.wait())
    body = {"at": timestamp(5), "names": ["state", "overfull_since"], "rows": [[str(QUEUE), "NORMAL", None]]}
    peer.send(link, Message(body=body))
    expected = Samples(5, ((QUEUE, {"state": "NORMAL", "overfull_since": None}),))
    assert await soon(anext(stream)) == expected
    peer.send(link, Message(body=json.dumps({**body, "at": 5})))
    assert await soon(anext(stream)) == expected
    peer.send(link, Message(body={"at": 6, "names": ["state"], "rows": [[str(QUEUE)]]}))
    with pytest.raises(BrokerUnreachable, match="an unreadable message"):
        await soon(anext(stream))
