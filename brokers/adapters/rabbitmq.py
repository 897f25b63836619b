"""RabbitMQ (3.10; 4.x by its documentation): through its management plugin.

RabbitMQ holds publishers only for the whole node, by an alarm. A queue refuses them at its limit, or loses its oldest
messages. So a stop of a queue is a policy that refuses what is published to it: publishers that wait for confirms get
a negative one, what others publish is lost. Alarms and changes of policies and queues are events of its event
exchange, if its plugin is enabled; all else comes from polls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from brokers.adapters import rabbitmq_events
from brokers.adapters import rabbitmq_policies as policies
from brokers.adapters import rabbitmq_reading as reading
from brokers.adapters.adapter import Creator, Faults, Finding, Objects, StopTarget
from brokers.adapters.capabilities import types_of
from brokers.adapters.http import HttpError, JsonHttp, part
from brokers.adapters.json_text import decoded
from brokers.adapters.kinds import Account
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.adapters.rabbitmq_capabilities import CAPABILITIES
from brokers.adapters.rabbitmq_clients import ClientLists, pages
from brokers.adapters.rabbitmq_connection import SourceLost, listener_of
from brokers.adapters.rabbitmq_known_policies import KnownPolicies
from brokers.adapters.rabbitmq_limits import (
    beginning_to_refuse,
    begins_to_refuse,
    can_begin_to_refuse,
    definition_below,
    limits_after,
)
from brokers.adapters.rabbitmq_parking import Parking
from brokers.adapters.rabbitmq_policy_writer import PolicyWriter, Replacement
from brokers.adapters.rabbitmq_queue_reports import QueueReports
from brokers.adapters.rabbitmq_source import EventExchange
from brokers.adapters.rabbitmq_stops import RabbitStops
from brokers.adapters.uptime import Uptime
from brokers.admin import AdminError, InvalidValue, NotAllowed, NotFound
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName, object_name

log = logging.getLogger("headgate.adapters")

BROKER = object_name("Broker")

#: Seconds until the next attempt to receive events, doubled with each in vain, and at most; if they are refused, also
#: at most.
RETRY_SECONDS, RETRY_SECONDS_MOST, RETRY_SECONDS_REFUSED = 1.0, 15.0, 300.0
#: Seconds until it is seen that there is an event exchange, and a listener: a node that starts shows both late.
LOOK_SECONDS = 30.0

POLLS_ONLY = "alarms and changed policies are known from polls, with a delay and without the user who made the change"
NO_PERMISSION = (
    POLLS_ONLY + ": in the virtual host /, user {} needs the permissions configure and write for"
    r" ^headgate-events\., and read for ^(headgate-events\.|amq\.rabbitmq\.event$)"
)


class RabbitMq:
    """See the module. `now`: ms since the epoch. `account`: for the event exchange; None: polls only."""

    types: Mapping[str, ManagedType] = types_of(CAPABILITIES)
    paged = True
    most_stopped: int | None = 1_000  # RabbitMQ matches each queue with every policy

    def __init__(self, http: JsonHttp, now: Callable[[], int], account: Account | None = None) -> None:
        self.identity = ""
        self._http = http
        reports = QueueReports(http)
        self._writer = PolicyWriter(http, reports)
        self._known = KnownPolicies(http)
        self._parking = Parking(http, self._writer, self._known, account, lambda: self._alarms)
        self._stops = RabbitStops(self._known, self._writer, reports, self._parking)
        self._clients = ClientLists(http, now)
        self._now = now
        self._account = account
        self._source: EventExchange | None = None
        self._limits: dict[ObjectName, Attributes] = {}  # of the queues, as last read completely
        self._depths: dict[ObjectName, Attributes] = {}  # of the queues, as last read quickly
        self._uptime = Uptime()
        self._alarms: list[str] = []
        self.reports: frozenset[str] = frozenset()

    # -- reading --------------------------------------------------------------------------------------------------

    async def connect(self) -> Sequence[Finding]:
        overview = await self._http.request("GET", "/overview")
        self.identity = str(overview.get("cluster_name") or "")
        who = await self._http.request("GET", "/whoami")
        tags = who.get("tags") or []
        tags = tags.split(",") if isinstance(tags, str) else tags
        found = [Finding(f"RabbitMQ {overview.get('rabbitmq_version')} answers")]
        if not {"administrator", "monitoring"} & set(tags):
            found.append(Finding("", f"user {who.get('name')} needs the tag monitoring to see connections and nodes"))
        if not {"administrator", "policymaker"} & set(tags):
            found.append(Finding("", f"user {who.get('name')} needs the tag policymaker to set limits and stop queues"))
        if overview.get("disable_stats"):
            found.append(Finding("", "statistics are disabled on the broker (management.disable_stats)"))
        if self._account is not None:
            found.append(await self._find_source(self._account, overview))
        return found

    async def _find_source(self, account: Account, overview: Mapping[str, Any]) -> Finding:
        """Try the event exchange. Without it there are polls."""
        self._source = None
        place = f"/exchanges/{part(rabbitmq_events.VIRTUALHOST)}/{part(rabbitmq_events.EXCHANGE)}"
        try:
            await self._http.request("GET", place)
        except NotFound:
            return Finding("", f"{POLLS_ONLY}: the plugin rabbitmq_event_exchange is not enabled")
        except NotAllowed:
            return Finding("", NO_PERMISSION.format(account.username))
        listener = listener_of(self._http.base, overview.get("listeners") or [])
        if listener is None:
            which = " with TLS, as the management has" if self._http.base.startswith("https:") else ""
            return Finding("", f"{POLLS_ONLY}: no listener for AMQP 0-9-1{which} is shown to user {account.username}")
        source = self._source = EventExchange(listener, account)
        try:
            async with source.attached():
                pass
        except SourceLost as error:
            return Finding("", NO_PERMISSION.format(account.username) if error.refused else f"{POLLS_ONLY}: {error}")
        return Finding(f"alarms and changed policies are reported by the event exchange at {source.place}")

    async def read_changing(self) -> Observation:
        listed, self._alarms = await asyncio.gather(
            self._http.request("GET", "/queues", query={"disable_stats": "true", "enable_queue_totals": "true"}),
            self._read_alarms(),
        )
        found = reading.totals_of(listed, self._limits)
        self._depths = reading.depths_in(found)
        if self._known.lacks(found):  # or a stop would not copy what it outranks
            await self._known.read()
        return Observation(self._now(), {**found, BROKER: {"shortages": list(self._alarms)}})

    async def read_all(self) -> AsyncIterator[Observation]:
        await self._known.read()
        await self._known.read_operator()
        self._alarms = await self._read_alarms()
        yield Observation(self._now(), reading.policies_of(self._known.all))
        hosts = await self._http.request("GET", "/vhosts", query={"columns": "name"})
        yield Observation(self._now(), {object_name("VirtualHost", name=h["name"]): {"name": h["name"]} for h in hosts})
        limits: dict[ObjectName, Attributes] = {}
        async for page in pages(self._http, "/queues"):
            found = reading.queues_of(page, reading.by_name(self._known.all), self._depths)
            limits |= {name: {**self._limits.get(name, {}), **values} for name, values in found.items()}
            yield Observation(self._now(), found)
        self._limits = limits
        self._parking.look(self._depths)
        async for seen in self._clients.read(self._alarms):
            yield seen
        yield await self._read_broker()

    async def _read_broker(self) -> Observation:
        overview = await self._http.request("GET", "/overview")
        try:
            nodes = await self._http.request("GET", "/nodes")
        except NotAllowed:
            nodes = []
        up, now = reading.uptime_of(nodes), self._now()
        started = None if up is None else self._uptime.started(up, now)
        return Observation(now, {BROKER: reading.broker_of(overview, nodes, self._alarms, started)})

    async def _read_alarms(self) -> list[str]:
        """Return the alarms. The check answers 503 during one: that is not a failure."""
        try:
            return reading.alarms_of(await self._http.request("GET", "/health/checks/alarms") or {})
        except HttpError as error:
            if error.status == 503:
                return reading.alarms_of(decoded(error.body))
            raise
        except (NotAllowed, NotFound):
            return []

    @property
    def creator(self) -> Creator:
        return self

    async def reported(self) -> AsyncIterator[Reported]:
        seconds, why = RETRY_SECONDS, ""
        while self._account is not None:
            if self._source is None:  # the plugin may have been enabled since
                await asyncio.sleep(LOOK_SECONDS)
                with suppress(AdminError):  # polls say that the broker does not answer
                    await self._find_source(self._account, await self._http.request("GET", "/overview"))
                continue
            most = RETRY_SECONDS_MOST
            try:
                async with self._source.attached() as events:
                    self.reports, seconds = rabbitmq_events.KINDS, RETRY_SECONDS
                    async for key, headers in events:
                        for report in self._reports_of(key, headers):
                            yield report
            except SourceLost as error:
                most = RETRY_SECONDS_REFUSED if error.refused else RETRY_SECONDS_MOST
                if str(error) != why:
                    why = str(error)
                    log.warning("no events from RabbitMQ, there are polls only: %s", why)
            finally:
                self.reports = frozenset()
            await asyncio.sleep(min(most, seconds))
            seconds = min(most, seconds * 2)

    def _reports_of(self, key: str, headers: Mapping[str, Any]) -> list[Reported]:
        before = rabbitmq_events.Known(tuple(self._known.all), tuple(self._alarms))
        try:
            found, after = rabbitmq_events.reports_of(key, headers, before)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("an event %s of RabbitMQ has another form than expected: %r", key, error)
            return []
        self._known.all, self._alarms = list(after.policies), list(after.alarms)
        return found

    async def read(self, name: ObjectName) -> Observation:
        match name.type:
            case "Queue":
                said = await self._http.request("GET", f"/queues/{part(name['virtualhost'])}/{part(name['name'])}")
                await self._known.read()
                found = reading.queues_of([said], reading.by_name(self._known.all))
            case "Policy":
                await self._known.read()
                found = reading.policies_of(self._known.all)
            case _:
                found = {}
        if name not in found:
            raise NotFound(f"there is no {name}")
        return Observation(self._now(), {name: found[name]})

    # -- changing -------------------------------------------------------------------------------------------------

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        if name.type == "Policy":
            await self._replace_pattern(PolicyChange(name, "update", attributes, None), objects[name], objects)
            return
        if name.type != "Queue":
            raise InvalidValue({key: f"{key} cannot be changed" for key in attributes})
        host, queue = name["virtualhost"], name["name"]
        own = policies.limit_name(queue)
        if policies.stop_name(queue) in {policy["name"] for policy in self._known.of(host)}:
            raise InvalidValue({"": "its publishers are stopped: start them before its limits are changed"})
        known = self._known.listed.by_name.get((host, own))
        applies = self._stops.outranked(name, objects[name])
        below = applies if known is None else definition_below(self._known.all, name, objects[name].get("kind"))
        highest = self._known.listed.highest_priority(name, without=own)
        wanted = policies.limit_policy(name, known and known["definition"], below, attributes, highest)
        refusing = [name] if begins_to_refuse(objects[name], wanted["definition"] if wanted else below) else []
        change = Replacement(host, own, known, wanted, refusing, applies)
        await self._writer.replace(change, next(iter(attributes), ""))

    def limits_after(self, changes: Sequence[PolicyChange], objects: Objects) -> Mapping[ObjectName, Attributes]:
        return limits_after(changes, self._known.all, self._known.operator, objects)

    async def create(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        await self._known.read()
        names = {policy["name"] for policy in self._known.of(name["virtualhost"])}
        free = policies.free_name(name["pattern"], names)
        known = {"definition": {}, "policy_name": free}
        await self._replace_pattern(PolicyChange(name, "create", attributes, None), known, objects)

    async def _replace_pattern(self, change: PolicyChange, known: Attributes, objects: Objects) -> None:
        name, policy = change.name, str(known["policy_name"])
        deleted = change.action == "delete"
        wanted = None if deleted else policies.pattern_policy(name["pattern"], change.attributes, known)
        present = self._known.listed.by_name.get((name["virtualhost"], policy))
        refusing: Sequence[ObjectName] = ()
        if can_begin_to_refuse(present, wanted, self._known.of(name["virtualhost"])):
            refusing = beginning_to_refuse(change, self._known.all, self._known.operator, objects)
        await self._writer.replace(Replacement(name["virtualhost"], policy, present, wanted, refusing), "pattern")

    async def delete(self, name: ObjectName, objects: Objects) -> None:
        policy = str(objects[name]["policy_name"])
        others = sorted(policies.other_settings(objects[name]["definition"]))
        if others:
            raise NotAllowed(
                f"policy {policy} also has {', '.join(others)}: remove its limits, or delete it in RabbitMQ"
            )
        await self._replace_pattern(PolicyChange(name, "delete", {}, None), objects[name], objects)

    async def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], objects: Objects
    ) -> Mapping[str, Any]:
        if name.type == "Connection" and operation == "close":
            await self._http.request("DELETE", f"/connections/{part(name['id'])}")
            return {}
        raise NotFound(f"RabbitMQ has no operation {operation}")

    # -- stops ----------------------------------------------------------------------------------------------------

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        return self._stops.targets(scopes, objects)

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        return await self._stops.stop(targets, in_round=in_round)

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        return await self._stops.start(targets)

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        return self._stops.is_stopped(target, objects)

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        return self._stops.restore_now(target, objects)

    def clock_set(self, step: int) -> None:
        self._uptime.clock_set(step)
        self._clients.clock_set(step)

    async def close(self) -> None:
        await self._parking.close()
        await self._http.close()


def open_account(account: Account, now: Callable[[], int]) -> RabbitMq:
    """Return the adapter of an account. Its URL is that of the management plugin, with or without `/api`."""
    base = account.url.removesuffix("/api") + "/api"
    return RabbitMq(JsonHttp.of(account, base), now, account)
