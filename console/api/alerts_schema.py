"""Serializers of the requests and responses of alerts and schedules."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from console.alerts import editing
from console.alerts.editing import RULE
from console.alerts.messages import titles
from console.alerts.models import Kind
from console.alerts.pagerduty import REGIONS
from console.api.fields import FlagField, TextField, change_of
from console.api.schema import VERSION, number_field
from console.schedules import editing as schedules
from console.schedules.editing import SCHEDULE

_SCOPE = "Empty: all."
_OF_SCHEDULE = "As for creating a schedule; ignored here."


def _seconds(help_text: str, default: int) -> serializers.IntegerField:
    return serializers.IntegerField(default=default, min_value=0, max_value=editing.LONGEST, help_text=help_text)


def _cron(field: str, help_text: str = "") -> TextField:
    return TextField(help_text, default=SCHEDULE[field], allow_blank=False, max_length=100)


class _Scope(serializers.Serializer[Any]):
    broker = TextField(f"Slug of the broker. {_SCOPE}", default="", max_length=64)
    virtualhost = TextField(f"Name of the virtual host. {_SCOPE}", default="", max_length=255)
    pattern = TextField("Pattern of queue names. Empty: all objects.", default="", max_length=255)


class AlertKind(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="Identifier of the condition or event.")
    title = serializers.CharField(help_text="Its title.")
    event = serializers.BooleanField(help_text="True: an event; false: a condition, which lasts.")


class Alert(serializers.Serializer[Any]):
    rule = serializers.IntegerField(help_text="Number of the rule.")
    rule_name = serializers.CharField(help_text="Name of the rule.")
    broker = serializers.CharField(help_text="Slug of the broker.")
    object = serializers.CharField(help_text="Object name of the affected object.")
    name = serializers.CharField(help_text="Short name of the affected object.")
    kind = serializers.CharField(help_text="Identifier of the condition.")
    title = serializers.CharField(help_text="Title of the condition.")
    state = serializers.ChoiceField(["pending", "firing"])
    severity = serializers.CharField(help_text="trouble or warning.")
    saw = serializers.CharField(help_text="Evidence for the condition.")
    advice = serializers.CharField(help_text="Recommended action.")
    since = serializers.DateTimeField(help_text="When the condition was first detected.")
    notified = serializers.DateTimeField(
        allow_null=True, help_text="When the last notification was sent; null: none yet."
    )
    silenced = serializers.BooleanField(help_text="Whether a silence suppresses its notifications.")


_deprecated = extend_schema_serializer(deprecate_fields=["tell_resolved"])


class RuleConditions(_Scope):
    kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=list(titles())),
        allow_empty=False,
        help_text="Conditions and events; see alerts/kinds/.",
    )
    holds = _seconds("Pending period: seconds that a condition must last before its notification.", RULE["holds"])
    quiet = _seconds("Repeat interval: seconds between two notifications about an object.", RULE["quiet"])
    depth = serializers.IntegerField(
        default=RULE["depth"],
        min_value=0,
        max_value=editing.DEEPEST,
        help_text="Threshold of the condition depth-above, in messages.",
    )
    depth_percent = serializers.IntegerField(
        default=RULE["depth_percent"],
        min_value=1,
        max_value=1000,
        help_text="Threshold of the condition depth-above-percent, in percent of the capacity in messages or in bytes.",
    )
    message_age = serializers.IntegerField(
        default=RULE["message_age"],
        min_value=1,
        max_value=editing.OLDEST_AGE,
        help_text="Threshold of the condition oldest-message, in seconds.",
    )


@_deprecated
class RuleGiven(RuleConditions):
    name = TextField("Unique, in one line.", max_length=100)
    enabled = FlagField("Whether the rule is evaluated.", default=RULE["enabled"])
    send_resolved = FlagField("Whether to notify when a condition ends. Default: true.", required=False)
    tell_resolved = FlagField("Deprecated: former name of `send_resolved`.", required=False)
    receivers = serializers.ListField(
        child=serializers.IntegerField(), default=list, help_text="Numbers of the receivers to notify."
    )


RuleChange = _deprecated(change_of("RuleChange", RuleGiven, version=number_field(VERSION)))


@_deprecated
class Rule(RuleGiven):
    send_resolved = FlagField("Whether to notify when a condition ends.", required=True)
    tell_resolved = FlagField("Deprecated: former name of `send_resolved`.", required=True)
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    receiver_names = serializers.ListField(child=serializers.CharField())
    silenced_until = serializers.DateTimeField(allow_null=True)


class RulePreview(serializers.Serializer[Any]):
    count = serializers.IntegerField(help_text="Number of objects that meet a condition now, once per condition.")
    objects = serializers.ListField(
        child=serializers.DictField(),
        help_text="At most 20 of them, the most severe first: broker, object, name, kind, title, severity, saw, since"
        " (start of the condition; null: not reported).",
    )
    unknown = serializers.ListField(
        child=serializers.DictField(), help_text="Brokers of which it is not known: broker, why."
    )
    remarks = serializers.ListField(child=serializers.CharField(), help_text="What the preview does not include.")


class RuleTemplate(serializers.Serializer[Any]):
    id = serializers.CharField()
    title = serializers.CharField(help_text="Also the name of a rule that is created from it.")
    text = serializers.CharField(help_text="When it fires.")
    rule = serializers.DictField(help_text="Fields for creating the rule.")


class ReceiverGiven(serializers.Serializer[Any]):
    name = TextField("Unique, in one line.", max_length=100)
    kind = serializers.ChoiceField(Kind.values)
    url = TextField(
        "URL of a webhook, also of one of Slack or Teams. That of Slack and Teams is a secret: responses have only its"
        " host. In a change, empty: unchanged.",
        default="",
        max_length=1000,
    )
    region = serializers.ChoiceField(
        ["", *REGIONS], default="", help_text="Region of the PagerDuty account. Empty: us; in responses, not PagerDuty."
    )
    recipients = serializers.ListField(
        child=TextField(), default=list, max_length=50, help_text="Addresses of an e-mail receiver, at least one."
    )
    enabled = FlagField("Whether notifications are sent to it.", default=True)


class ReceiverWithKey(ReceiverGiven):
    routing_key = TextField(
        "Integration key of PagerDuty's Events API v2; never returned. In a change, empty: unchanged.",
        default="",
        max_length=100,
    )


ReceiverChange = change_of("ReceiverChange", ReceiverWithKey, "kind", version=number_field(VERSION))


class Receiver(ReceiverGiven):
    id = serializers.IntegerField()
    version = serializers.IntegerField()


class SavedReceiver(Receiver):
    warning = serializers.CharField(help_text="Why deliveries would fail now; empty: no known obstacle.")


class NewReceiver(SavedReceiver):
    secret = serializers.CharField(help_text="Key that signs a webhook's requests; only in this response.")


class Secret(serializers.Serializer[Any]):
    secret = serializers.CharField()


class SilenceGiven(_Scope):
    rule = serializers.IntegerField(default=None, allow_null=True, help_text="Number of a rule; null: all rules.")
    minutes = serializers.IntegerField(
        min_value=1, max_value=editing.LONGEST // 60, help_text="Duration in minutes, from now."
    )
    reason = TextField("Why, in the operator's words.", default="")


class Silence(_Scope):
    id = serializers.IntegerField()
    rule = serializers.IntegerField(allow_null=True)
    rule_name = serializers.CharField()
    until = serializers.DateTimeField()
    reason = serializers.CharField()
    made = serializers.DateTimeField()
    made_by = serializers.CharField()


class NetworkGiven(serializers.Serializer[Any]):
    network = TextField("Address range in CIDR notation, such as 10.0.0.0/8.")


class Network(NetworkGiven):
    id = serializers.IntegerField()
    added = serializers.DateTimeField()
    added_by = serializers.CharField()


class Delivery(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    receiver = serializers.IntegerField(allow_null=True)
    receiver_name = serializers.CharField()
    state = serializers.ChoiceField(["waiting", "done", "failed"])
    due = serializers.DateTimeField(allow_null=True, help_text="Time of the next attempt; null: none.")
    finished = serializers.DateTimeField(allow_null=True)
    tries = serializers.IntegerField()
    attempts = serializers.ListField(child=serializers.DictField(), help_text="Each with at, seconds and outcome.")


class Notification(serializers.Serializer[Any]):
    id = serializers.CharField()
    at = serializers.DateTimeField()
    rule = serializers.IntegerField(allow_null=True)
    rule_name = serializers.CharField(allow_blank=True)
    broker = serializers.CharField()
    phase = serializers.ChoiceField(["firing", "resolved", "event", "test"])
    items = serializers.ListField(child=serializers.DictField())
    count = serializers.IntegerField()
    deliveries = Delivery(many=True)


class ScheduleTimes(serializers.Serializer[Any]):
    zone = TextField("Time zone, such as Europe/Paris.", max_length=64)
    once = TextField("Local time of a single run, such as 2027-03-28T02:30.", default="", max_length=16)
    minute = _cron("minute", "Cron field, like the next four.")
    hour = _cron("hour")
    days = _cron("days", "Days of the month. If days and weekdays are both set, either matches, as in cron.")
    months = _cron("months")
    weekdays = _cron("weekdays", "0 or sun to 6 or sat. A field that begins with * counts as not set: see days.")


class SchedulePreview(ScheduleTimes):
    """The next runs depend on the times alone. The other fields are accepted, so that a form can send itself."""

    name = TextField(_OF_SCHEDULE, default="")
    broker = TextField(_OF_SCHEDULE, default="")
    action = TextField(_OF_SCHEDULE, default="")
    target = TextField(_OF_SCHEDULE, default="")
    pattern = TextField(_OF_SCHEDULE, default="")
    attributes = serializers.DictField(default=dict, help_text=_OF_SCHEDULE)
    effect = TextField(_OF_SCHEDULE, default="")
    reason = TextField(_OF_SCHEDULE, default="")
    lasts = serializers.IntegerField(default=0, allow_null=True, help_text=_OF_SCHEDULE)
    paused = FlagField(_OF_SCHEDULE)


class ScheduleGiven(ScheduleTimes):
    name = TextField("Unique, in one line.", max_length=100)
    broker = TextField("Slug of the broker; empty: the first in the configuration.", default="")
    action = serializers.ChoiceField(["stop", "start", "policy"])
    target = TextField("Object name of the scope.")
    pattern = TextField("Restricts a stop or start to matching queues.", default="", max_length=255)
    attributes = serializers.DictField(default=dict, help_text="Policy fields and the values to set.")
    effect = serializers.ChoiceField(
        ["", "hold", "trickle", "reject", "cut"],
        default="",
        help_text="What the stop does to producers at this broker; required unless it holds them.",
    )
    reason = TextField("Why, in the operator's words.", default="")
    lasts = serializers.IntegerField(
        default=SCHEDULE["lasts"],
        min_value=0,
        max_value=schedules.MOST_MINUTES,
        help_text="Minutes after which the change is reverted; 0: never.",
    )
    paused = FlagField("Whether runs are skipped.", default=SCHEDULE["paused"])


ScheduleChange = change_of("ScheduleChange", ScheduleGiven, version=number_field(VERSION))


class Schedule(ScheduleGiven):
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    user_name = serializers.CharField(help_text="Owner: runs use the permissions that the owner has at that time.")
    token = serializers.CharField(
        allow_blank=True,
        help_text="API token it was saved with: runs have at most its permissions. Empty: none, or it was deleted.",
    )
    cannot_run = serializers.CharField(
        allow_blank=True, help_text="Why a run would be refused now, such as a revoked token; empty: it would not."
    )
    upcoming = serializers.ListField(child=serializers.DateTimeField(), help_text="Next runs.")
    open_run = serializers.IntegerField(allow_null=True, help_text="Number of the run that is active; null: none.")


class Upcoming(serializers.Serializer[Any]):
    upcoming = serializers.ListField(child=serializers.DateTimeField())


class ScheduleRun(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    schedule = serializers.IntegerField(allow_null=True)
    schedule_name = serializers.CharField()
    broker = serializers.CharField()
    action = serializers.CharField()
    target = serializers.CharField()
    pattern = serializers.CharField(allow_blank=True)
    attributes = serializers.DictField()
    effect = serializers.CharField(allow_blank=True)
    user_name = serializers.CharField()
    due = serializers.DateTimeField()
    ends = serializers.DateTimeField(allow_null=True)
    state = serializers.ChoiceField(["beginning", "open", "ending", "done", "failed", "missed"])
    before = serializers.DictField(allow_null=True)
    began = serializers.DateTimeField(allow_null=True)
    finished = serializers.DateTimeField(allow_null=True)
    begin_said = serializers.CharField(allow_blank=True)
    end_said = serializers.CharField(allow_blank=True)
    tries = serializers.IntegerField()
