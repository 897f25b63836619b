"""One call of an operation that changes a broker, in two parts: `send` in the links' loop, and `finish` in the thread
of the request, which writes the audit row. So several brokers are called at the same time, and each has its own row.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.core.exceptions import PermissionDenied

from brokers.admin import AdminError, BrokerAdmin, BrokerUnreachable, Called, InvalidValue, ManagedObject, NotFound
from brokers.model import TYPES, ObjectName, Operation
from console.access.actor import Actor
from console.audit.models import Outcome
from console.links.registry import BrokerLink
from console.operations.attempt import as_detail, attempt, outcome_of, recorded, require_reason, without_secrets
from console.permissions.rights import needed

#: Operations with a lasting effect: their reason is shown to all users.
_NEED_A_REASON = frozenset({"stop-producers", "start-producers"})


class OperationCall:
    """See the module. `before`: the object's attributes before the call; `answer`: of the operation; `outcome`: as in
    the audit row, once `finish` has returned or raised. `fault`: why the call is not sent, or has failed."""

    def __init__(
        self, by: Actor, link: BrokerLink, name: ObjectName, declared: Operation, arguments: Mapping[str, Any]
    ) -> None:
        self.by = by
        self.link = link
        self.name = name
        self.declared = declared
        self.arguments = dict(arguments)
        self.reason = str(arguments.get("reason") or "")
        self.requested = {key: value for key, value in arguments.items() if key != "reason"}
        self.before: Mapping[str, Any] | None = None
        self.answer: Mapping[str, Any] | None = None
        self.after: Mapping[str, Any] = {}
        self.outcome = Outcome.FAILED
        self._sent = False
        self.fault: Exception | None = self._fault()

    def _fault(self) -> Exception | None:
        try:
            self.by.check(self.link.slug, needed(self.name, self.declared.name, self.requested), self.name)
            if self.declared.name in _NEED_A_REASON:
                self.reason = require_reason(self.reason)
        except (PermissionDenied, InvalidValue) as error:
            return error
        return None

    async def send(self, seconds: float | None = None) -> None:
        """Call the operation, unless there is a fault. `seconds`: time limit of all of it. Raises no AdminError: it
        becomes the fault."""
        if self.fault is not None:
            return
        try:
            await self.link.acall(self._run, seconds)
        except AdminError as error:
            if self.answer is None:  # else only the object afterwards is missing
                self.fault = error

    def send_and_wait(self, seconds: float | None = None) -> None:
        """`send` for threads without an event loop."""
        if self.fault is not None:
            return
        try:
            self.link.call(self._run, seconds)
        except AdminError as error:
            if self.answer is None:
                self.fault = error

    async def _run(self, admin: BrokerAdmin) -> None:
        self.before = audited_attributes(await admin.read(self.name))
        arguments = self._with_actor()
        self._sent = True
        self.answer = answer = await admin.call(self.name, self.declared.name, arguments)
        if isinstance(answer, Called):
            self.after = {} if answer.after is None else audited_attributes(answer.after)
            return
        with suppress(NotFound, BrokerUnreachable):  # it removed the object, or the broker is lost
            self.after = audited_attributes(await admin.read(self.name))

    def _with_actor(self) -> dict[str, Any]:
        """Return the arguments to send; the actor is always the signed-in user."""
        names = {argument.name for argument in self.declared.arguments}
        sent = dict(self.arguments)
        if "reason" in names:
            sent["reason"] = self.reason
        if "actor" in names:
            sent["actor"] = self.by.name
        return sent

    def finish(self) -> Mapping[str, Any]:
        """Write the audit row, and return the answer. Raises the fault."""
        if self.fault is not None:
            self.outcome = outcome_of(self.fault, sent=self._sent)
        elif self.answer is not None:
            self.outcome = Outcome.DONE
        with attempt(
            self.by, self.link, self.name, self.declared.name, reason=self.reason, requested=self.requested
        ) as this:
            this.before, this.sent = self.before, self._sent
            if self.fault is not None:
                raise self.fault
            if self.answer is None:
                raise AdminError(f"{self.declared.name} was not sent")
            this.after = self.after
            this.detail = as_detail(recorded(self.name, self.declared.name, {**self.requested, **self.answer}))
            return self.answer


def declared_operation(name: ObjectName, operation: str) -> Operation:
    """Return an operation of the managed model. Raises NotFound."""
    declared = TYPES[name.type].operation(operation)
    if declared is None:
        raise NotFound(f"{name.type} has no operation {operation}")
    return declared


def audited_attributes(thing: ManagedObject) -> dict[str, Any]:
    """Return the attributes of an object for the audit trail."""
    return {**without_secrets(thing.name, thing.attributes), "version": thing.version}
