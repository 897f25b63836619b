"""The shapes of alerts' and schedules' requests and answers, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.alerts import editing
from console.alerts.editing import RULE
from console.alerts.wording import titles
from console.api.fields import FlagField, TextField, change_of
from console.api.schema import VERSION, number_field
from console.schedules import editing as schedules
from console.schedules.editing import SCHEDULE

_SCOPE = "Empty: every one."
_OF_SCHEDULE = "As for the schedule itself; it changes nothing here."


def _seconds(says: str, default: int) -> serializers.IntegerField:
    return serializers.IntegerField(default=default, min_value=0, max_value=editing.LONGEST, help_text=says)


def _cron(field: str, says: str = "") -> TextField:
    return TextField(says, default=SCHEDULE[field], allow_blank=False, max_length=100)


class _Scope(serializers.Serializer[Any]):
    broker = TextField(f"Slug of a broker. {_SCOPE}", default="", max_length=64)
    virtualhost = TextField(_SCOPE, default="", max_length=255)
    pattern = TextField("Of names of queues. Empty: every object.", default="", max_length=255)


class AlertKind(serializers.Serializer[Any]):
    kind = serializers.CharField()
    title = serializers.CharField()
    event = serializers.BooleanField(help_text="It happens, and does not last.")


class Alert(serializers.Serializer[Any]):
    rule = serializers.IntegerField()
    rule_name = serializers.CharField()
    broker = serializers.CharField()
    object = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    title = serializers.CharField()
    state = serializers.ChoiceField(["pending", "firing"])
    severity = serializers.CharField()
    saw = serializers.CharField()
    advice = serializers.CharField()
    since = serializers.DateTimeField()
    notified = serializers.DateTimeField(allow_null=True)
    silenced = serializers.BooleanField()


class RuleGiven(_Scope):
    name = TextField("Unique, in one line.", max_length=100)
    enabled = FlagField(default=RULE["enabled"])
    kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=list(titles())), allow_empty=False, help_text="Conditions and events."
    )
    holds = _seconds("Seconds that a condition must last before its notification.", RULE["holds"])
    quiet = _seconds("Seconds between two notifications about the same object.", RULE["quiet"])
    depth = serializers.IntegerField(
        default=RULE["depth"],
        min_value=0,
        max_value=editing.DEEPEST,
        help_text="Messages above which the condition depth-above holds.",
    )
    tell_resolved = FlagField(default=RULE["tell_resolved"])
    receivers = serializers.ListField(child=serializers.IntegerField(), default=list)


RuleChange = change_of("RuleChange", RuleGiven, version=number_field(VERSION))


class Rule(RuleGiven):
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    receiver_names = serializers.ListField(child=serializers.CharField())
    silenced_until = serializers.DateTimeField(allow_null=True)


class ReceiverGiven(serializers.Serializer[Any]):
    name = TextField("Unique, in one line.", max_length=100)
    kind = serializers.ChoiceField(["webhook", "email"])
    url = TextField("Of a webhook.", default="", max_length=1000)
    recipients = serializers.ListField(
        child=TextField(), default=list, max_length=50, help_text="Of e-mail: at least one address."
    )
    enabled = FlagField(default=True)


ReceiverChange = change_of("ReceiverChange", ReceiverGiven, "kind", version=number_field(VERSION))


class Receiver(ReceiverGiven):
    id = serializers.IntegerField()
    version = serializers.IntegerField()


class SavedReceiver(Receiver):
    warning = serializers.CharField(help_text="Why nothing would reach it now; empty: nothing is in the way.")


class NewReceiver(SavedReceiver):
    secret = serializers.CharField(help_text="Signs the requests of a webhook. Told this once.")


class Secret(serializers.Serializer[Any]):
    secret = serializers.CharField()


class SilenceGiven(_Scope):
    rule = serializers.IntegerField(default=None, allow_null=True)
    minutes = serializers.IntegerField(min_value=1, max_value=editing.LONGEST // 60)
    reason = TextField(default="")


class Silence(_Scope):
    id = serializers.IntegerField()
    rule = serializers.IntegerField(allow_null=True)
    rule_name = serializers.CharField()
    until = serializers.DateTimeField()
    reason = serializers.CharField()
    made = serializers.DateTimeField()
    made_by = serializers.CharField()


class NetworkGiven(serializers.Serializer[Any]):
    network = TextField("Such as 10.0.0.0/8.")


class Network(NetworkGiven):
    id = serializers.IntegerField()
    added = serializers.DateTimeField()
    added_by = serializers.CharField()


class Delivery(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    receiver = serializers.IntegerField(allow_null=True)
    receiver_name = serializers.CharField()
    state = serializers.ChoiceField(["waiting", "done", "failed"])
    due = serializers.DateTimeField(allow_null=True, help_text="The next attempt.")
    finished = serializers.DateTimeField(allow_null=True)
    tries = serializers.IntegerField()
    attempts = serializers.ListField(child=serializers.DictField(), help_text="Maps of at, seconds, outcome.")


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
    once = TextField("2027-03-28T02:30, by that zone's clock.", default="", max_length=16)
    minute = _cron("minute", "As of cron, like the next four.")
    hour = _cron("hour")
    days = _cron("days", "Of the month. If days and weekdays are both set, either is enough, as in cron.")
    months = _cron("months")
    weekdays = _cron("weekdays", "0 or sun to 6 or sat. A field that begins with * is not set: see days.")


class SchedulePreview(ScheduleTimes):
    """When it is due depends on the times alone; the rest is taken as a form has it that is not filled in yet."""

    name = TextField(_OF_SCHEDULE, default="")
    broker = TextField(_OF_SCHEDULE, default="")
    action = TextField(_OF_SCHEDULE, default="")
    target = TextField(_OF_SCHEDULE, default="")
    pattern = TextField(_OF_SCHEDULE, default="")
    attributes = serializers.DictField(default=dict, help_text=_OF_SCHEDULE)
    reason = TextField(_OF_SCHEDULE, default="")
    lasts = serializers.IntegerField(default=0, allow_null=True, help_text=_OF_SCHEDULE)
    paused = FlagField(_OF_SCHEDULE)


class ScheduleGiven(ScheduleTimes):
    name = TextField("Unique, in one line.", max_length=100)
    broker = TextField("Slug of the broker; empty: the first configured one.", default="")
    action = serializers.ChoiceField(["stop", "start", "policy"])
    target = TextField("Object name of the scope.")
    pattern = TextField("Narrows a stop or start.", default="", max_length=255)
    attributes = serializers.DictField(default=dict, help_text="Policy fields and their values meanwhile.")
    reason = TextField(default="")
    lasts = serializers.IntegerField(
        default=SCHEDULE["lasts"],
        min_value=0,
        max_value=schedules.MOST_MINUTES,
        help_text="Minutes after which it is put back; 0: never.",
    )
    paused = FlagField(default=SCHEDULE["paused"])


ScheduleChange = change_of("ScheduleChange", ScheduleGiven, version=number_field(VERSION))


class Schedule(ScheduleGiven):
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    user_name = serializers.CharField(help_text="Who acts, with the rights that they have then.")
    upcoming = serializers.ListField(child=serializers.DateTimeField())
    open_run = serializers.IntegerField(allow_null=True)


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
