"""The shapes of alerts' and schedules' requests and answers, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

_SCOPE = "Empty: every one."


class _Scope(serializers.Serializer[Any]):
    broker = serializers.CharField(required=False, allow_blank=True, help_text=f"Slug of a broker. {_SCOPE}")
    virtualhost = serializers.CharField(required=False, allow_blank=True, help_text=_SCOPE)
    pattern = serializers.CharField(
        required=False, allow_blank=True, help_text="Of names of queues. Empty: every object."
    )


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
    name = serializers.CharField()
    enabled = serializers.BooleanField(required=False)
    kinds = serializers.ListField(child=serializers.CharField(), help_text="Conditions and events.")
    holds = serializers.IntegerField(required=False, help_text="Seconds that a condition must last before it is told.")
    quiet = serializers.IntegerField(required=False, help_text="Seconds without another word about the same object.")
    depth = serializers.IntegerField(required=False, help_text="Messages above which depth-above is seen; 0 at first.")
    tell_resolved = serializers.BooleanField(required=False)
    receivers = serializers.ListField(child=serializers.IntegerField(), required=False)


class RuleChange(RuleGiven):
    name = serializers.CharField(required=False)
    kinds = serializers.ListField(child=serializers.CharField(), required=False)
    version = serializers.IntegerField(help_text="The version that the change was made from.")


class Rule(RuleGiven):
    id = serializers.IntegerField()
    version = serializers.IntegerField()
    receiver_names = serializers.ListField(child=serializers.CharField())
    silenced_until = serializers.DateTimeField(allow_null=True)


class ReceiverGiven(serializers.Serializer[Any]):
    name = serializers.CharField()
    kind = serializers.ChoiceField(["webhook", "email"])
    url = serializers.CharField(required=False, help_text="Of a webhook.")
    recipients = serializers.ListField(child=serializers.CharField(), required=False, help_text="Of e-mail.")
    enabled = serializers.BooleanField(required=False)


class ReceiverChange(serializers.Serializer[Any]):
    name = serializers.CharField(required=False)
    url = serializers.CharField(required=False)
    recipients = serializers.ListField(child=serializers.CharField(), required=False)
    enabled = serializers.BooleanField(required=False)
    version = serializers.IntegerField()


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
    rule = serializers.IntegerField(required=False, allow_null=True)
    minutes = serializers.IntegerField()
    reason = serializers.CharField(required=False)


class Silence(_Scope):
    id = serializers.IntegerField()
    rule = serializers.IntegerField(allow_null=True)
    rule_name = serializers.CharField()
    until = serializers.DateTimeField()
    reason = serializers.CharField()
    made = serializers.DateTimeField()
    made_by = serializers.CharField()


class NetworkGiven(serializers.Serializer[Any]):
    network = serializers.CharField(help_text="Such as 10.0.0.0/8.")


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


class ScheduleGiven(serializers.Serializer[Any]):
    name = serializers.CharField()
    broker = serializers.CharField(required=False)
    action = serializers.ChoiceField(["stop", "start", "policy"])
    target = serializers.CharField(help_text="Object name of the scope.")
    pattern = serializers.CharField(required=False, allow_blank=True, help_text="Narrows a stop or start.")
    attributes = serializers.DictField(required=False, help_text="Policy fields and their values meanwhile.")
    reason = serializers.CharField(required=False, allow_blank=True)
    zone = serializers.CharField(help_text="Time zone, such as Europe/Paris.")
    once = serializers.CharField(required=False, allow_blank=True, help_text="2027-03-28T02:30, by that zone's clock.")
    minute = serializers.CharField(required=False, help_text="As of cron, like the next four.")
    hour = serializers.CharField(required=False)
    days = serializers.CharField(required=False, help_text="Of the month.")
    months = serializers.CharField(required=False)
    weekdays = serializers.CharField(required=False, help_text="0 or sun to 6 or sat.")
    lasts = serializers.IntegerField(required=False, help_text="Minutes after which it is put back; 0: never.")
    paused = serializers.BooleanField(required=False)


class ScheduleChange(ScheduleGiven):
    name = serializers.CharField(required=False)
    action = serializers.ChoiceField(["stop", "start", "policy"], required=False)
    target = serializers.CharField(required=False)
    zone = serializers.CharField(required=False)
    version = serializers.IntegerField()


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
