"""Rules, receivers, silences and allowed networks, as people change them: checked, permitted, audited."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
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
from console.alerts.wording import titles
from console.celery import send
from console.operations.console_changes import Change, console_change, needs_of_scope, slugs

_LONGEST = 7 * 24 * 3600
_DEEPEST = 10**15
_FIELDS = ("name", "enabled", "broker", "virtualhost", "pattern", "kinds", "holds", "quiet", "depth", "tell_resolved")


# -- as they are shown ------------------------------------------------------------------------------------------------


def rule_shown(rule: Rule) -> dict[str, Any]:
    now = timezone.now()
    silence = max((s.until for s in rule.silences.all() if s.until > now), default=None)
    return {
        "id": rule.pk,
        "version": rule.version,
        **{field: getattr(rule, field) for field in _FIELDS},
        "receivers": [receiver.pk for receiver in rule.receivers.all()],
        "receiver_names": [receiver.name for receiver in rule.receivers.all()],
        "silenced_until": silence,
    }


def receiver_shown(receiver: Receiver, *, whole: bool) -> dict[str, Any]:
    """`whole`: with where it is, for those who may change it; the path of a URL may be a secret of its own."""
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
    return {**receiver_shown(receiver, whole=True), "url": url}


def silence_shown(silence: Silence) -> dict[str, Any]:
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


def make_rule(by: Actor, given: Mapping[str, Any]) -> Rule:
    """Raises PermissionDenied, InvalidValue."""
    with _scoped(by, f"alert-rule {given.get('name', '')}", "create", *_where(given)) as this:
        rule = Rule(**_rule_values(given))
        receivers = _receivers(given)
        with _unique("name", rule.name), transaction.atomic():
            rule.save()
            rule.receivers.set(receivers)
        this.after = _audited(rule)
        return rule


def change_rule(by: Actor, rule: Rule, given: Mapping[str, Any], version: int) -> Rule:
    """Raises PermissionDenied, InvalidValue, StaleVersion."""
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


def remove_rule(by: Actor, rule: Rule) -> None:
    with _scoped(by, f"alert-rule {rule.name}", "delete", rule.broker, rule.virtualhost) as this:
        this.before = _audited(rule)
        rule.delete()


def _audited(rule: Rule) -> dict[str, Any]:
    shown = {field: getattr(rule, field) for field in _FIELDS}
    return {**shown, "receivers": [receiver.name for receiver in rule.receivers.all()]}


def _rule_values(given: Mapping[str, Any]) -> dict[str, Any]:
    wrong: dict[str, str] = {}
    values: dict[str, Any] = {
        "name": _name(given, wrong),
        "enabled": _flag(given, "enabled", True, wrong),
        "tell_resolved": _flag(given, "tell_resolved", True, wrong),
        "holds": _seconds(given, "holds", 0, wrong),
        "quiet": _seconds(given, "quiet", 300, wrong),
        "depth": _messages(given, "depth", wrong),
        **_scope(given, wrong),
    }
    kinds = given.get("kinds", [])
    known = titles()
    if not isinstance(kinds, list) or not kinds:
        wrong["kinds"] = "kinds must be a list with at least one condition or event"
    elif unknown := [kind for kind in kinds if not isinstance(kind, str) or kind not in known]:
        wrong["kinds"] = f"kinds has {unknown[0]!r}: it must be one of {', '.join(known)}"
    else:
        values["kinds"] = list(dict.fromkeys(kinds))
    if wrong:
        raise InvalidValue(wrong)
    return values


def _messages(given: Mapping[str, Any], field: str, wrong: dict[str, str]) -> int:
    value = given.get(field, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _DEEPEST:
        wrong[field] = f"{field} is {value!r}: it must be a whole number of messages from 0 to {_DEEPEST:,}"
        return 0
    return value


def _receivers(given: Mapping[str, Any]) -> list[Receiver]:
    numbers = given.get("receivers", [])
    if not isinstance(numbers, list) or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise InvalidValue({"receivers": "receivers must be a list of numbers"})
    found = {receiver.pk: receiver for receiver in Receiver.objects.filter(pk__in=numbers)}
    if missing := [number for number in numbers if number not in found]:
        raise InvalidValue({"receivers": f"there is no receiver {missing[0]}"})
    return list(found.values())


# -- receivers --------------------------------------------------------------------------------------------------------


def make_receiver(by: Actor, given: Mapping[str, Any]) -> Receiver:
    """A webhook's secret is generated. Raises PermissionDenied, InvalidValue."""
    with console_change(by, f"alert-receiver {given.get('name', '')}", "create", needs_of_scope()) as this:
        kind = given.get("kind")
        if kind not in Kind.values:
            raise InvalidValue({"kind": f"kind is {kind!r}: it must be one of {', '.join(Kind.values)}"})
        receiver = Receiver(kind=kind, **_receiver_values(kind, given))
        if kind == Kind.WEBHOOK:
            receiver.secret = new_secret()
        with _unique("name", receiver.name), transaction.atomic():
            receiver.save()
        this.after = _receiver_audited(receiver)
        return receiver


def change_receiver(by: Actor, receiver: Receiver, given: Mapping[str, Any], version: int) -> Receiver:
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
    """The new secret, told this once."""
    with console_change(by, f"alert-receiver {receiver.name}", "renew-secret", needs_of_scope()):
        if receiver.kind != Kind.WEBHOOK:
            raise InvalidValue({"kind": "only webhooks have a secret"})
        receiver.secret = new_secret()
        receiver.save(update_fields=["secret"])
        return receiver.secret


def remove_receiver(by: Actor, receiver: Receiver) -> None:
    with console_change(by, f"alert-receiver {receiver.name}", "delete", needs_of_scope()) as this:
        this.before = _receiver_audited(receiver)
        receiver.delete()


def try_receiver(by: Actor, receiver: Receiver) -> Delivery:
    """Send a test; follow the delivery."""
    with console_change(by, f"alert-receiver {receiver.name}", "test", needs_of_scope()):
        now = timezone.now()
        told = Notification.objects.create(
            at=now, rule_name="", broker=settings.HEADGATE_BROKERS[0]["slug"], phase="test", items=[], count=0
        )
        made = Delivery.objects.create(notification=told, receiver=receiver, receiver_name=receiver.name, due=now)
    send(deliver, made.pk)
    return made


def deliver_again(by: Actor, delivery: Delivery) -> None:
    """Try one that was given up again, from the beginning."""
    with console_change(by, f"alert-receiver {delivery.receiver_name}", "deliver-again", needs_of_scope()) as this:
        this.detail = f"delivery {delivery.pk}"
        failed = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.FAILED)
        if not failed.update(state=DeliveryState.WAITING, due=timezone.now(), tries=0, finished=None):
            raise InvalidValue({"detail": f"delivery {delivery.pk} was not given up"})
    send(deliver, delivery.pk)


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def _receiver_values(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    wrong: dict[str, str] = {}
    values: dict[str, Any] = {"name": _name(given, wrong), "enabled": _flag(given, "enabled", True, wrong)}
    if kind == Kind.WEBHOOK:
        url = given.get("url", "")
        try:
            if not isinstance(url, str) or len(url) > 1000:
                raise ValueError("url must be text of at most 1,000 characters")
            url_of(url)
            values["url"] = url
        except ValueError as error:
            wrong["url"] = str(error)
    else:
        recipients = given.get("recipients", [])
        if not isinstance(recipients, list) or not recipients or len(recipients) > 50:
            wrong["recipients"] = "recipients must be a list of 1 to 50 addresses"
        else:
            for each in recipients:
                try:
                    validate_email(each)
                except (ValidationError, TypeError):
                    wrong["recipients"] = f"{each!r} is not an e-mail address"
            values["recipients"] = recipients
    if wrong:
        raise InvalidValue(wrong)
    return values


# -- silences and networks --------------------------------------------------------------------------------------------


def make_silence(by: Actor, given: Mapping[str, Any]) -> Silence:
    """For `minutes`. Raises PermissionDenied, InvalidValue."""
    where = _where(given)
    about = Rule.objects.filter(pk=given["rule"]).first() if isinstance(given.get("rule"), int) else None
    if about is not None:
        where = (about.broker, about.virtualhost)
    with _scoped(by, "alert-silence", "create", *where, reason=str(given.get("reason") or "")) as this:
        wrong: dict[str, str] = {}
        scope = _scope(given, wrong)
        minutes = given.get("minutes")
        if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= _LONGEST // 60:
            wrong["minutes"] = f"minutes is {minutes!r}: it must be a whole number from 1 to {_LONGEST // 60:,}"
        rule = None
        if (number := given.get("rule")) is not None:
            rule = Rule.objects.filter(pk=number).first() if isinstance(number, int) else None
            if rule is None:
                wrong["rule"] = f"there is no rule {number}"
        if wrong:
            raise InvalidValue(wrong)
        assert isinstance(minutes, int)
        silence = Silence.objects.create(
            rule=rule,
            until=timezone.now() + dt.timedelta(minutes=minutes),
            reason=str(given.get("reason") or "").strip(),
            made_by=by.name,
            **scope,
        )
        this.object = f"alert-silence {silence.pk}"
        this.after = {"rule": rule.name if rule else None, **scope, "until": silence.until.isoformat()}
        return silence


def end_silence(by: Actor, silence: Silence) -> None:
    scope = silence.rule or silence
    with _scoped(by, f"alert-silence {silence.pk}", "delete", scope.broker, scope.virtualhost) as this:
        this.before = {"rule": silence.rule.name if silence.rule else None, "until": silence.until.isoformat()}
        silence.delete()


def allow_network(by: Actor, text: str) -> AllowedNetwork:
    what = "let webhooks reach networks that are not public"
    with console_change(by, f"alert-network {text}", "create", administer=what):
        try:
            network = network_of(text)
        except ValueError as error:
            raise InvalidValue({"network": str(error)}) from None
        with _unique("network", str(network)), transaction.atomic():
            return AllowedNetwork.objects.create(network=str(network), added_by=by.name)


def forbid_network(by: Actor, network: AllowedNetwork) -> None:
    what = "decide which networks webhooks may reach"
    with console_change(by, f"alert-network {network.network}", "delete", administer=what):
        network.delete()


# -- reading what was given -------------------------------------------------------------------------------------------


class _unique:
    """Tell a name that is taken as a value that is wrong."""

    def __init__(self, field: str, value: str) -> None:
        self._field, self._value = field, value

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, IntegrityError):
            raise InvalidValue({self._field: f"{self._value!r} is there already"}) from error


def _next_version(found: Any, thing: Rule | Receiver, values: Mapping[str, Any]) -> None:
    if not found.update(**values, version=F("version") + 1):
        now = type(thing)._default_manager.filter(pk=thing.pk).first()
        if now is None:
            raise NotFound(f"{thing.name} was removed")
        raise StaleVersion(f"{thing.name} was changed meanwhile: read it again", now.version)


def _where(given: Mapping[str, Any]) -> tuple[str, str]:
    """Broker and virtual host; what is no text, or no broker, is told later, and is everything until then."""
    slug, host = given.get("broker"), given.get("virtualhost")
    known = isinstance(slug, str) and slug.strip() in slugs()
    return str(slug).strip() if known else "", host.strip() if isinstance(host, str) else ""


def _scoped(
    by: Actor, what: str, operation: str, broker: str, virtualhost: str, *, reason: str = ""
) -> AbstractContextManager[Change]:
    needs = needs_of_scope(broker, virtualhost)
    return console_change(by, what, operation, needs, slug=broker, virtualhost=virtualhost, reason=reason)


def _name(given: Mapping[str, Any], wrong: dict[str, str]) -> str:
    name = given.get("name", "")
    if not isinstance(name, str) or label_fault("name", name.strip(), 100):
        wrong["name"] = "name must be text of 1 to 100 characters, in one line"
        return ""
    return name.strip()


def _flag(given: Mapping[str, Any], field: str, default: bool, wrong: dict[str, str]) -> bool:
    value = given.get(field, default)
    if not isinstance(value, bool):
        wrong[field] = f"{field} is {value!r}: it must be true or false"
        return default
    return value


def _seconds(given: Mapping[str, Any], field: str, default: int, wrong: dict[str, str]) -> int:
    value = given.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LONGEST:
        wrong[field] = f"{field} is {value!r}: it must be a whole number of seconds from 0 to {_LONGEST:,}"
        return default
    return value


def _scope(given: Mapping[str, Any], wrong: dict[str, str]) -> dict[str, str]:
    scope: dict[str, str] = {}
    for field, most in (("broker", 64), ("virtualhost", 255), ("pattern", 255)):
        value = given.get(field, "")
        if not isinstance(value, str) or len(value) > most:
            wrong[field] = f"{field} must be text of at most {most} characters"
            continue
        scope[field] = value.strip()
    slugs = [entry["slug"] for entry in settings.HEADGATE_BROKERS]
    if scope.get("broker") and scope["broker"] not in slugs:
        wrong["broker"] = f"there is no broker {scope['broker']!r}: there is {', '.join(slugs)}"
    if fault := pattern_fault(scope.get("pattern", "")):
        wrong["pattern"] = fault
    return scope
