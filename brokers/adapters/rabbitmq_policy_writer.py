"""Writes policies of RabbitMQ, so that no queue loses messages that its publishers were to be refused for.

RabbitMQ applies `max-length` before `overflow`. A classic queue that has dropped its oldest messages, and gets a lower
limit together with `reject-publish`, loses at once what is above the limit (seen with 3.10: 15 messages of 20). So
such a change has two steps: the overflow alone, and when the queues themselves report that they refuse, the rest. If
they do not, what was there is written again. A crash between the two leaves the overflow without the limit, which
loses nothing either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from brokers.adapters.http import HttpError, JsonHttp, part, refused
from brokers.adapters.rabbitmq_queue_reports import QueueReports
from brokers.adapters.rabbitmq_reading import LIMITS, REJECTING
from brokers.admin import AdminError, NotFound
from brokers.model import ObjectName

Policy = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A change of one policy. `present`, `wanted`: as listed and as written; None: there is none. `refusing`: the
    queues that drop their oldest messages now and will refuse publishers. `limits`: the definition that applies to them
    now; None: not the same for all."""

    host: str
    name: str
    present: Policy | None
    wanted: Policy | None
    refusing: Collection[ObjectName] = ()
    limits: Mapping[str, Any] | None = None

    def first_step(self) -> Policy | None:
        """Return what is written before the change; None: nothing, for it lowers no limit of queues that are to refuse
        publishers."""
        now = self.limits or {}
        if not self.refusing:
            return None
        if self._uncovers():
            assert self.present is not None
            return _written(self.present, {**self.present["definition"], "overflow": "reject-publish"})
        definition = self.wanted["definition"] if self.wanted else {}
        lower = any(_lowers(definition.get(limit), now.get(limit)) for limit in LIMITS)
        if self.wanted is None or definition.get("overflow") not in REJECTING or not lower:
            return None
        others = {key: value for key, value in definition.items() if key not in LIMITS}
        return _written(self.wanted, {**others, **{key: value for key, value in now.items() if key in LIMITS}})

    def _uncovers(self) -> bool:
        """Return whether other policies apply then, which can lower the limits."""
        if self.present is None:
            return False
        return self.wanted is None or self.wanted.get("priority", 0) < self.present.get("priority", 0)


def _lowers(limit: int | None, now: int | None) -> bool:
    return limit is not None and (now is None or limit < now)


def _written(policy: Policy, definition: Mapping[str, Any]) -> Policy:
    others = ("pattern", "priority", "apply-to")
    return {**{key: policy[key] for key in others if key in policy}, "definition": dict(definition)}


class PolicyWriter:
    """See the module."""

    def __init__(self, http: JsonHttp, reports: QueueReports) -> None:
        self._http = http
        self._reports = reports

    async def replace(self, change: Replacement, field: str) -> None:
        """Make a change. `field`: the attribute that is named if RabbitMQ refuses it. Raises BrokerUnreachable if the
        queues do not report in time that they refuse publishers: then nothing is changed."""
        if (step := change.first_step()) is not None:
            await self.put(change.host, change.name, step, field)
            try:
                await self._reports.until_refusing(change.host, change.refusing)
            except AdminError:
                await self._write(change.host, change.name, change.present, field)
                raise
        await self._write(change.host, change.name, change.wanted, field)

    async def _write(self, host: str, name: str, policy: Policy | None, field: str) -> None:
        if policy is None:
            await self.delete(host, name)
        else:
            await self.put(host, name, _written(policy, policy["definition"]), field)

    async def put(self, host: str, name: str, policy: Policy, field: str) -> None:
        """Raises InvalidValue, which names `field`, for what RabbitMQ refuses."""
        try:
            await self._http.request("PUT", f"/policies/{part(host)}/{part(name)}", body=policy)
        except HttpError as error:
            raise (refused(error, field) if error.status == 400 else error) from None

    async def delete(self, host: str, name: str) -> None:
        try:
            await self._http.request("DELETE", f"/policies/{part(host)}/{part(name)}")
        except NotFound:
            return
