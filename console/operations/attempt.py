"""One attempt to change a broker: check the permission, and write one audit row whatever the outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction

from brokers.admin import (
    AdminError,
    AlreadyExists,
    BrokerUnreachable,
    EffectNotConfirmed,
    InvalidValue,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.model import TYPES, ObjectName
from console.access.actor import Actor
from console.access.audit_entries import entry_of
from console.audit.models import AuditEntry, Outcome
from console.links.registry import BrokerLink
from console.operations.message_records import fault as fault_of_message
from console.operations.message_records import recorded as recorded_of_message
from console.permissions.rights import Need, needed


class PreviewOutdated(AdminError):
    """What the change would do has changed since its preview, to which the request pins it. Nothing was changed."""


_LONGEST_NAME = AuditEntry._meta.get_field("object").max_length
_REFUSALS = (AlreadyExists, EffectNotConfirmed, InvalidValue, NotAllowed, NotFound, PreviewOutdated, StaleVersion)


@dataclass
class Attempt:
    """An attempt in progress. `before` and `after`: the affected attributes. `sent`: the request has been sent to the
    broker; without an answer, the outcome is unknown. `is_recorded`: the audit row has been written."""

    by: Actor
    broker: str
    name: ObjectName
    operation: str
    reason: str
    need: Need
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: str = ""
    sent: bool = False
    is_recorded: bool = False

    @contextmanager
    def in_one_transaction(self) -> Iterator[None]:
        """Change the console's own rows in the block, and write the audit row in the same transaction: a process that
        ends in between leaves no change without its row. It is the last part of the attempt."""
        with transaction.atomic():
            yield
            self.record(Outcome.DONE)
        self.is_recorded = True

    def fail(self, error: str) -> None:
        """Set the detail of the audit row to the error, followed by the requested values."""
        self.detail = f"{error} (requested: {self.detail})" if self.detail else error

    def record(self, outcome: Outcome) -> None:
        """Write the audit row. Raises what the database raises, after logging the row."""
        entry_of(
            self.by,
            broker=self.broker,
            virtualhost=self.need.host,
            object=str(self.name)[:_LONGEST_NAME],
            operation=self.operation,
            reason=self.reason,
            before=None if self.before is None else dict(self.before),
            after=None if self.after is None else dict(self.after),
            outcome=outcome,
            detail=self.detail,
        ).save_or_log()


@contextmanager
def attempt(
    by: Actor,
    link: BrokerLink | str,
    name: ObjectName,
    operation: str,
    *,
    reason: str,
    requested: Mapping[str, Any],
    need: Need | None = None,
    act: str = "change",
) -> Iterator[Attempt]:
    """Check the permission, run the block, and write the audit row. `link`: of the broker, or its slug. `requested`:
    the given values; those of secret attributes and arguments, and contents of messages, are not recorded. `need`: the
    required permission, if the object and the operation do not determine it. `act`: what is attempted, for the refusal.
    Raises PermissionDenied; re-raises every error of the block after it has been recorded."""
    need = need or needed(name, operation, requested)
    slug = link if isinstance(link, str) else link.slug
    this = Attempt(by, slug, name, operation, reason, need, detail=as_detail(recorded(name, operation, requested)))
    outcome = Outcome.FAILED
    try:
        by.check(slug, need, name, act=act)
        yield this
        outcome = Outcome.DONE
    except Exception as error:
        outcome = outcome_of(error, sent=this.sent, changed=this.after is not None)
        this.fail(fault_of_message(operation, error) or _words(error))
        raise
    finally:
        if not (this.is_recorded and outcome == Outcome.DONE):
            this.record(outcome)


def happened(
    by: Actor,
    broker: str,
    name: ObjectName,
    operation: str,
    *,
    reason: str,
    detail: str,
    outcome: Outcome,
    error: str = "",
    after: Mapping[str, Any] | None = None,
    need: Need | None = None,
) -> None:
    """Write the audit row of what has been done already, such as the end of a job. `broker`: slug. `error`: why it
    ended early. `need`: as in `attempt`."""
    need = need or needed(name, operation)
    this = Attempt(by, broker, name, operation, reason, need, after=after, detail=detail)
    if error:
        this.fail(error)
    this.record(outcome)


def outcome_of(error: Exception, *, sent: bool, changed: bool = False) -> Outcome:
    """Return the outcome of an attempt that raised this. `sent`: the request was sent to the broker. `changed`: the
    error came after the change was made."""
    if isinstance(error, PermissionDenied):
        return Outcome.REFUSED
    if isinstance(error, _REFUSALS):
        return Outcome.FAILED if changed else Outcome.REFUSED
    if isinstance(error, BrokerUnreachable) and sent:
        return Outcome.UNKNOWN
    return Outcome.FAILED


def _words(error: Exception) -> str:
    expected = isinstance(error, PermissionDenied | AdminError)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def require_reason(reason: str) -> str:
    """Return the stripped reason; raise InvalidValue if it is empty."""
    stripped = reason.strip()
    if not stripped:
        raise InvalidValue({"reason": "reason is required: it is shown to all users"})
    return stripped


def recorded(name: ObjectName, operation: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit trail records of attributes, arguments or an answer: neither secrets nor what messages
    contain."""
    return without_secrets(name, recorded_of_message(operation, values))


def without_secrets(name: ObjectName, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes, arguments or an answer for the audit trail, with `(secret)` in place of secret values."""
    declared = TYPES[name.type]
    every = (declared.attributes, *((*o.arguments, *o.returns) for o in declared.operations))
    secret = {one.name for some in every for one in some if one.secret}
    return {key: "(secret)" if key in secret and value is not None else value for key, value in values.items()}


def as_detail(facts: Mapping[str, Any]) -> str:
    """Format arguments or an answer as one line for the audit row."""
    return ", ".join(f"{key}: {json.dumps(value, default=str)}" for key, value in facts.items())
