"""Rules, receivers and silences; alerts, notifications and deliveries.

An `Alert` is the state of one rule for one object; only the evaluator writes it. A `Notification` is a message about
one or more alerts, and a `Delivery` its transmission to one receiver. Deliveries are both the delivery log and the
queue of the workers. Times are UTC.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from console.leases.leased_row import LeasedRow


class Kind(models.TextChoices):
    WEBHOOK = "webhook", "webhook"
    EMAIL = "email", "e-mail"
    SLACK = "slack", "Slack"
    TEAMS = "teams", "Microsoft Teams"
    PAGERDUTY = "pagerduty", "PagerDuty"


class AlertState(models.TextChoices):
    """PENDING: the condition has not lasted for the pending period yet. HAPPENED: an event, which has no duration."""

    PENDING = "pending", "pending"
    FIRING = "firing", "firing"
    RESOLVED = "resolved", "resolved"
    HAPPENED = "happened", "happened"


class DeliveryState(models.TextChoices):
    """WAITING: for the first or next attempt. FAILED: no more attempts."""

    WAITING = "waiting", "waiting"
    DONE = "done", "done"
    FAILED = "failed", "failed"


class Receiver(models.Model):
    """Target of notifications. A webhook: `url`, requests signed with `secret`. E-mail: `recipients`. Slack and Teams:
    `encrypted` is the URL, which is a secret, and `url` its beginning. PagerDuty: `encrypted` is the routing key, `url`
    that of the region, and `secret` the random part of deduplication keys. For `encrypted` see `brokers/keys.py`; it is
    never shown."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    url = models.CharField(max_length=1000, blank=True)
    secret = models.CharField(max_length=100, blank=True)
    encrypted = models.TextField(blank=True)
    recipients = models.JSONField(default=list)
    enabled = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)

    objects: ClassVar[models.Manager[Receiver]] = models.Manager()

    class Meta:
        ordering = ["name"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class AllowedNetwork(models.Model):
    """A private network that webhooks may reach. Only administrators add and remove them."""

    network = models.CharField(max_length=50, unique=True)
    added = models.DateTimeField(auto_now_add=True)
    added_by = models.CharField(max_length=150)

    objects: ClassVar[models.Manager[AllowedNetwork]] = models.Manager()

    class Meta:
        ordering = ["network"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.network


class ConsoleUrl(models.Model):
    """The URL of this console that an administrator entered, in the only row; `console_url.py` says what it is for."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    url = models.CharField(max_length=300)
    changed = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150)

    objects: ClassVar[models.Manager[ConsoleUrl]] = models.Manager()

    class Meta:
        default_permissions = ()
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="console_url_once")]

    def __str__(self) -> str:
        return self.url


class Rule(models.Model):
    """Conditions and events (`kinds`) in a scope, and the receivers of their notifications. `broker`, `virtualhost`,
    `pattern`: empty for all. `holds`: pending period, seconds that a condition must last; `quiet`: repeat interval,
    seconds between two notifications about an object. Thresholds: `depth` of `depth-above`, messages; `depth_percent`
    of `depth-above-percent`, of the capacity; `message_age` of `oldest-message`, seconds."""

    name = models.CharField(max_length=100, unique=True)
    enabled = models.BooleanField(default=True)
    broker = models.CharField(max_length=64, blank=True)
    virtualhost = models.CharField(max_length=255, blank=True)
    pattern = models.CharField(max_length=255, blank=True)
    kinds = models.JSONField(default=list)
    holds = models.PositiveIntegerField(default=0)
    quiet = models.PositiveIntegerField(default=300)
    depth = models.PositiveBigIntegerField(default=0)
    depth_percent = models.PositiveIntegerField(default=80)
    message_age = models.PositiveIntegerField(default=900)
    send_resolved = models.BooleanField(default=True)
    receivers = models.ManyToManyField(Receiver, related_name="rules", blank=True)
    version = models.PositiveIntegerField(default=1)
    #: Time of the rule's last notification; alerts that follow within seconds are sent together.
    last_notified = models.DateTimeField(null=True)
    #: Number of the event after which it applies, by broker (`rule_starts.py`); null: of an earlier release.
    starts = models.JSONField(null=True, default=dict, editable=False)

    objects: ClassVar[models.Manager[Rule]] = models.Manager()

    class Meta:
        ordering = ["name"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class Silence(models.Model):
    """Suppresses notifications of one rule, or of a scope, until a time."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, null=True, related_name="silences")
    broker = models.CharField(max_length=64, blank=True)
    virtualhost = models.CharField(max_length=255, blank=True)
    pattern = models.CharField(max_length=255, blank=True)
    until = models.DateTimeField(db_index=True)
    reason = models.TextField(blank=True)
    made = models.DateTimeField(auto_now_add=True)
    made_by = models.CharField(max_length=150)

    objects: ClassVar[models.Manager[Silence]] = models.Manager()

    class Meta:
        ordering = ["until"]
        default_permissions = ()


class Alert(models.Model):
    """State of one rule for one object. `notification_due`: a notification is to be sent. `firing_notified`: its
    receivers were notified that it fires, and not yet that it has ended, whatever has happened meanwhile;
    `firing_number`: how many times they were. `notified`: time of the last notification; `count`: events since then.
    `since`: the start of its condition by the console's clock; `reported_since`: as the broker reported it at that
    time, by its own clock; `fired`: when it began to fire last."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="alerts")
    broker = models.CharField(max_length=64)
    object = models.CharField(max_length=1024)
    kind = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=AlertState.choices)
    severity = models.CharField(max_length=16, default="warning")
    saw = models.TextField(blank=True)
    advice = models.TextField(blank=True)
    since = models.DateTimeField()
    reported_since = models.DateTimeField(null=True)
    fired = models.DateTimeField(null=True)
    last_seen = models.DateTimeField()
    ended = models.DateTimeField(null=True)
    notification_due = models.BooleanField(default=False)
    firing_notified = models.BooleanField(default=False)
    firing_number = models.PositiveIntegerField(default=0)
    silenced = models.BooleanField(default=False)
    notified = models.DateTimeField(null=True)
    count = models.PositiveIntegerField(default=0)

    objects: ClassVar[models.Manager[Alert]] = models.Manager()

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["state", "-since"], name="alerts_by_state")]
        constraints = [models.UniqueConstraint(fields=["rule", "broker", "object", "kind"], name="alerts_one_each")]


class ConsumedQueue(models.Model):
    """A queue that has had consumers since a rule about lost consumers exists. `object`: its object name, as text."""

    broker = models.CharField(max_length=64)
    object = models.CharField(max_length=1024)

    objects: ClassVar[models.Manager[ConsumedQueue]] = models.Manager()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["broker", "object"], name="alerts_consumed_once")]


class Position(models.Model):
    """The last event of a broker that the rules have processed. `journal`: identity of the journal that numbers it, and
    behind a space the mark of the event (`event_position.py`)."""

    broker = models.CharField(max_length=64, primary_key=True)
    journal = models.CharField(max_length=100)
    event = models.BigIntegerField()

    objects: ClassVar[models.Manager[Position]] = models.Manager()

    class Meta:
        default_permissions = ()


class Notification(models.Model):
    """A message of one rule. `phase`: firing, resolved, event or test. `items`: the affected objects, at most a
    hundred; `count`: their number. `incident`: the rule and the broker, also after the rule is deleted;
    `still_firing`: number of their alerts that receivers know to fire after it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    at = models.DateTimeField(db_index=True)
    rule = models.ForeignKey(Rule, on_delete=models.SET_NULL, null=True, related_name="notifications")
    rule_name = models.CharField(max_length=100)
    broker = models.CharField(max_length=64)
    phase = models.CharField(max_length=16)
    items = models.JSONField(default=list)
    count = models.PositiveIntegerField(default=0)
    incident = models.CharField(max_length=100, blank=True)
    still_firing = models.PositiveIntegerField(default=0)

    objects: ClassVar[models.Manager[Notification]] = models.Manager()

    class Meta:
        ordering = ["-at"]
        default_permissions = ()


class Delivery(LeasedRow):
    """A notification for a receiver. `due`: time of the next attempt; the worker that attempts it owns the lease.
    `attempts`: the last attempts, each {at, seconds, outcome}. `settled`: of an e-mail, the recipients that are not to
    be tried again, with "" if the server accepted it for them, else with its refusal."""

    notification = models.ForeignKey(Notification, on_delete=models.CASCADE, related_name="deliveries")
    receiver = models.ForeignKey(Receiver, on_delete=models.SET_NULL, null=True, related_name="deliveries")
    receiver_name = models.CharField(max_length=100)
    state = models.CharField(max_length=16, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    due = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0)
    attempts = models.JSONField(default=list)
    settled = models.JSONField(default=dict)
    finished = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        indexes = [models.Index(fields=["state", "due"], name="alerts_deliveries_due")]
