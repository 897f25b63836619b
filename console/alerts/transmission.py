"""Transmission of a delivery to its receiver, in the format of the receiver's kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from console.alerts import pagerduty, slack, teams
from console.alerts.addresses import Network, NotAllowed, network_of
from console.alerts.console_url import console_url
from console.alerts.mail import RefusedForGood, send_mail
from console.alerts.messages import payload
from console.alerts.models import AllowedNetwork, Delivery, DeliveryState, Kind, Notification, Receiver
from console.alerts.reachability import NO_MAIL_SERVER
from console.alerts.webhook import Refused, Response, encoded, post, send_json
from console.brokers.keys import KeyMissing, decrypt


class PermanentFailure(Exception):
    """A delivery cannot succeed by further attempts. The message is a sentence."""


class Postponed(Exception):
    """The delivery must wait for an earlier one, which is under way."""


def transmit(delivery: Delivery) -> str:
    """Send the delivery's notification and return the outcome, a sentence. Raises PermanentFailure, Postponed, Refused,
    OSError, SMTPException, ValueError."""
    receiver = delivery.receiver
    if receiver is None:
        raise PermanentFailure("the receiver has been deleted")
    allowed = [network_of(each.network) for each in AllowedNetwork.objects.all()]
    try:
        return _TRANSMIT[Kind(receiver.kind)](receiver, delivery, allowed)
    except (NotAllowed, KeyMissing) as error:
        raise PermanentFailure(str(error)) from error
    except Refused as error:
        if error.permanent:
            raise PermanentFailure(str(error)) from error
        raise


def _webhook(receiver: Receiver, delivery: Delivery, allowed: Iterable[Network]) -> str:
    body = payload(delivery.notification, console_url())
    return f"HTTP {post(receiver.url, receiver.secret, body, delivery=str(delivery.pk), allowed=allowed)}"


def _chat(
    message: Callable[[Notification, str], dict[str, Any]], check: Callable[[Response], str]
) -> Callable[[Receiver, Delivery, Iterable[Network]], str]:
    def transmit_to_chat(receiver: Receiver, delivery: Delivery, allowed: Iterable[Network]) -> str:
        made = message(delivery.notification, console_url())
        return check(send_json(decrypt(receiver.encrypted), encoded(made), allowed=allowed))

    return transmit_to_chat


def _mail(receiver: Receiver, delivery: Delivery, allowed: Iterable[Network]) -> str:
    if not settings.EMAIL_HOST:
        raise PermanentFailure(NO_MAIL_SERVER)
    try:
        return send_mail(receiver, delivery)
    except RefusedForGood as error:
        raise PermanentFailure(str(error)) from error


# -- PagerDuty --------------------------------------------------------------------------------------------------------


def _pagerduty(receiver: Receiver, delivery: Delivery, allowed: Iterable[Network]) -> str:
    """Trigger or resolve an incident. The last event decides about its state, so an earlier one is not sent after a
    later one, nor while it may still be under way."""
    notification = delivery.notification
    if not pagerduty.action(notification):
        return f"not sent: the incident remains, since alerts of the rule still fire: {notification.still_firing:,}"
    others = _same_incident(delivery)
    if others.filter(pk__gt=delivery.pk).exists():
        return "not sent: a later notification has changed the state of the incident"
    now = timezone.now()
    if not all(earlier.is_free(now) for earlier in others.filter(state=DeliveryState.WAITING)):
        raise Postponed
    made = pagerduty.event(notification, decrypt(receiver.encrypted), receiver.secret, console_url())
    outcome = pagerduty.check(send_json(receiver.url, encoded(made), allowed=allowed))
    if notification.phase == "test":
        pagerduty.check(send_json(receiver.url, encoded(pagerduty.resolution(made)), allowed=allowed))
    return outcome


def _same_incident(delivery: Delivery) -> QuerySet[Delivery]:
    """Return the other deliveries that change the state of the same incident."""
    notification = delivery.notification
    if notification.phase not in ("firing", "resolved"):
        return Delivery.objects.none()
    changes = Q(notification__phase="firing") | Q(notification__phase="resolved", notification__still_firing=0)
    same = Delivery.objects.filter(receiver=delivery.receiver, notification__incident=notification.incident)
    return same.filter(changes).exclude(pk=delivery.pk)


_TRANSMIT: dict[Kind, Callable[[Receiver, Delivery, Iterable[Network]], str]] = {
    Kind.WEBHOOK: _webhook,
    Kind.EMAIL: _mail,
    Kind.SLACK: _chat(slack.message, slack.check),
    Kind.TEAMS: _chat(teams.message, teams.check),
    Kind.PAGERDUTY: _pagerduty,
}
