"""Celery tasks that deliver notifications. Each delivery is a database row, so that a lost task only delays it and a
duplicate task has no effect.

A worker owns the delivery's lease while it attempts it. If it dies after the receiver's response and before it saves
the result, the receiver gets the notification twice, with the same `Headgate-Delivery` number.
"""

from __future__ import annotations

import datetime as dt
import logging
import smtplib
import time

from django.db.models import F, Q
from django.utils import timezone

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


@app.task(name="alerts.deliver")  # type: ignore[untyped-decorator]
def deliver(number: int) -> str:
    """Attempt a delivery if it is due, and return the outcome."""
    now = timezone.now()
    if not _due(now).filter(pk=number).claim(LEASE, now, tries=F("tries") + 1):
        return "not due"
    delivery = Delivery.objects.select_related("notification", "receiver").get(pk=number)
    began, wait = time.monotonic(), 0.0
    try:
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
    """Queue all due deliveries: retries, and first attempts whose task was lost. Return their number."""
    now = timezone.now()
    due = _due(now).free(now, most=200)
    for number in due:
        send(deliver, number)
    return len(due)


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
