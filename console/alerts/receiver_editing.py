"""Changes to receivers, and their test messages: validated, authorized and audited.

The serializers in `console/api/alerts_schema.py` have already checked types and ranges. URLs of Slack and Teams and the
routing keys of PagerDuty are secrets: they are encrypted, in no audit row, and no error repeats them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from brokers.admin import InvalidValue
from console.access.actor import Actor
from console.alerts.addresses import url_of
from console.alerts.models import Delivery, DeliveryState, Kind, Notification, Receiver
from console.alerts.pagerduty import KEY_LENGTH, REGIONS
from console.alerts.tasks import deliver
from console.alerts.validation import check_name, save_next_version, unique
from console.brokers import keys
from console.brokers.configured import slugs
from console.celery import send
from console.operations.console_changes import console_attempt, console_change, needs_of_scope

#: Kinds whose URL is a secret.
CHATS = (Kind.SLACK, Kind.TEAMS)


def receiver_json(receiver: Receiver, *, whole: bool) -> dict[str, Any]:
    """`whole`: with URL and recipients, for users who may edit receivers. The path of a webhook's URL may contain a
    secret; that of Slack and Teams does, and is never returned."""
    return {
        "id": receiver.pk,
        "version": receiver.version,
        "name": receiver.name,
        "kind": receiver.kind,
        "url": _shown_url(receiver) if whole else "",
        "region": _region(receiver),
        "recipients": receiver.recipients if whole else [],
        "enabled": receiver.enabled,
    }


def create_receiver(by: Actor, given: Mapping[str, Any]) -> Receiver:
    """Create a receiver, of a webhook with a new secret. Raises PermissionDenied, InvalidValue."""
    kind, what = given["kind"], f"alert-receiver {given.get('name', '')}"
    with console_attempt(by, what, "create", needs_of_scope()) as this, _encryption(kind), this.transaction():
        with unique("name", given["name"].strip()), transaction.atomic():
            receiver = Receiver(kind=kind, **_values(kind, given, new=True))
            if kind == Kind.WEBHOOK:
                receiver.secret = new_secret()
            elif kind == Kind.PAGERDUTY:
                receiver.secret = secrets.token_hex(8)
            receiver.save()
        this.after = _audited(receiver)
        return receiver


def change_receiver(by: Actor, receiver: Receiver, given: Mapping[str, Any], version: int) -> Receiver:
    """Change a receiver and return it; a secret that is not given stays. Raises PermissionDenied, InvalidValue,
    StaleVersion, NotFound."""
    kind, what = receiver.kind, f"alert-receiver {receiver.name}"
    with console_attempt(by, what, "update", needs_of_scope()) as this, _encryption(kind), this.transaction():
        this.before = _audited(receiver)
        now = {field: getattr(receiver, field) for field in ("name", "recipients", "enabled")}
        now["url"] = receiver.url if receiver.kind == Kind.WEBHOOK else ""
        now["region"] = _region(receiver)
        name = given.get("name", receiver.name).strip()
        with unique("name", name), transaction.atomic():
            values = _values(kind, {**now, **given}, new=False)
            save_next_version(Receiver.objects.filter(pk=receiver.pk, version=version), receiver, values)
        receiver = Receiver.objects.get(pk=receiver.pk)
        this.after = _audited(receiver)
        if "encrypted" in values:
            this.detail = "the secret was replaced"
        return receiver


def renew_secret(by: Actor, receiver: Receiver) -> str:
    """Generate and return a new secret of a webhook. Raises PermissionDenied, InvalidValue."""
    with console_change(by, f"alert-receiver {receiver.name}", "renew-secret", needs_of_scope()):
        if receiver.kind != Kind.WEBHOOK:
            raise InvalidValue({"kind": "only webhooks have a secret"})
        receiver.secret = new_secret()
        receiver.save(update_fields=["secret"])
        return receiver.secret


def delete_receiver(by: Actor, receiver: Receiver) -> None:
    """Delete a receiver; its deliveries stay in the log. Raises PermissionDenied."""
    with console_change(by, f"alert-receiver {receiver.name}", "delete", needs_of_scope()) as this:
        this.before = _audited(receiver)
        receiver.delete()


def send_test(by: Actor, receiver: Receiver) -> Delivery:
    """Queue a test message, which is attempted once, and return its delivery. Raises PermissionDenied."""
    with console_change(by, f"alert-receiver {receiver.name}", "test", needs_of_scope()):
        now = timezone.now()
        notification = Notification.objects.create(
            at=now, rule_name="", broker=slugs()[0], phase="test", items=[], count=0
        )
        delivery = Delivery.objects.create(
            notification=notification, receiver=receiver, receiver_name=receiver.name, due=now
        )
    send(deliver, delivery.pk)
    return delivery


def retry_delivery(by: Actor, delivery: Delivery) -> None:
    """Retry a failed delivery with a full number of attempts; not for recipients that accepted it. Raises
    PermissionDenied, InvalidValue."""
    with console_change(by, f"alert-receiver {delivery.receiver_name}", "deliver-again", needs_of_scope()) as this:
        this.detail = f"delivery {delivery.pk}"
        failed = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.FAILED)
        accepted = {recipient: said for recipient, said in delivery.settled.items() if not said}
        again = {"state": DeliveryState.WAITING, "due": timezone.now(), "tries": 0, "finished": None}
        if not failed.update(**again, settled=accepted):
            raise InvalidValue({"detail": f"delivery {delivery.pk} has not failed"})
    send(deliver, delivery.pk)


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def _audited(receiver: Receiver) -> dict[str, Any]:
    url = _without_path(receiver.url) if receiver.kind == Kind.WEBHOOK else _shown_url(receiver)
    return {**receiver_json(receiver, whole=True), "url": url}


def _shown_url(receiver: Receiver) -> str:
    return _without_path(receiver.url) if receiver.kind in CHATS else receiver.url


def _without_path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…" if url else ""


def _region(receiver: Receiver) -> str:
    if receiver.kind != Kind.PAGERDUTY:
        return ""
    return next((region for region, url in REGIONS.items() if url == receiver.url), "")


@contextmanager
def _encryption(kind: str) -> Iterator[None]:
    """Exclude a rotation of the key until the secret is stored. Raises InvalidValue if there is no usable key."""
    if kind not in (*CHATS, Kind.PAGERDUTY):
        yield
        return
    try:
        with keys.locked():
            yield
    except keys.KeyMissing as error:
        field = "routing_key" if kind == Kind.PAGERDUTY else "url"
        raise InvalidValue({field: f"it cannot be encrypted: {error}"}) from None


def _values(kind: str, given: Mapping[str, Any], *, new: bool) -> dict[str, Any]:
    wrong: dict[str, str] = {}
    values = {"name": check_name(given, wrong), "enabled": given.get("enabled", True)}
    if kind == Kind.WEBHOOK:
        values |= _webhook(given, wrong)
    elif kind in CHATS:
        values |= _chat(given, wrong, new=new)
    elif kind == Kind.PAGERDUTY:
        values |= _pagerduty(given, wrong, new=new)
    else:
        values |= _mail(given, wrong)
    if wrong:
        raise InvalidValue(wrong)
    return values


def _webhook(given: Mapping[str, Any], wrong: dict[str, str]) -> dict[str, Any]:
    url = given.get("url", "")
    try:
        url_of(url)
    except ValueError as error:
        wrong["url"] = str(error)
    return {"url": url}


def _chat(given: Mapping[str, Any], wrong: dict[str, str], *, new: bool) -> dict[str, Any]:
    url = given.get("url", "").strip()
    if not url and not new:
        return {}
    try:
        parts = url_of(url)
        if "…" in url:
            raise ValueError
    except ValueError:  # its message repeats the URL
        wrong["url"] = "url must be the whole URL of the webhook: it begins with https:// and contains no … or blanks"
        return {}
    return {"url": f"{parts.scheme}://{parts.netloc}/", "encrypted": keys.encrypt(url)}


def _pagerduty(given: Mapping[str, Any], wrong: dict[str, str], *, new: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"url": REGIONS[given.get("region") or "us"]}
    key = given.get("routing_key", "").strip()
    if key and (len(key) != KEY_LENGTH or not key.isascii() or not key.isalnum()):
        wrong["routing_key"] = f"routing_key must be the integration key of PagerDuty: {KEY_LENGTH} letters and digits"
    elif key:
        values["encrypted"] = keys.encrypt(key)
    elif new:
        wrong["routing_key"] = "routing_key is empty: it is the integration key of an Events API v2 integration"
    return values


def _mail(given: Mapping[str, Any], wrong: dict[str, str]) -> dict[str, Any]:
    recipients = given.get("recipients", [])
    if not recipients:
        wrong["recipients"] = "recipients is empty: give at least one address"
    for each in recipients:
        try:
            validate_email(each)
        except ValidationError:
            wrong["recipients"] = f"{each!r} is not an e-mail address"
    return {"recipients": recipients}
