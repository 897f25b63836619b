"""Celery tasks that deliver notifications. Each delivery is a database row, so that a lost task only delays it and a
duplicate task has no effect.

A worker owns the delivery's lease while it attempts it. If it dies after the receiver's response and before it saves
the result, the receiver gets the notification twice, with the same `Headgate-Delivery` number. `lanes.py` bounds how
many are attempted at once: one that has no lane is attempted after another one.
"""

from __future__ import annotations

import datetime as dt
import logging
import smtplib
import time
from itertools import islice

from django.db.models import F, Q
from django.utils import timezone

from console.alerts.lanes import Lanes
from console.alerts.models import Delivery, DeliveryState, Notification, Silence
from console.alerts.transmission import PermanentFailure, Postponed, transmit
from console.alerts.webhook import Refused
from console.celery import app, send
from console.leases.leased_row import LeasedRows

log = logging.getLogger(__name__)

#: Attempts before a delivery fails; seconds between them, doubled each time from `FIRST` to `LONGEST`: 50 minutes.
TRIES, FIRST, LONGEST = 12, 5, 600
#: Longest time that a receiver can demand before the next attempt, seconds.
LONGEST_WAIT = 900
LEASE = dt.timedelta(seconds=60)
#: Attempts that a delivery retains.
MAX_LOGGED = 12
#: Days for which notifications are retained.
DAYS = 90


_lanes = Lanes()


@app.task(name="alerts.deliver")  # type: ignore[untyped-decorator]
def deliver(number: int) -> str:
    """Attempt a delivery if it is due and there is a lane for it, and return the outcome."""
    found = Delivery.objects.filter(pk=number).values("receiver").first()
    if found is None:
        return "not due"
    with _lanes.lane(found["receiver"]) as is_free:
        if not is_free:
            return "waits for others"
        outcome = _attempt(number)
    _send_next()
    return outcome


def _send_next() -> None:
    """Queue the delivery for which a lane is free now."""
    for receiver in _lanes.next_of(_waiting()):
        for number in _first_due(receiver):
            send(deliver, number)


def _waiting() -> set[int | None]:
    """Return the receivers with due deliveries."""
    return set(_due(timezone.now()).values_list("receiver", flat=True).order_by().distinct())


def _first_due(receiver: int | None) -> list[int]:
    """Return the delivery to a receiver that is next; none if all due ones are being attempted."""
    now = timezone.now()
    rows = _due(now).filter(receiver=receiver).order_by("due", "pk").only("pk", "lease_until", "lease_holder")
    return [row.pk for row in islice((row for row in rows.iterator(100) if row.is_free(now)), 1)]


def _attempt(number: int) -> str:
    now = timezone.now()
    if not _due(now).filter(pk=number).claim(LEASE, now, tries=F("tries") + 1):
        return "not due"
    delivery = Delivery.objects.select_related("notification", "receiver").get(pk=number)
    began, wait = time.monotonic(), 0.0
    try:
        receiver = delivery.receiver
        if receiver is not None and not receiver.enabled and delivery.notification.phase != "test":
            raise PermanentFailure("the receiver is disabled")
        outcome = transmit(delivery)
        state = DeliveryState.DONE
    except Postponed:
        delivery.release()
        delivery.due, delivery.tries = now + dt.timedelta(seconds=FIRST), delivery.tries - 1
        delivery.save(update_fields=["tries", "lease_until", "lease_holder", "due"])
        return "postponed"
    except PermanentFailure as error:
        outcome, state = str(error), DeliveryState.FAILED
    except (OSError, smtplib.SMTPException, Refused, ValueError) as error:
        outcome = str(error) or type(error).__name__
        wait = error.wait if isinstance(error, Refused) else 0.0
        # The user who sends a test message waits for its outcome.
        last = delivery.tries >= TRIES or delivery.notification.phase == "test"
        state = DeliveryState.FAILED if last else DeliveryState.WAITING
    except Exception as error:  # a bug must not cause endless attempts
        log.exception("delivery %s failed", number)
        outcome, state = f"{type(error).__name__}: {error}", DeliveryState.FAILED
    _lanes.attempted(delivery.receiver_id, failed=state != DeliveryState.DONE)
    now = timezone.now()
    delivery.attempts = [
        *delivery.attempts,
        {"at": now.isoformat(), "seconds": round(time.monotonic() - began, 3), "outcome": outcome},
    ][-MAX_LOGGED:]
    delivery.state = state
    delivery.release()
    delivery.finished = None if state == DeliveryState.WAITING else now
    pause = max(min(FIRST * 2 ** (delivery.tries - 1), LONGEST), min(wait, LONGEST_WAIT))
    delivery.due = now + dt.timedelta(seconds=pause)
    delivery.save(update_fields=["attempts", "settled", "state", "lease_until", "lease_holder", "finished", "due"])
    return outcome


@app.task(name="alerts.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Queue a due delivery of each receiver: a retry, or a first attempt whose task was lost. The others follow it.
    Return their number."""
    numbers = [number for receiver in _waiting() for number in _first_due(receiver)]
    for number in numbers:
        send(deliver, number)
    return len(numbers)


@app.task(name="alerts.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Delete notifications and silences that ended before the retention period. Return the number of deleted rows."""
    since = timezone.now() - dt.timedelta(days=DAYS)
    Silence.objects.filter(until__lt=since).delete()
    old = Notification.objects.filter(at__lt=since)
    return old.exclude(deliveries__state=DeliveryState.WAITING).delete()[0]


def _due(now: dt.datetime) -> LeasedRows:
    """Return due deliveries. A time further ahead than any retry means that the clock was set back: due, too."""
    due = Q(due__lte=now) | Q(due__gt=now + dt.timedelta(seconds=2 * LONGEST))
    return Delivery.objects.filter(due, state=DeliveryState.WAITING)
