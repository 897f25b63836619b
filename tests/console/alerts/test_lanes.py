"""Deliveries at once: receivers that hang delay neither those that work nor other tasks of a worker."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from django.utils import timezone

from console.alerts import tasks
from console.alerts.lanes import AT_ONCE, FAILING, Lanes
from console.alerts.models import Delivery, DeliveryState, Notification, Receiver
from console.management.commands.worker import THREADS

#: Threads of a worker that something else than deliveries may occupy for hours.
MAINTENANCE = 3


def test_one_at_a_time_to_a_receiver_and_few_in_all() -> None:
    lanes = Lanes()
    with ExitStack() as stack:
        assert stack.enter_context(lanes.lane(1))
        assert not stack.enter_context(lanes.lane(1))
        assert [stack.enter_context(lanes.lane(each)) for each in range(2, 10)].count(True) == AT_ONCE - 1
        assert lanes.next_of([1, 20, None]) == []
    assert lanes.next_of([1]) == [1]
    assert AT_ONCE + MAINTENANCE < THREADS


def test_receivers_that_fail_leave_lanes_for_the_others() -> None:
    lanes = Lanes()
    for each in range(1, 10):
        lanes.attempted(each, failed=True)
    with ExitStack() as stack:
        taken = [stack.enter_context(lanes.lane(each)) for each in range(1, 10)]
        assert taken.count(True) == FAILING
        assert lanes.next_of([8, 9, 50]) == [50]
        assert stack.enter_context(lanes.lane(50))
    lanes.attempted(9, failed=False)
    assert lanes.next_of([8, 9]) == [9]


def test_each_receiver_with_something_due_has_its_turn() -> None:
    lanes, turns = Lanes(), Counter[int | None]()
    for each in range(1, 10):
        lanes.attempted(each, failed=True)
    for _ in range(90):
        (receiver,) = lanes.next_of(range(1, 10))
        with lanes.lane(receiver) as is_free:
            assert is_free
        turns[receiver] += 1
    assert set(turns.values()) == {10}


@pytest.mark.django_db
def test_what_is_due_for_one_that_works_follows_at_once_while_others_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Notification.objects.create(at=timezone.now(), rule_name="stuck", broker="local", phase="firing", items=[])
    receivers = {name: Receiver.objects.create(name=name, kind="webhook") for name in ("a", "b", "c", "works")}
    for _ in range(10):
        for name, receiver in receivers.items():
            Delivery.objects.create(notification=note, receiver=receiver, receiver_name=name, due=timezone.now())
    sent = []
    monkeypatch.setattr(tasks, "transmit", lambda delivery: sent.append(delivery.receiver_name) or "HTTP 200")
    monkeypatch.setattr(tasks, "_lanes", lanes := Lanes())
    for name in "abc":
        lanes.attempted(receivers[name].pk, failed=True)
    with lanes.lane(receivers["a"].pk), lanes.lane(receivers["b"].pk):  # they hang
        tasks.sweep()
        assert sent == ["works"] * 10
        busy = Delivery.objects.filter(receiver_name="c").first()
        assert busy is not None
        assert tasks.deliver(busy.pk) == "waits for others"
    tasks.sweep()
    assert sorted(sent) == sorted(name for name in receivers for _ in range(10))
    assert set(Delivery.objects.values_list("state", "tries")) == {(DeliveryState.DONE, 1)}
