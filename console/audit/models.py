"""The audit trail: one entry for each attempt to change a broker or the console, also if it is refused or fails.

Only `console/operations/` and `console/access/` write entries. Nothing changes or deletes one: the model refuses it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models

from brokers.input_checks import readable, shortened
from brokers.input_limits import TEXT
from console.brokers.configured import slugs
from console.intake.request_ids import present_request_id
from console.permissions.rights import Rights, Role

if TYPE_CHECKING:
    from console.links.link import BrokerLink


log = logging.getLogger("console.audit")

#: Longest detail, in characters: a stop of some thousands of named queues is found by each name.
LONGEST_DETAIL = 250_000


#: How objects of entries begin that have addresses of receivers. Entries about these name no broker; those of an
#: earlier release name the first one, and stay as they are, since no entry is changed.
OF_RECEIVERS = ("alert-receiver ", "alert-network ", "console-url")
#: How objects begin that operators of all brokers change.
OF_ALL_BROKERS = ("alert-rule ", "alert-silence", "history")


def _begins_with(texts: Iterable[str]) -> models.Q:
    found = models.Q(pk__in=())
    for text in texts:
        found |= models.Q(object__startswith=text)
    return found


class AppendOnlyError(TypeError):
    """An attempt to change or delete an audit entry."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """A query set that refuses changes."""

    def update(self, **kwargs: Any) -> int:
        raise AppendOnlyError("audit rows are never changed")

    def as_visible(self, rights: Rights) -> AuditQuerySet:
        """Return the entries that a user with these permissions may read: about visible objects of brokers; about
        alerts and the history of all brokers, for operators of all brokers; and all entries, so also those about users,
        roles, tokens, sign-ins and the list of brokers, for administrators of all brokers."""
        if rights.allows_everywhere(Role.ADMIN):
            return self.all()
        wanted = models.Q(pk__in=())
        for grant in rights.grants:
            where = {"broker": grant.broker, "virtualhost": grant.virtualhost}
            wanted |= models.Q(**{key: value for key, value in where.items() if value}) & ~models.Q(broker="")
        wanted &= ~_begins_with(OF_RECEIVERS)
        brokers = slugs()
        if brokers and all(rights.allows(Role.OPERATOR, slug) for slug in brokers):
            wanted |= _begins_with(OF_RECEIVERS) | (models.Q(broker="") & _begins_with(OF_ALL_BROKERS))
        return self.filter(wanted)

    def visible_through(self, link: BrokerLink) -> AuditQuerySet:
        """Return the entries about the part of a broker that a link shows; see `console/links/visibility.py`."""
        rows = self.filter(broker=link.slug).exclude(_begins_with(OF_RECEIVERS))
        return rows if link.only_hosts is None else rows.filter(virtualhost__in=link.only_hosts)

    def bulk_update(self, objs: Iterable[Any], fields: Iterable[str], batch_size: int | None = None) -> int:
        raise AppendOnlyError("audit rows are never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows are never deleted")


class Outcome(models.TextChoices):
    """Outcome of an attempt. UNKNOWN: the connection was lost before the broker responded, so it may have been done."""

    DONE = "done", "done"
    REFUSED = "refused", "refused"
    FAILED = "failed", "failed"
    UNKNOWN = "unknown", "unknown"


class AuditEntry(models.Model):
    """One attempt. `before` and `after`: the affected attributes, as reported by the broker."""

    at = models.DateTimeField("when", auto_now_add=True, db_index=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, editable=False, related_name="+"
    )
    user_name = models.CharField(max_length=150, help_text="Name of the user at that time.")
    source_address = models.CharField(max_length=64, blank=True)
    broker = models.CharField(max_length=64)
    virtualhost = models.CharField(
        max_length=255, blank=True, help_text="Affected virtual host; empty: the broker as a whole, or several."
    )
    object = models.CharField(max_length=1024, help_text="Object name, such as type=Queue,virtualhost=default,name=a")
    operation = models.CharField(max_length=64)
    reason = models.TextField(blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    detail = models.TextField(blank=True, help_text="Arguments and result, or the error message.")
    request_id = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_index=True,
        help_text="Id of the request that made the attempt, as in the log; empty: of a schedule, or of a command.",
    )

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["broker", "object", "-id"], name="audit_by_object"),
            models.Index(fields=["user_name", "-id"], name="audit_by_user"),
            models.Index(fields=["broker", "virtualhost", "-id"], name="audit_by_host"),
        ]
        default_permissions = ("view",)
        permissions = [
            ("operate", "Can stop and start producers, edit policies and call operations"),
            ("administer", "Can create, change and delete the users of brokers"),
        ]

    def __str__(self) -> str:
        return f"{self.user_name} {self.operation} {self.object}: {self.outcome}"

    def shown(self, name: str) -> str:
        """Return reason or detail, truncated for display: entries of earlier versions have no length limit."""
        return readable(shortened(getattr(self, name), TEXT))

    @property
    def shown_reason(self) -> str:
        return self.shown("reason")

    @property
    def shown_detail(self) -> str:
        return self.shown("detail")

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise AppendOnlyError("audit rows are never changed")
        self.request_id = self.request_id or present_request_id()
        for name in ("user_name", "source_address", "broker", "virtualhost", "object", "reason", "detail"):
            most = self._meta.get_field(name).max_length  # none for reason and detail
            text = readable(getattr(self, name))
            setattr(self, name, text[:most] if most else shortened(text, LONGEST_DETAIL))
        kwargs["force_insert"] = True
        super().save(*args, **kwargs)
        known = {"audit_entry": self.pk, "operation": self.operation, "outcome": self.outcome, "user": self.user_name}
        about = {"broker": self.broker or None, "object": self.object}
        log.info("audit entry %s: %s", self.pk, self, extra={**known, **about})

    def save_or_log(self) -> None:
        """Save, or log the entry and raise what the database raises."""
        try:
            self.save()
        except Exception:
            log.critical("cannot write audit row: %s from %s: %s", self, self.source_address, self.detail)
            raise

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows are never deleted")
