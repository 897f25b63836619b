"""Changes to rules, receivers, silences and allowed networks: validated, authorized and audited.

The serializers in `console/api/alerts_schema.py` have already checked types and ranges; here follow the checks that
depend on other data."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from brokers.admin import InvalidValue, NotFound, StaleVersion
from brokers.input_checks import label_fault
from brokers.model.patterns import pattern_fault
from console.access.actor import Actor
from console.alerts.addresses import network_of, url_of
from console.alerts.models import (
    AllowedNetwork,
    Delivery,
    DeliveryState,
    Kind,
    Notification,
    Receiver,
    Rule,
    Silence,
)
from console.alerts.tasks import deliver
from console.brokers.configured import slugs
from console.celery import send
from console.operations.console_changes import Change, console_change, needs_of_scope

#: Longest pending period, repeat interval and silence, in seconds: a week.
LONGEST = 7 * 24 * 3600
#: Largest threshold of depth, in messages.
DEEPEST = 10**15
#: Longest age of a message as a threshold, in seconds: a year.
OLDEST_AGE = 366 * 24 * 3600
_FIELDS = (
    *("name", "enabled", "broker", "virtualhost", "pattern", "kinds", "holds", "quiet", "send_resolved"),
    *("depth", "depth_percent", "message_age"),
)
#: Default values of a rule.
RULE: dict[str, Any] = {field.name: field.get_default() for field in Rule._meta.fields if field.name in _FIELDS}


# -- JSON -------------------------------------------------------------------------------------------------------------


def rule_json(rule: Rule) -> dict[str, Any]:
    now = timezone.now()
    silence = max((s.until for s in rule.silences.all() if s.until > now), default=None)
    return {
        "id": rule.pk,
        "version": rule.version,
        **{field: getattr(rule, field) for field in _FIELDS},
        "tell_resolved": rule.send_resolved,  # deprecated
        "receivers": [receiver.pk for receiver in rule.receivers.all()],
        "receiver_names": [receiver.name for receiver in rule.receivers.all()],
        "silenced_until": silence,
    }


def receiver_json(receiver: Receiver, *, whole: bool) -> dict[str, Any]:
    """`whole`: with URL and recipients, for users who may edit receivers; the path of a URL may contain a secret."""
    url = receiver.url if whole else ""
    return {
        "id": receiver.pk,
        "version": receiver.version,
        "name": receiver.name,
        "kind": receiver.kind,
        "url": url,
        "recipients": receiver.recipients if whole else [],
        "enabled": receiver.enabled,
    }


def _receiver_audited(receiver: Receiver) -> dict[str, Any]:
    parts = urlsplit(receiver.url)
    url = f"{parts.scheme}://{parts.netloc}/…" if receiver.url else ""
    return {**receiver_json(receiver, whole=True), "url": url}


def silence_json(silence: Silence) -> dict[str, Any]:
    return {
        "id": silence.pk,
        "rule": silence.rule_id,
        "rule_name": silence.rule.name if silence.rule else "",
        "broker": silence.broker,
        "virtualhost": silence.virtualhost,
        "pattern": silence.pattern,
        "until": silence.until,
        "reason": silence.reason,
        "made": silence.made,
        "made_by": silence.made_by,
    }


# -- rules ------------------------------------------------------------------------------------------------------------


def create_rule(by: Actor, given: Mapping[str, Any]) -> Rule:
    """Create a rule. Raises PermissionDenied, InvalidValue."""
    with _scoped(by, f"alert-rule {given.get('name', '')}", "create", *_where(given)) as this:
        rule = Rule(**_rule_values(given))
        receivers = _receivers(given)
        with _unique("name", rule.name), transaction.atomic():
            rule.save()
            rule.receivers.set(receivers)
        this.after = _audited(rule)
        return rule


def change_rule(by: Actor, rule: Rule, given: Mapping[str, Any], version: int) -> Rule:
    """Change a rule and return it. Raises PermissionDenied, InvalidValue, StaleVersion, NotFound."""
    with _scoped(by, f"alert-rule {rule.name}", "update", rule.broker, rule.virtualhost) as this:
        this.before = _audited(rule)
        values = _rule_values({**{field: getattr(rule, field) for field in _FIELDS}, **given})
        for slug, need in needs_of_scope(values["broker"], values["virtualhost"]):
            by.check(slug, need, f"alert-rule {rule.name}")
        receivers = _receivers(given) if "receivers" in given else list(rule.receivers.all())
        with _unique("name", values["name"]), transaction.atomic():
            _next_version(Rule.objects.filter(pk=rule.pk, version=version), rule, values)
            rule.receivers.set(receivers)
        rule = Rule.objects.get(pk=rule.pk)
        this.after = _audited(rule)
        return rule


def delete_rule(by: Actor, rule: Rule) -> None:
    """Delete a rule with its alerts and silences; its notifications stay in the log. Raises PermissionDenied."""
    with _scoped(by, f"alert-rule {rule.name}", "delete", rule.broker, rule.virtualhost) as this:
        this.before = _audited(rule)
        rule.delete()


def _audited(rule: Rule) -> dict[str, Any]:
    shown = {field: getattr(rule, field) for field in _FIELDS}
    return {**shown, "receivers": [receiver.name for receiver in rule.receivers.all()]}


def _rule_values(given: Mapping[str, Any]) -> dict[str, Any]:
    wrong: dict[str, str] = {}
    given = {**RULE, **given}
    values = {field: given[field] for field in _FIELDS}
    values |= {"name": _name(given, wrong), "kinds": list(dict.fromkeys(given["kinds"])), **_scope(given, wrong)}
    if wrong:
        raise InvalidValue(wrong)
    return values


def _receivers(given: Mapping[str, Any]) -> list[Receiver]:
    numbers = given.get("receivers", [])
    found = {receiver.pk: receiver for receiver in Receiver.objects.filter(pk__in=numbers)}
    if missing := [number for number in numbers if number not in found]:
        raise InvalidValue({"receivers": f"there is no receiver {missing[0]}"})
    return list(found.values())


# -- receivers --------------------------------------------------------------------------------------------------------


def create_receiver(by: Actor, given: Mapping[str, Any]) -> Receiver:
    """Create a receiver, of a webhook with a new secret. Raises PermissionDenied, InvalidValue."""
    with console_change(by, f"alert-receiver {given.get('name', '')}", "create", needs_of_scope()) as this:
        kind = given["kind"]
        receiver = Receiver(kind=kind, **_receiver_values(kind, given))
        if kind == Kind.WEBHOOK:
            receiver.secret = new_secret()
        with _unique("name", receiver.name), transaction.atomic():
            receiver.save()
        this.after = _receiver_audited(receiver)
        return receiver


def change_receiver(by: Actor, receiver: Receiver, given: Mapping[str, Any], version: int) -> Receiver:
    """Change a receiver and return it. Raises PermissionDenied, InvalidValue, StaleVersion, NotFound."""
    with console_change(by, f"alert-receiver {receiver.name}", "update", needs_of_scope()) as this:
        this.before = _receiver_audited(receiver)
        now = {field: getattr(receiver, field) for field in ("name", "url", "recipients", "enabled")}
        values = _receiver_values(receiver.kind, {**now, **given})
        with _unique("name", values["name"]), transaction.atomic():
            _next_version(Receiver.objects.filter(pk=receiver.pk, version=version), receiver, values)
        receiver = Receiver.objects.get(pk=receiver.pk)
        this.after = _receiver_audited(receiver)
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
        this.before = _receiver_audited(receiver)
        receiver.delete()


def send_test(by: Actor, receiver: Receiver) -> Delivery:
    """Queue a test message and return its delivery. Raises PermissionDenied."""
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
    """Retry a failed delivery with a full number of attempts. Raises PermissionDenied, InvalidValue."""
    with console_change(by, f"alert-receiver {delivery.receiver_name}", "deliver-again", needs_of_scope()) as this:
        this.detail = f"delivery {delivery.pk}"
        failed = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.FAILED)
        if not failed.update(state=DeliveryState.WAITING, due=timezone.now(), tries=0, finished=None):
            raise InvalidValue({"detail": f"delivery {delivery.pk} has not failed"})
    send(deliver, delivery.pk)


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def _receiver_values(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    wrong: dict[str, str] = {}
    values: dict[str, Any] = {"name": _name(given, wrong), "enabled": given.get("enabled", True)}
    if kind == Kind.WEBHOOK:
        url = given.get("url", "")
        try:
            url_of(url)
            values["url"] = url
        except ValueError as error:
            wrong["url"] = str(error)
    else:
        recipients = given.get("recipients", [])
        if not recipients:
            wrong["recipients"] = "recipients is empty: give at least one address"
        else:
            for each in recipients:
                try:
                    validate_email(each)
                except ValidationError:
                    wrong["recipients"] = f"{each!r} is not an e-mail address"
            values["recipients"] = recipients
    if wrong:
        raise InvalidValue(wrong)
    return values


# -- silences and networks --------------------------------------------------------------------------------------------


def create_silence(by: Actor, given: Mapping[str, Any]) -> Silence:
    """Create a silence of a rule or a scope, for `minutes` from now. Raises PermissionDenied, InvalidValue."""
    where = _where(given)
    number = given.get("rule")
    rule = None if number is None else Rule.objects.filter(pk=number).first()
    if rule is not None:
        where = (rule.broker, rule.virtualhost)
    with _scoped(by, "alert-silence", "create", *where, reason=given.get("reason", "")) as this:
        wrong: dict[str, str] = {}
        scope = _scope(given, wrong)
        if number is not None and rule is None:
            wrong["rule"] = f"there is no rule {number}"
        if wrong:
            raise InvalidValue(wrong)
        silence = Silence.objects.create(
            rule=rule,
            until=timezone.now() + dt.timedelta(minutes=given["minutes"]),
            reason=given.get("reason", "").strip(),
            made_by=by.name,
            **scope,
        )
        this.object = f"alert-silence {silence.pk}"
        this.after = {"rule": rule.name if rule else None, **scope, "until": silence.until.isoformat()}
        return silence


def end_silence(by: Actor, silence: Silence) -> None:
    """End a silence now. Raises PermissionDenied."""
    scope = silence.rule or silence
    with _scoped(by, f"alert-silence {silence.pk}", "delete", scope.broker, scope.virtualhost) as this:
        this.before = {"rule": silence.rule.name if silence.rule else None, "until": silence.until.isoformat()}
        silence.delete()


def add_network(by: Actor, text: str) -> AllowedNetwork:
    """Allow webhooks to reach a private network. Raises PermissionDenied, InvalidValue."""
    what = "add allowed networks"
    with console_change(by, f"alert-network {text}", "create", administer=what):
        try:
            network = network_of(text)
        except ValueError as error:
            raise InvalidValue({"network": str(error)}) from None
        with _unique("network", str(network)), transaction.atomic():
            return AllowedNetwork.objects.create(network=str(network), added_by=by.name)


def remove_network(by: Actor, network: AllowedNetwork) -> None:
    """Remove an allowed network. Raises PermissionDenied."""
    what = "remove allowed networks"
    with console_change(by, f"alert-network {network.network}", "delete", administer=what):
        network.delete()


# -- validation -------------------------------------------------------------------------------------------------------


class _unique:
    """Context manager that turns a violated unique constraint into InvalidValue."""

    def __init__(self, field: str, value: str) -> None:
        self._field, self._value = field, value

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, IntegrityError):
            raise InvalidValue({self._field: f"{self._value!r} already exists"}) from error


def _next_version(found: Any, thing: Rule | Receiver, values: Mapping[str, Any]) -> None:
    if not found.update(**values, version=F("version") + 1):
        now = type(thing)._default_manager.filter(pk=thing.pk).first()
        if now is None:
            raise NotFound(f"{thing.name} has been deleted")
        raise StaleVersion(f"{thing.name} has changed since you read it: read it again", now.version)


def _where(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return broker and virtual host. An unknown broker counts as all brokers here; validation refuses it later."""
    slug, host = (given.get(field, "").strip() for field in ("broker", "virtualhost"))
    return slug if slug in slugs() else "", host


def _scoped(
    by: Actor, what: str, operation: str, broker: str, virtualhost: str, *, reason: str = ""
) -> AbstractContextManager[Change]:
    needs = needs_of_scope(broker, virtualhost)
    return console_change(by, what, operation, needs, slug=broker, virtualhost=virtualhost, reason=reason)


def _name(given: Mapping[str, Any], wrong: dict[str, str]) -> str:
    name: str = given["name"].strip()
    if fault := label_fault("name", name, 100):
        wrong["name"] = fault
    return name


def _scope(given: Mapping[str, Any], wrong: dict[str, str]) -> dict[str, str]:
    scope: dict[str, str] = {field: given.get(field, "").strip() for field in ("broker", "virtualhost", "pattern")}
    if scope["broker"] and scope["broker"] not in slugs():
        wrong["broker"] = f"there is no broker {scope['broker']!r}: brokers are {', '.join(slugs())}"
    if fault := pattern_fault(scope["pattern"]):
        wrong["pattern"] = fault
    return scope
