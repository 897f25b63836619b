"""The other overflow policies of a broker, from the view of a publisher."""

from __future__ import annotations

import pytest

from brokers.client import Connection, Publisher, Rejected, SendInDoubt
from tests.amqp.broker_thread import WITHIN
from tests.client.conftest import begin
from tests.client.fake_clock import FakeClock
from tests.client.operator import Operator


def fill(operator: Operator, connection: Connection, **policy: int | str) -> Publisher:
    """The queue `orders` with two messages, one more than its capacity, by the publisher that is returned."""
    operator.create("orders", capacity_messages=1, flow_resume_messages=1, **policy)
    publisher = connection.publisher("orders")
    publisher.send("a")
    publisher.send("b")
    assert operator.read("orders")["state"] == "OVERFULL"
    return publisher


@pytest.mark.domain("3 send")
@pytest.mark.parametrize("policy", [{"mechanism": "reject"}, {"mechanism": "reject-after", "reject_after_ms": 50}])
def test_a_full_queue_that_rejects_raises_with_the_condition(
    operator: Operator, connection: Connection, policy: dict[str, int | str]
) -> None:
    publisher = fill(operator, connection, **policy)
    with pytest.raises(Rejected, match="amqp:resource-limit-exceeded") as raised:
        publisher.send("c")
    assert raised.value.condition == "amqp:resource-limit-exceeded"
    assert operator.take("orders", 2) == ["a", "b"]
    publisher.send("d")
    assert operator.take("orders", 1) == ["d"]


def test_a_full_queue_that_withholds_settlements_blocks_send_until_it_resumes(
    operator: Operator, connection: Connection
) -> None:
    publisher = fill(operator, connection, mechanism="hold")
    sending = begin(publisher.send, "c")
    operator.until(lambda: operator.depth("orders") == 3, "the message has been taken in")
    assert not sending.done()
    assert operator.take("orders", 2) == ["a", "b"]
    sending.result(WITHIN)
    assert operator.take("orders", 1) == ["c"]


def test_a_settlement_withheld_for_longer_than_the_time_limit_is_in_doubt(
    operator: Operator, connection: Connection, clock: FakeClock
) -> None:
    publisher = fill(operator, connection, mechanism="hold")
    sending = begin(publisher.send, "c", send_timeout=5)
    operator.until(lambda: operator.depth("orders") == 3, "the message has been taken in")
    clock.advance(5)
    with pytest.raises(SendInDoubt, match="has not settled a message to orders within 5 s"):
        sending.result(WITHIN)
    assert operator.take("orders", 3) == ["a", "b", "c"]  # it was there after all
    publisher.send("d")
    assert operator.take("orders", 1) == ["d"]


def test_a_ring_takes_every_message(operator: Operator, connection: Connection) -> None:
    operator.create("orders", capacity_messages=2, overflow="ring")
    publisher = connection.publisher("orders")
    for n in range(5):
        publisher.send(n)
    assert operator.take("orders", 2) == [3, 4]
