"""Rules, who is told (receivers), silences; and what came of them: alerts, notifications, deliveries.

An `Alert` is the state of one rule about one object; the evaluator alone writes it. A `Notification` is what was told
at one moment, a `Delivery` the way of it to one receiver: the log, and the list of what is still to be done.
Times are UTC.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from console.leases.leased_row import LeasedRow


class Kind(models.TextChoices):
    WEBHOOK = "webhook", "webhook"
    EMAIL = "email", "e-mail"


class AlertState(models.TextChoices):
    """PENDING: seen, and not yet for as long as the rule wants. HAPPENED: an event, which does not last."""

    PENDING = "pending", "pending"
    FIRING = "firing", "firing"
    RESOLVED = "resolved", "resolved"
    HAPPENED = "happened", "happened"


class DeliveryState(models.TextChoices):
    """WAITING: for its first attempt or the next one. FAILED: given up."""

    WAITING = "waiting", "waiting"
    DONE = "done", "done"
    FAILED = "failed", "failed"


class Receiver(models.Model):
    """Where notifications go: `url` of a webhook, which is signed with `secret`; or `recipients` of e-mail."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    url = models.CharField(max_length=1000, blank=True)
    secret = models.CharField(max_length=100, blank=True)
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
    """A network that is not public and that webhooks may reach all the same; administrators alone decide."""

    network = models.CharField(max_length=50, unique=True)
    added = models.DateTimeField(auto_now_add=True)
    added_by = models.CharField(max_length=150)

    objects: ClassVar[models.Manager[AllowedNetwork]] = models.Manager()

    class Meta:
        ordering = ["network"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.network


class Rule(models.Model):
    """What shall be told to whom. `broker`, `virtualhost`, `pattern`: empty for all. `kinds`: of conditions and events.
    `holds`: seconds that a condition must last; `quiet`: seconds without another word about the same object. `depth`:
    messages above which `depth-above` is seen."""

    name = models.CharField(max_length=100, unique=True)
    enabled = models.BooleanField(default=True)
    broker = models.CharField(max_length=64, blank=True)
    virtualhost = models.CharField(max_length=255, blank=True)
    pattern = models.CharField(max_length=255, blank=True)
    kinds = models.JSONField(default=list)
    holds = models.PositiveIntegerField(default=0)
    quiet = models.PositiveIntegerField(default=300)
    depth = models.PositiveBigIntegerField(default=0)
    tell_resolved = models.BooleanField(default=True)
    receivers = models.ManyToManyField(Receiver, related_name="rules", blank=True)
    version = models.PositiveIntegerField(default=1)
    #: When anything was told of it last: what comes within some seconds is told together.
    told = models.DateTimeField(null=True)

    objects: ClassVar[models.Manager[Rule]] = models.Manager()

    class Meta:
        ordering = ["name"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class Silence(models.Model):
    """Nothing is told until then: of one rule, or of whatever is within a scope."""

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
    """One rule about one object. `untold`: something is to be said of it. `count`: of events since the last word.
    `notified`: the last word."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="alerts")
    broker = models.CharField(max_length=64)
    object = models.CharField(max_length=1024)
    kind = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=AlertState.choices)
    severity = models.CharField(max_length=16, default="warning")
    saw = models.TextField(blank=True)
    advice = models.TextField(blank=True)
    since = models.DateTimeField()
    seen = models.DateTimeField()
    ended = models.DateTimeField(null=True)
    untold = models.BooleanField(default=False)
    told_firing = models.BooleanField(default=False)
    silenced = models.BooleanField(default=False)
    notified = models.DateTimeField(null=True)
    count = models.PositiveIntegerField(default=0)

    objects: ClassVar[models.Manager[Alert]] = models.Manager()

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["state", "-since"], name="alerts_by_state")]
        constraints = [models.UniqueConstraint(fields=["rule", "broker", "object", "kind"], name="alerts_one_each")]


class Position(models.Model):
    """Up to which event of a broker the rules have been applied. `journal`: whose numbers those are."""

    broker = models.CharField(max_length=64, primary_key=True)
    journal = models.CharField(max_length=100)
    event = models.BigIntegerField()

    objects: ClassVar[models.Manager[Position]] = models.Manager()

    class Meta:
        default_permissions = ()


class Notification(models.Model):
    """What was told at one moment by one rule: `phase` is firing, resolved, event or test; `items` name the objects, up
    to a hundred, `count` tells of how many."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    at = models.DateTimeField(db_index=True)
    rule = models.ForeignKey(Rule, on_delete=models.SET_NULL, null=True, related_name="notifications")
    rule_name = models.CharField(max_length=100)
    broker = models.CharField(max_length=64)
    phase = models.CharField(max_length=16)
    items = models.JSONField(default=list)
    count = models.PositiveIntegerField(default=0)

    objects: ClassVar[models.Manager[Notification]] = models.Manager()

    class Meta:
        ordering = ["-at"]
        default_permissions = ()


class Delivery(LeasedRow):
    """A notification for a receiver. `due`: the next attempt; whoever attempts it has the lease.
    `attempts`: list of {at, seconds, outcome}, the last ones."""

    notification = models.ForeignKey(Notification, on_delete=models.CASCADE, related_name="deliveries")
    receiver = models.ForeignKey(Receiver, on_delete=models.SET_NULL, null=True, related_name="deliveries")
    receiver_name = models.CharField(max_length=100)
    state = models.CharField(max_length=16, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    due = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0)
    attempts = models.JSONField(default=list)
    finished = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        indexes = [models.Index(fields=["state", "due"], name="alerts_deliveries_due")]
