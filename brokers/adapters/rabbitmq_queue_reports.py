"""Which queues of RabbitMQ report that they reject what is published above their limit.

Each queue reports every 5 s what policy it has, and only what it has reported shows that a lower limit deletes none of
its messages. A queue whose node is down reports nothing: it is listed, but there is no such path (404), as of one that
was deleted. Nothing can be published to either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from brokers.adapters import rabbitmq_policies as policies
from brokers.adapters import rabbitmq_reading as reading
from brokers.adapters.adapter import StopTarget
from brokers.adapters.attempts import Attempts
from brokers.adapters.http import JsonHttp, part
from brokers.admin import BrokerUnreachable, InvalidValue, NotFound
from brokers.model import ObjectName

#: Time for queues to report, s.
REPORT_SECONDS = 30.0


class QueueReports:
    """See the module."""

    def __init__(self, http: JsonHttp) -> None:
        self._http = http

    async def until_rejecting(self, targets: Sequence[StopTarget], attempts: Attempts) -> list[StopTarget]:
        """Wait until every queue itself reports the policy of the first step, and return these. Those that are not
        running cannot: nothing is published to them, and the second step follows when they run again."""
        found: list[StopTarget] = []
        waiting, end = list(targets), time.monotonic() + REPORT_SECONDS
        while waiting:
            rejecting, waiting = await self.look(waiting, attempts)
            found += rejecting
            if waiting and time.monotonic() > end:
                running = await self._running()
                waiting = [target for target in waiting if target.queues & running]
                if not waiting:
                    break
                names = ", ".join(sorted(queue["name"] for target in waiting for queue in target.queues)[:5])
                raise BrokerUnreachable(f"no report within {REPORT_SECONDS:g} s that these queues reject: {names}")
            if waiting:
                await asyncio.sleep(0.5)
        return found

    async def until_refusing(self, host: str, queues: Collection[ObjectName]) -> None:
        """Wait until these queues of a virtual host report that they refuse publishers, by whichever policy, or no
        longer run. Raises BrokerUnreachable if they do not in time."""
        waiting, end = set(queues), time.monotonic() + REPORT_SECONDS
        while waiting:
            columns = "name,vhost,state,type,arguments,effective_policy_definition"
            listed = await self._http.request("GET", f"/queues/{part(host)}", query={"columns": columns})
            waiting &= {reading.queue_name(said) for said in listed if not _refuses(said)}
            if not waiting:
                return
            if time.monotonic() > end:
                names = ", ".join(sorted(queue["name"] for queue in waiting)[:5])
                raise BrokerUnreachable(
                    f"no report within {REPORT_SECONDS:g} s that these queues refuse publishers, so nothing was"
                    f" changed: {names}"
                )
            await asyncio.sleep(0.5)

    async def look(
        self, targets: Sequence[StopTarget], attempts: Attempts
    ) -> tuple[list[StopTarget], list[StopTarget]]:
        """Return the targets whose queue reports the policy of the first step, and those that are there but do not."""
        rejecting: list[StopTarget] = []
        others: list[StopTarget] = []
        for target in targets:
            (queue,) = target.queues
            with attempts.of(target), suppress(NotFound):
                (rejecting if await self._rejects(queue) else others).append(target)
        return rejecting, others

    async def _running(self) -> set[ObjectName]:
        """Return the queues that are listed, without those whose node is down."""
        listed = await self._http.request("GET", "/queues", query={"disable_stats": "true"})
        return {reading.queue_name(said) for said in listed if said.get("state") not in reading.NOT_RUNNING}

    async def _rejects(self, queue: ObjectName) -> bool:
        path = f"/queues/{part(queue['virtualhost'])}/{part(queue['name'])}"
        query = {"columns": "policy,effective_policy_definition,arguments,type"}
        said = await self._http.request("GET", path, query=query)
        if fault := policies.stop_fault({"arguments": said.get("arguments"), "kind": said.get("type")}):
            raise InvalidValue({"": f"queue {queue['name']} cannot be stopped: {fault}"})
        effective = said.get("effective_policy_definition") or {}
        return (
            said.get("policy") == policies.stop_name(queue["name"]) and effective.get("overflow") in reading.REJECTING
        )


def _refuses(said: reading.Json) -> bool:
    """Return whether a queue refuses publishers at its limit, by its own report, or runs no more."""
    if said.get("state") in reading.NOT_RUNNING:
        return True
    overflow = reading.overflow_of(said.get("arguments") or {}, said.get("effective_policy_definition") or {})
    return overflow in reading.REJECTING
