"""Changes to rules, silences and allowed networks: validated, authorized and audited.

The serializers in `console/api/alerts_schema.py` have already checked types and ranges; here follow the checks that
depend on other data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from django.db import transaction
from django.utils import timezone

from brokers.admin import InvalidValue
from brokers.model.patterns import pattern_fault
from console.access.actor import Actor
from console.alerts.addresses import network_of
from console.alerts.consumed_queues import ConsumedQueues
from console.alerts.models import AllowedNetwork, Receiver, Rule, Silence
from console.alerts.validation import check_name, save_next_version, unique
from console.brokers.configured import slugs
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
        with unique("name", rule.name), transaction.atomic():
            rule.save()
            rule.receivers.set(receivers)
        this.after = _audited(rule)
        return rule


def unsaved_rule(given: Mapping[str, Any]) -> Rule:
    """Return a rule with these values, for a preview. Raises InvalidValue."""
    return Rule(**_rule_values({"name": "preview", **given}))


def change_rule(by: Actor, rule: Rule, given: Mapping[str, Any], version: int) -> Rule:
    """Change a rule and return it. Raises PermissionDenied, InvalidValue, StaleVersion, NotFound."""
    with _scoped(by, f"alert-rule {rule.name}", "update", rule.broker, rule.virtualhost) as this:
        this.before = _audited(rule)
        values = _rule_values({**{field: getattr(rule, field) for field in _FIELDS}, **given})
        for slug, need in needs_of_scope(values["broker"], values["virtualhost"]):
            by.check(slug, need, f"alert-rule {rule.name}")
        receivers = _receivers(given) if "receivers" in given else list(rule.receivers.all())
        with unique("name", values["name"]), transaction.atomic():
            if values["enabled"] and not rule.enabled:
                values["starts"] = {}  # it starts again
            save_next_version(Rule.objects.filter(pk=rule.pk, version=version), rule, values)
            rule.receivers.set(receivers)
            ConsumedQueues.forget_without_rules()
        rule = Rule.objects.get(pk=rule.pk)
        this.after = _audited(rule)
        return rule


def delete_rule(by: Actor, rule: Rule) -> None:
    """Delete a rule with its alerts and silences; its notifications stay in the log. Raises PermissionDenied."""
    with _scoped(by, f"alert-rule {rule.name}", "delete", rule.broker, rule.virtualhost) as this:
        this.before = _audited(rule)
        rule.delete()
        ConsumedQueues.forget_without_rules()


def _audited(rule: Rule) -> dict[str, Any]:
    shown = {field: getattr(rule, field) for field in _FIELDS}
    return {**shown, "receivers": [receiver.name for receiver in rule.receivers.all()]}


def _rule_values(given: Mapping[str, Any]) -> dict[str, Any]:
    wrong: dict[str, str] = {}
    given = {**RULE, **given}
    values = {field: given[field] for field in _FIELDS}
    values |= {"name": check_name(given, wrong), "kinds": list(dict.fromkeys(given["kinds"])), **_scope(given, wrong)}
    if wrong:
        raise InvalidValue(wrong)
    return values


def _receivers(given: Mapping[str, Any]) -> list[Receiver]:
    numbers = given.get("receivers", [])
    found = {receiver.pk: receiver for receiver in Receiver.objects.filter(pk__in=numbers)}
    if missing := [number for number in numbers if number not in found]:
        raise InvalidValue({"receivers": f"there is no receiver {missing[0]}"})
    return list(found.values())


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
        with unique("network", str(network)), transaction.atomic():
            return AllowedNetwork.objects.create(network=str(network), added_by=by.name)


def remove_network(by: Actor, network: AllowedNetwork) -> None:
    """Remove an allowed network. Raises PermissionDenied."""
    what = "remove allowed networks"
    with console_change(by, f"alert-network {network.network}", "delete", administer=what):
        network.delete()


# -- validation -------------------------------------------------------------------------------------------------------


def _where(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return broker and virtual host. An unknown broker counts as all brokers here; validation refuses it later."""
    slug, host = (given.get(field, "").strip() for field in ("broker", "virtualhost"))
    return slug if slug in slugs() else "", host


def _scoped(
    by: Actor, what: str, operation: str, broker: str, virtualhost: str, *, reason: str = ""
) -> AbstractContextManager[Change]:
    needs = needs_of_scope(broker, virtualhost)
    return console_change(by, what, operation, needs, slug=broker, virtualhost=virtualhost, reason=reason)


def _scope(given: Mapping[str, Any], wrong: dict[str, str]) -> dict[str, str]:
    scope: dict[str, str] = {field: given.get(field, "").strip() for field in ("broker", "virtualhost", "pattern")}
    if scope["broker"] and scope["broker"] not in slugs():
        wrong["broker"] = f"there is no broker {scope['broker']!r}: brokers are {', '.join(slugs())}"
    if fault := pattern_fault(scope["pattern"]):
        wrong["pattern"] = fault
    return scope
