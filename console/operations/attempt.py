"""One attempt to change a broker: the permission is checked, and whatever comes of it leaves one audit row."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from brokers.admin import (
    AdminError,
    AlreadyExists,
    BrokerUnreachable,
    InvalidValue,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.model import TYPES, ObjectName
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.links.registry import BrokerLink
from console.permissions.rights import Need, needed

log = logging.getLogger(__name__)

_LONGEST_NAME = AuditEntry._meta.get_field("object").max_length
_REFUSALS = (AlreadyExists, InvalidValue, NotAllowed, NotFound, StaleVersion)


@dataclass
class Attempt:
    """What is known of the attempt so far. `before` and `after`: the attributes it is about. `sent`: the broker has
    been asked for the change, so that without an answer nobody knows whether it was made."""

    by: Actor
    link: BrokerLink
    name: ObjectName
    operation: str
    reason: str
    need: Need
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: str = ""
    sent: bool = False

    def went_wrong(self, sentence: str) -> None:
        """Keep why, and after it what was asked for."""
        self.detail = f"{sentence} (asked: {self.detail})" if self.detail else sentence

    def record(self, outcome: Outcome) -> None:
        entry = AuditEntry(
            user=self.by.user if isinstance(self.by.user, User) else None,
            user_name=self.by.name,
            source_address=self.by.address,
            broker=self.link.slug,
            virtualhost=self.need.host,
            object=str(self.name)[:_LONGEST_NAME],
            operation=self.operation,
            reason=self.reason.strip(),
            before=None if self.before is None else dict(self.before),
            after=None if self.after is None else dict(self.after),
            outcome=outcome,
            detail=self.detail,
        )
        try:
            entry.save()
        except Exception:
            log.critical("this audit row could not be kept: %s from %s: %s", entry, self.by.address, self.detail)
            raise


@contextmanager
def attempt(
    by: Actor,
    link: BrokerLink,
    name: ObjectName,
    operation: str,
    *,
    reason: str,
    asked: Mapping[str, Any],
    need: Need | None = None,
) -> Iterator[Attempt]:
    """Raises PermissionDenied; passes every error on after it has been recorded. `asked`: the values given, of which
    those of secret attributes and arguments are not recorded. `need`: what it takes, if that is more than the object
    and the operation tell."""
    need = need or needed(name, operation, asked)
    this = Attempt(by, link, name, operation, reason, need, detail=as_detail(without_secrets(name, asked)))
    outcome = Outcome.FAILED
    try:
        by.check(link.slug, need, name)
        yield this
        outcome = Outcome.DONE
    except PermissionDenied as error:
        outcome = Outcome.REFUSED
        this.went_wrong(str(error))
        raise
    except _REFUSALS as error:
        # What was refused has changed nothing; what went wrong after the change was made is no refusal.
        outcome = Outcome.REFUSED if this.after is None else Outcome.FAILED
        this.went_wrong(str(error))
        raise
    except BrokerUnreachable as error:
        outcome = Outcome.UNKNOWN if this.sent else Outcome.FAILED
        this.went_wrong(str(error))
        raise
    except AdminError as error:
        this.went_wrong(str(error))
        raise
    except Exception as error:
        this.went_wrong(f"{type(error).__name__}: {error}")
        raise
    finally:
        this.record(outcome)


def require_reason(reason: str) -> str:
    """The reason without white space around it; raises InvalidValue if nothing is left."""
    stripped = reason.strip()
    if not stripped:
        raise InvalidValue({"reason": "reason is missing: say why, everybody will see it"})
    return stripped


def without_secrets(name: ObjectName, values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes, arguments or an answer as the audit trail may keep them: of a secret, only that there was one."""
    declared = TYPES[name.type]
    every = (declared.attributes, *((*o.arguments, *o.returns) for o in declared.operations))
    secret = {one.name for some in every for one in some if one.secret}
    return {key: "(secret)" if key in secret and value is not None else value for key, value in values.items()}


def as_detail(facts: Mapping[str, Any]) -> str:
    """Arguments or an answer in one line for the audit row."""
    return ", ".join(f"{key}: {json.dumps(value, default=str)}" for key, value in facts.items())
