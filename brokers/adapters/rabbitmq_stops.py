"""Stops of RabbitMQ's queues: the policies that refuse what is published to them, made, undone and looked for.

Each has two steps (see `rabbitmq_policies.py`). A classic queue whose node is restarted during a stop passes its
messages on to where they are parked (see `rabbitmq_parking.py`), if it has no dead-letter exchange of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokers.adapters import rabbitmq_policies as policies
from brokers.adapters import rabbitmq_reading as reading
from brokers.adapters.adapter import Faults, Objects, StopTarget
from brokers.adapters.attempts import Attempts
from brokers.adapters.observation import Attributes
from brokers.adapters.rabbitmq_known_policies import KnownPolicies
from brokers.adapters.rabbitmq_limits import definition_below
from brokers.adapters.rabbitmq_parking import Parking
from brokers.adapters.rabbitmq_policy_writer import PolicyWriter
from brokers.adapters.rabbitmq_queue_reports import QueueReports
from brokers.adapters.scopes import covered_by
from brokers.admin import InvalidValue
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName


class RabbitStops:
    """See the module."""

    def __init__(self, known: KnownPolicies, writer: PolicyWriter, reports: QueueReports, parking: Parking) -> None:
        self._known = known
        self._writer = writer
        self._reports = reports
        self._parking = parking
        self._dead_lettering: set[ObjectName] = set()  # queues that dead-letter what they refuse: nothing is parked
        self._below: dict[ObjectName, Mapping[str, Any]] = {}  # queues -> what their stop had outranked

    def outranked(self, name: ObjectName, queue: Attributes) -> Mapping[str, Any]:
        """Return the definition of the policy that applies to a queue now; of one that has not reported which, by the
        patterns."""
        if "policy" not in queue:
            return definition_below(self._known.all, name, queue.get("kind"))
        policy = self._known.listed.by_name.get((name["virtualhost"], str(queue.get("policy"))))
        if policy is None and queue.get("policy") == policies.stop_name(name["name"]):
            return self._below.get(name, {})  # RabbitMQ lists a policy some seconds longer than it applies
        return policy["definition"] if policy else {}

    def targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        covered = covered_by(scopes, objects)
        return {scope: self._targets(scope, names, objects) for scope, names in covered.items()}

    def _targets(self, scope: Scope, covered: Sequence[ObjectName], objects: Objects) -> Sequence[StopTarget]:
        faults = {name: fault for name in covered if (fault := policies.stop_fault(objects[name]))}
        if scope.queue and faults:
            raise InvalidValue({"": f"queue {scope.queue} cannot be stopped: {faults[covered[0]]}"})
        return [self._target(name, objects[name]) for name in covered if name not in faults]

    def _target(self, name: ObjectName, queue: Attributes) -> StopTarget:
        definition = dict(self.outranked(name, queue))
        if (queue.get("arguments") or {}).get("x-overflow") == "reject-publish-dlx":
            self._dead_lettering.add(name)
        return StopTarget(str(name), frozenset([name]), {"definition": definition})

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool) -> Faults:
        """First let all queues reject at their limits, and when they report that, set the limits to 0. Policies that
        are there already are not written again: the first step would let publishers publish. In a round the second step
        follows in a later one."""
        attempts = Attempts(all_or_none=not in_round)
        await self._known.read()
        missing = [target for target in targets if not self._is_made(target, length=True)]
        new = [target for target in missing if not self._is_made(target, length=False)]
        hosts = {queue["virtualhost"] for target in missing for queue in target.queues}
        async with self._parking.during_stop(hosts) as parked:
            await self._put(new, attempts, length=False)
            if in_round:
                rejecting, _ = await self._reports.look([target for target in missing if target not in new], attempts)
            else:
                rejecting = await self._reports.until_rejecting(missing, attempts)
            await self._put(rejecting, attempts, length=True, parked=parked)
        await self._known.read()
        return attempts.faults

    def _is_made(self, target: StopTarget, *, length: bool) -> bool:
        (queue,) = target.queues
        return self._known.listed.has_stop(queue, target.restore["definition"], length=length)

    async def _put(
        self, targets: Sequence[StopTarget], attempts: Attempts, *, length: bool, parked: frozenset[str] = frozenset()
    ) -> None:
        """`parked`: the virtual hosts in which messages can be parked."""
        for target in targets:
            (queue,) = target.queues
            name, host = policies.stop_name(queue["name"]), queue["virtualhost"]
            highest = self._known.listed.highest_priority(queue, without=name)
            definition = target.restore["definition"]
            can_park = host in parked and queue not in self._dead_lettering
            policy = policies.stop_policy(queue, definition, highest, length=length, parked=can_park)
            with attempts.of(target):
                await self._writer.put(host, name, policy, "")

    async def start(self, targets: Sequence[StopTarget]) -> Faults:
        attempts = Attempts()
        for target in targets:
            (queue,) = target.queues
            with attempts.of(target):
                await self._writer.delete(queue["virtualhost"], policies.stop_name(queue["name"]))
                self._below[queue] = target.restore["definition"]
        await self._known.read()
        return attempts.faults

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        """By the policies: the list of queues names the one that applies some seconds later only. It decides if two
        have the highest priority that there is."""
        (queue,) = target.queues
        if queue not in objects or objects[queue].get("broker_state") in reading.NOT_RUNNING:
            return True  # nothing can be published to it; what it lacks of a stop follows when it runs again
        applies = objects[queue].get("policy") == policies.stop_name(queue["name"])
        return self._is_made(target, length=True) and (applies or self._known.listed.can_outrank(queue))

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        """A start only deletes the stop's policy. Until then that has what the policy that it outranks has besides."""
        (queue,) = target.queues
        policy = objects.get(queue, {}).get("policy")
        known = self._known.listed.by_name.get((queue["virtualhost"], str(policy)))
        if known is None or policy == policies.stop_name(queue["name"]):
            return None
        return {"definition": dict(known["definition"])}
