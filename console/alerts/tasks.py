"""Deliveries in the workers: each is a row, so that a lost message delays it and a doubled one changes nothing.

Whoever takes a delivery holds its lease; a worker that dies after the receiver's answer and before it is kept tells
that receiver twice, under the same number, by which it can know.
"""

from __future__ import annotations

import datetime as dt
import logging
import smtplib
import time

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db.models import F, Q
from django.utils import timezone

from console.alerts.addresses import NotAllowed, network_of
from console.alerts.models import AllowedNetwork, Delivery, DeliveryState, Kind, Notification, Receiver, Silence
from console.alerts.reaching import NO_MAIL_SERVER
from console.alerts.webhook import Refused, post
from console.alerts.wording import payload, subject, text
from console.celery import app, send
from console.leases.leased_row import LeasedRows

log = logging.getLogger(__name__)

#: Attempts before it is given up; seconds before the next one, doubled each time up to `LONGEST`: 50 minutes in all.
TRIES, FIRST, LONGEST = 12, 5, 600
LEASE = dt.timedelta(seconds=60)
#: Attempts that the log of a delivery keeps.
KEPT = 12
#: How long notifications are kept.
DAYS = 90


class Hopeless(Exception):
    """No further attempt would fare better. The message is a sentence."""


@app.task(name="alerts.deliver")  # type: ignore[untyped-decorator]
def deliver(number: int) -> str:
    """One attempt, if one is due."""
    now = timezone.now()
    if not _due(now).filter(pk=number).claim(LEASE, now, tries=F("tries") + 1):
        return "not due"
    delivery = Delivery.objects.select_related("notification", "receiver").get(pk=number)
    began = time.monotonic()
    try:
        said = _attempt(delivery)
        state = DeliveryState.DONE
    except Hopeless as error:
        said, state = str(error), DeliveryState.FAILED
    except (OSError, smtplib.SMTPException, Refused, ValueError) as error:
        said = str(error) or type(error).__name__
        state = DeliveryState.FAILED if delivery.tries >= TRIES else DeliveryState.WAITING
    except Exception as error:  # a fault of ours must not leave it to be tried for ever
        log.exception("delivery %s failed", number)
        said, state = f"{type(error).__name__}: {error}", DeliveryState.FAILED
    now = timezone.now()
    delivery.attempts = [
        *delivery.attempts,
        {"at": now.isoformat(), "seconds": round(time.monotonic() - began, 3), "outcome": said},
    ][-KEPT:]
    delivery.state = state
    delivery.release()
    delivery.finished = None if state == DeliveryState.WAITING else now
    delivery.due = now + dt.timedelta(seconds=min(FIRST * 2 ** (delivery.tries - 1), LONGEST))
    delivery.save(update_fields=["attempts", "state", "lease_until", "lease_holder", "finished", "due"])
    return said


@app.task(name="alerts.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Send what is due: attempts after the first, and those whose message was lost."""
    now = timezone.now()
    due = _due(now).free(now, most=200)
    for number in due:
        send(deliver, number)
    return len(due)


@app.task(name="alerts.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Drop notifications that are kept no longer, and silences that were over by then."""
    since = timezone.now() - dt.timedelta(days=DAYS)
    Silence.objects.filter(until__lt=since).delete()
    old = Notification.objects.filter(at__lt=since)
    return old.exclude(deliveries__state=DeliveryState.WAITING).delete()[0]


def _due(now: dt.datetime) -> LeasedRows:
    """Also what is due later than any attempt is put off: the clock has been set back since."""
    due = Q(due__lte=now) | Q(due__gt=now + dt.timedelta(seconds=2 * LONGEST))
    return Delivery.objects.filter(due, state=DeliveryState.WAITING)


def _attempt(delivery: Delivery) -> str:
    receiver, told = delivery.receiver, delivery.notification
    if receiver is None:
        raise Hopeless("its receiver was removed")
    if receiver.kind == Kind.EMAIL:
        return _mail(receiver, delivery)
    allowed = [network_of(each.network) for each in AllowedNetwork.objects.all()]
    try:
        status = post(receiver.url, receiver.secret, payload(told), delivery=str(delivery.pk), allowed=allowed)
    except NotAllowed as error:
        raise Hopeless(str(error)) from error
    return f"it answered {status}"


def _mail(receiver: Receiver, delivery: Delivery) -> str:
    if not settings.EMAIL_HOST:
        raise Hopeless(NO_MAIL_SERVER)
    told = delivery.notification
    message = EmailMessage(
        subject=subject(told).replace("\n", " ").replace("\r", " "),
        body=text(told),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=receiver.recipients,
        connection=get_connection(),
        # A second copy, after a worker died, has the same number.
        headers={"Message-ID": f"<{told.id}.{delivery.pk}@headgate>", "Auto-Submitted": "auto-generated"},
    )
    message.send()
    return f"{settings.EMAIL_HOST} took it for {', '.join(receiver.recipients)}"
