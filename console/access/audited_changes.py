"""Changes of the console's own objects (role assignments, selections, rules): each attempt writes one audit entry.

A change and its entry are one transaction: nothing is changed without an entry, also if the database is locked, its
disk is full or the process is killed in between. The entry of an attempt that failed is written after the rollback.
`console/operations/attempt.py` is the same for changes of a broker's objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction

from brokers.admin import AdminError
from console.access.actor import Actor
from console.access.audit_entries import entry_of
from console.audit.models import AuditEntry, Outcome
from console.permissions.rights import Grant


@dataclass
class Change:
    """A change in progress, with the values of its entry. `object`: in words, such as `user olga`. `broker` and
    `virtualhost`: whose viewers may read the entry; without a broker, see `AuditQuerySet.as_visible`."""

    by: Actor
    object: str
    operation: str
    reason: str = ""
    broker: str = ""
    virtualhost: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: str = ""
    is_recorded: bool = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store what the block changes and the entry together, or neither. The block must neither call a broker nor
        look up a name, nor wait for another lock: SQLite has one writer at a time, which this is from the start."""
        with transaction.atomic():
            yield
            self._entry(Outcome.DONE).save()
        self.is_recorded = True

    def record(self, outcome: Outcome) -> None:
        """Write the entry. Raises what the database raises, after logging the entry."""
        self._entry(outcome).save_or_log()
        self.is_recorded = True

    def fail(self, error: BaseException) -> None:
        """Write the entry of an attempt that raised this. If the database refuses that, too, the log has the entry."""
        expected = isinstance(error, PermissionDenied | AdminError)
        words = str(error) if expected else f"{type(error).__name__}: {error}"
        self.detail = f"{words} {self.detail}".strip()
        with suppress(Exception):
            self.record(Outcome.REFUSED if expected else Outcome.FAILED)

    def _entry(self, outcome: Outcome) -> AuditEntry:
        return entry_of(
            self.by,
            broker=self.broker,
            virtualhost=self.virtualhost,
            object=self.object,
            operation=self.operation,
            reason=self.reason,
            before=None if self.before is None else dict(self.before),
            after=None if self.after is None else dict(self.after),
            outcome=outcome,
            detail=self.detail,
        )


@contextmanager
def recording(change: Change) -> Iterator[Change]:
    """Write the entry of the block, whatever its outcome, unless `Change.transaction` has written it. Re-raises every
    error of the block."""
    try:
        yield change
    except BaseException as error:
        if not change.is_recorded:
            change.fail(error)
        raise
    if not change.is_recorded:
        change.record(Outcome.DONE)


@contextmanager
def attempted(
    by: Actor, what: str, operation: str, *, reason: str = "", scope: Grant | None = None
) -> Iterator[Change]:
    """As `audited`, for blocks that do more than change the database: these make their changes of it in a
    `Change.transaction`."""
    broker, virtualhost = (scope.broker, scope.virtualhost) if scope else ("", "")
    with recording(Change(by, what, operation, reason, broker, virtualhost)) as change:
        yield change


@contextmanager
def audited(by: Actor, what: str, operation: str, *, reason: str = "", scope: Grant | None = None) -> Iterator[Change]:
    """Run the block and write an audit entry about it in one transaction; see `Change.transaction`. `what`: the object
    in words. `scope`: users with a role in this scope may read the entry; None: administrators of all brokers."""
    with attempted(by, what, operation, reason=reason, scope=scope) as change, change.transaction():
        yield change
