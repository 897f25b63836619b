"""E-mails whose recipients the server accepts in part: each recipient has its outcome, and gets the mail once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from console.access.actor import Actor
from console.alerts import receiver_editing, tasks
from console.alerts.models import Delivery, DeliveryState, Notification, Receiver
from tests.console.alerts.receivers import Mailbox, smtp_receiver
from tests.console.alerts.test_formats import item
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

ANN, BEN, CAT = "ann@example.org", "ben@example.org", "cat@example.org"


@pytest.fixture
def box(settings: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    monkeypatch.setattr("console.alerts.receiver_editing.send", lambda task, number: None)
    with smtp_receiver() as (box, port):
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        yield box


@pytest.fixture
def delivery(box: Mailbox) -> Delivery:
    receiver = Receiver.objects.create(name="team", kind="email", recipients=[ANN, BEN, CAT])
    now = timezone.now()
    notification = Notification.objects.create(
        at=now, rule_name="stuck", broker="local", phase="event", items=[item()], count=1
    )
    return Delivery.objects.create(notification=notification, receiver=receiver, receiver_name="team", due=now)


def attempt(delivery: Delivery) -> str:
    """Attempt the delivery and return its outcome."""
    Delivery.objects.update(due=timezone.now())
    outcome = str(tasks.deliver(delivery.pk))
    delivery.refresh_from_db()
    assert delivery.attempts[-1]["outcome"] == outcome
    return outcome


def test_mail_that_all_recipients_accept_is_one_mail(box: Mailbox, delivery: Delivery) -> None:
    assert attempt(delivery) == f"127.0.0.1 accepted it for {ANN}, {BEN}, {CAT}"
    assert delivery.state == DeliveryState.DONE
    assert box.envelopes == [[ANN, BEN, CAT]]


def test_recipient_that_is_refused_for_now_is_tried_again_alone(box: Mailbox, delivery: Delivery) -> None:
    box.refused = {BEN: "450 greylisted"}
    assert attempt(delivery) == f"127.0.0.1 accepted it for {ANN}, {CAT}; refused for now: {BEN} (450 greylisted)"
    assert delivery.state == DeliveryState.WAITING
    box.refused = {}
    assert attempt(delivery) == f"127.0.0.1 accepted it for {ANN}, {CAT}, {BEN}"
    assert delivery.state == DeliveryState.DONE
    assert box.envelopes == [[ANN, CAT], [BEN]]
    assert {mail["To"] for mail in box.mails} == {f"{ANN}, {BEN}, {CAT}"}
    assert len({mail["Message-ID"] for mail in box.mails}) == 1


def test_recipient_that_is_refused_for_good_fails_the_delivery_and_is_named(
    box: Mailbox, delivery: Delivery, operator: Any
) -> None:
    box.refused = {BEN: "550 no such\u202e user"}
    assert attempt(delivery).startswith(f"127.0.0.1 accepted it for {ANN}, {CAT}; refused: {BEN} (550 no such")
    assert "\u202e" not in delivery.attempts[-1]["outcome"]
    assert delivery.state == DeliveryState.FAILED
    assert box.envelopes == [[ANN, CAT]]
    # It is retried after a correction: those that accepted it get it no second time.
    receiver_editing.retry_delivery(Actor(operator), delivery)
    box.refused = {}
    assert attempt(delivery) == f"127.0.0.1 accepted it for {ANN}, {CAT}, {BEN}"
    assert delivery.state == DeliveryState.DONE
    assert box.envelopes == [[ANN, CAT], [BEN]]


def test_recipient_that_is_refused_for_good_is_not_tried_with_one_that_is_refused_for_now(
    box: Mailbox, delivery: Delivery
) -> None:
    box.refused = {ANN: "550 gone", BEN: "450 greylisted"}
    attempt(delivery)
    assert delivery.state == DeliveryState.WAITING
    box.refused = {ANN: "550 gone"}
    assert attempt(delivery) == f"127.0.0.1 accepted it for {CAT}, {BEN}; refused: {ANN} (550 gone)"
    assert delivery.state == DeliveryState.FAILED
    assert box.envelopes == [[CAT], [BEN]]


def test_all_refused_for_good_fail_at_once(box: Mailbox, delivery: Delivery) -> None:
    box.refused = dict.fromkeys((ANN, BEN, CAT), "554 spam")
    assert attempt(delivery) == f"refused: {ANN} (554 spam), {BEN} (554 spam), {CAT} (554 spam)"
    assert delivery.state == DeliveryState.FAILED


def test_recipients_that_the_server_was_not_given_are_tried_again(box: Mailbox, delivery: Delivery) -> None:
    box.refused = {BEN: "421 closing"}
    assert "421 closing" in attempt(delivery)
    assert (delivery.state, delivery.settled) == (DeliveryState.WAITING, {})
    box.refused = {}
    assert attempt(delivery) == f"127.0.0.1 accepted it for {ANN}, {BEN}, {CAT}"
    assert box.envelopes == [[ANN, BEN, CAT]]


def test_refused_message_is_tried_again_for_all(box: Mailbox, delivery: Delivery) -> None:
    box.refuse = 1
    assert "come back later" in attempt(delivery)
    assert (delivery.state, delivery.settled) == (DeliveryState.WAITING, {})
    attempt(delivery)
    assert box.envelopes == [[ANN, BEN, CAT]]
