"""Apache Qpid Broker-J (7.1 to 10.1): through its management over HTTP, and the log of its memory logger.

Broker-J blocks producers of a queue above its maximum depth, by its overflow policy. It has no stop: the nearest is a
maximum of 0, which blocks producers while the queue has messages. Once it is drained they send until the first message
is counted, so producers go on at the pace of the consumers. Blocks are known to the millisecond if a memory logger has
the operational log, else from polls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from brokers.adapters import broker_j_limits as limits
from brokers.adapters import broker_j_log as log_lines
from brokers.adapters import broker_j_reading as reading
from brokers.adapters.adapter import Faults, Finding, Objects, StopTarget
from brokers.adapters.attempts import Attempts
from brokers.adapters.broker_j_limits import QueueLimits
from brokers.adapters.broker_j_stops import undo
from brokers.adapters.capabilities import LEVELS, STARTS, TOTALS, Capability, Capable, types_of
from brokers.adapters.http import HttpError, JsonHttp, part
from brokers.adapters.json_text import decoded
from brokers.adapters.kinds import Account
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.adapters.scopes import covered_by
from brokers.admin import BrokerUnreachable, InvalidValue, NotAllowed, NotFound
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName, object_name

log = logging.getLogger("headgate.adapters")

BROKER = object_name("Broker")

#: Seconds between two reads of the log.
LOG_SECONDS = 1.0
#: Seconds until a queue whose maximum was lifted must have released its producers; and that a round waits for it.
RELEASE_SECONDS, RELEASE_SECONDS_IN_ROUND = 30.0, 1.0

TRICKLES = (
    "Broker-J blocks producers only while the queue has messages. When consumers have drained it, producers go on at"
    " the pace of the consumers. No message is lost."
)
BASIC = (
    "Over plain HTTP, Broker-J accepts a user name and password only if httpBasicAuthenticationEnabled is true on its"
    " HTTP management plugin: set that, or use https"
)
NO_UPDATE = (
    "user {0} lacks the permission to update queues: limits cannot be changed, and producers not be stopped; the access"
    " control needs a rule such as ACL ALLOW {0} UPDATE QUEUE"
)
NO_LOGGER = (
    "there is no memory logger with the operational log, so blocks are known from polls, with a delay, and short ones"
    " are missed: add a broker logger of type Memory with an inclusion rule of type NameAndLevel, logger name"
    " qpid.message.*, level INFO"
)
_STOPS = {
    "stop-producers": Capable(producer_effect="trickle", remark=TRICKLES),
    "start-producers": STARTS,
}
_COUNTED = ("producers", "blocked_producers")  # where the version lists producers


def capabilities(*, lists_producers: bool) -> dict[str, Capability]:
    """Return what this version has. `lists_producers`: since 9.0."""
    counted = _COUNTED if lists_producers else ()
    of_producers = ("queue", "messages", "bytes") if lists_producers else ()
    return {
        "Broker": Capability(
            ("product", "product_version", "started", "connections", "memory_limit_bytes", "memory_used_bytes",
             "last_event", "journal", *TOTALS, *counted),
            operations={**_STOPS, "preview-change": Capable()},
        ),
        "VirtualHost": Capability((*TOTALS, *counted), operations=_STOPS),
        "Queue": Capability(
            ("durable", "state", "depth_messages", "depth_bytes", "unacknowledged_messages", "consumers", "rate_in",
             "rate_out", "enqueued_messages", "dequeued_messages", "overfull_since", "overfull_count", "overfull_ms",
             "stopped_since", "stops", "mechanism", *LEVELS, *counted),
            writable=("capacity_messages", "capacity_bytes", "flow_resume_messages", "overflow"),
            operations={**_STOPS, "explain": Capable()},
        ),
        "Connection": Capability(
            ("remote_address", "container_id", "user", "opened"),
            text_keys=("id",),
            operations={"close": Capable(remark="The client may connect again at once.")},
        ),
        "Producer": Capability(
            ("connection", "link", "client", "state", "reasons", "blocked_since", "blocked_ms", "blocked_count",
             "release", *of_producers),
            text_keys=("id",),
        ),
    }  # fmt: skip


class BrokerJ:
    """See the module. `now`: ms since the epoch."""

    paged = False
    most_stopped: int | None = 1_000  # each needs a request
    creator = None

    def __init__(self, http: JsonHttp, now: Callable[[], int]) -> None:
        self.identity = ""
        self._http = http
        self._now = now
        self.types: Mapping[str, ManagedType] = types_of(capabilities(lists_producers=True))
        self.reports: frozenset[str] = frozenset()
        self._lists_producers = True
        self._old_server = False  # its paths may have any name
        self._hosts = reading.Hosts()
        self._contexts: dict[ObjectName, Mapping[str, Any]] = {}  # of all queues, as last read completely
        self._limits: dict[ObjectName, QueueLimits] = {}  # of the same queues
        self._filled: set[ObjectName] = set()  # queues that the last read found with messages, or blocking
        self._clients = reading.Clients()
        self._logger = ""
        self._position: log_lines.Position | None = None
        self._lines = log_lines.LogReading()
        self._order = asyncio.Lock()  # what was read first is taken over first: lines of the log, and polls

    # -- reading --------------------------------------------------------------------------------------------------

    async def connect(self) -> Sequence[Finding]:
        said = await self._read_broker()
        self.identity = str(said.get("id") or "")
        version = str(said.get("productVersion") or "")
        found = [Finding(f"Apache Qpid Broker-J {version} answers")]
        major = int(version.partition(".")[0] or 0)
        self._old_server = major < 8
        if major < 7:
            found.append(Finding("", f"version {version} has no overflow policies: limits and stops need 7.0"))
        self._lists_producers = await self._has_producers()
        self.types = types_of(capabilities(lists_producers=self._lists_producers))
        self._logger, self._position = await self._find_logger(), None
        self._lines = log_lines.LogReading()
        if not self._logger:
            found.append(Finding("", NO_LOGGER))
        if await self._lacks_update():
            found.append(Finding("", NO_UPDATE.format(self._http.username)))
        return found

    async def _lacks_update(self) -> bool:
        """Return whether the user may not change a queue: tried by a change of nothing, which needs the permission."""
        columns = ("$parent.$parent.name", "$parent.name", "name")
        for row in await self._query("queue", columns, limit=1):
            try:
                await self._http.request("POST", "/queue/" + "/".join(_encoded(str(row[c])) for c in columns), body={})
            except NotAllowed:
                return True
            except (NotFound, HttpError):
                return False  # it cannot be addressed
        return False

    async def _read_broker(self) -> Mapping[str, Any]:
        try:
            said = await self._http.request("GET", "/broker", query={"depth": "0", "excludeInheritedContext": "false"})
        except NotAllowed as error:
            raise (NotAllowed(f"{error}. {BASIC}") if self._http.base.startswith("http:") else error) from None
        found: Mapping[str, Any] = said[0] if isinstance(said, list) else said
        return found

    async def _has_producers(self) -> bool:
        try:
            await self._query("producer", ("id",), limit=1)
        except (NotFound, HttpError):
            return False
        return True

    async def _find_logger(self) -> str:
        """Return the name of a memory logger that has the operational log; "" if there is none."""
        try:
            loggers = await self._query("brokerlogger", ("name", "type"))
            rules = await self._query("brokerloginclusionrule", ("$parent.name", "loggerName", "level"))
        except (NotAllowed, NotFound, HttpError):
            return ""
        for logger in sorted(row["name"] for row in loggers if row["type"] == "Memory"):
            if log_lines.lets_through(rule for rule in rules if rule["$parent.name"] == logger):
                return str(logger)
        return ""

    async def _query(
        self, category: str, columns: Sequence[str], *, where: str = "", limit: int = 0
    ) -> list[reading.Row]:
        query = {"select": ",".join(columns), **({"where": where} if where else {})}
        query |= {"limit": str(limit)} if limit else {}
        answer = await self._http.request("GET", f"/querybroker/{category}", query=query, seconds=30)
        return reading.rows(answer, columns)

    async def read_changing(self) -> Observation:
        async with self._order:
            listed, blocked = await asyncio.gather(
                self._query("queue", reading.QUICK, where="queueFlowStopped = true or queueDepthMessages > 0"),
                self._query("session", ("id",), where="producerFlowBlocked = true"),
            )
            sessions = [row["id"] for row in blocked]
            if any(id_ not in self._clients.sessions for id_ in sessions):
                self._clients, sessions = await self._read_clients()
            found = reading.queues_of(listed, self._hosts, self._contexts)
            found = {name: values for name, values in found.items() if name in self._contexts}  # others: with the rest
            self._limits |= {name: QueueLimits.of(values["limits"]) for name, values in found.items()}
            emptied = {name: reading.empty(name, self._limits[name]) for name in self._filled - set(found)}
            self._filled = set(found)
            states = self._blocked(found, sessions)
            # With all that is known of the producers: the last read of everything may not have had them.
            producers = {name: known for name, known in self._clients.objects.items() if name in states}
            return Observation(self._now(), _merged({**emptied, **found, **producers}, states))

    async def read_all(self) -> AsyncIterator[Observation]:
        said = await self._read_broker()
        self._hosts = reading.Hosts.of(await self._query("virtualhost", reading.HOST), said)
        yield Observation(self._now(), self._hosts.objects())
        yield await self._read_queues()
        yield Observation(self._now(), {BROKER: reading.broker_of(said, len(self._clients.ports))})

    async def _read_queues(self) -> Observation:
        """Read all queues and clients. The first time, events of the log count from here on: what is found now is
        compared with what was known before."""
        async with self._order:
            if self._position is None and self._logger:
                self._position = log_lines.end_of(await self._lines_after(0), log_lines.Position())
            listed, (self._clients, blocked) = await asyncio.gather(
                self._query("queue", reading.FULL), self._read_clients()
            )
            found = reading.queues_of(listed, self._hosts, {})
            self._contexts = {name: values["context"] for name, values in found.items()}
            self._limits = {name: QueueLimits.of(values["limits"]) for name, values in found.items()}
            self._filled = {n for n, values in found.items() if values.get("depth_messages") or values.get("overfull")}
            states = self._blocked(found, blocked)
            at = self._now()
            if not self.reports:
                self._lines.observed({n for n, state in states.items() if state.get("blocked")}, at)
            return Observation(at, _merged({**found, **self._clients.objects}, states))

    async def _read_clients(self) -> tuple[reading.Clients, list[str]]:
        """Return the clients, and the ids of blocked sessions."""
        connections, sessions = await asyncio.gather(
            self._query("connection", reading.CONNECTION), self._query("session", reading.SESSION)
        )
        producers = await self._query("producer", reading.PRODUCER) if self._lists_producers else None
        blocked = [row["id"] for row in sessions if row["producerFlowBlocked"]]
        return reading.clients_of(connections, sessions, producers, self._hosts), blocked

    def _blocked(
        self, queues: Mapping[ObjectName, Attributes], sessions: Sequence[str]
    ) -> dict[ObjectName, Attributes]:
        """Return what blocked sessions say of producers and queues. `queues`: as just read."""
        stopping = {name for name, values in queues.items() if values["blocks"]}
        states = reading.blocked_producers(self._clients, sessions, stopping)
        if not self._lists_producers:
            return states
        counts = reading.counts_of(self._clients, states)
        return {**states, **{name: {"blocked_producers": counts[str(name)]} for name in self._contexts}}

    async def reported(self) -> AsyncIterator[Reported]:
        if not self._logger:
            return
        self.reports = log_lines.KINDS
        try:
            while True:
                for event in await self._read_log():
                    yield event
                await asyncio.sleep(LOG_SECONDS)
        finally:
            self.reports = frozenset()

    async def _read_log(self) -> list[Reported]:
        async with self._order:
            position = self._position or log_lines.Position()
            try:
                lines, lost = log_lines.newer(await self._lines_after(position.ask_after), position)
            except (log_lines.RestartedLog, NotFound):
                raise BrokerUnreachable("the broker, or its memory logger, was restarted") from None
            if lost:
                log.warning("%d lines of the log of %s were overwritten before they were read", lost, self._http.base)
            if self._lines.needs(lines, self._clients):
                self._clients, _ = await self._read_clients()
            self._position = log_lines.end_of(lines, position)
            return self._lines.events(lines, self._clients)

    async def _lines_after(self, id_: int) -> list[Mapping[str, Any]]:
        path = f"/brokerlogger/{_encoded(self._logger)}/getLogEntries"
        found: list[Mapping[str, Any]] = await self._http.request("GET", path, query={"lastLogId": str(id_)})
        return found

    async def read(self, name: ObjectName) -> Observation:
        if name.type != "Queue":
            async for seen in self.read_all():
                if name in seen.objects:
                    return Observation(seen.at, {name: seen.objects[name]})
            raise NotFound(f"there is no {name}")
        text = name["name"].replace("'", "''")
        found = reading.queues_of(await self._query("queue", reading.FULL, where=f"name = '{text}'"), self._hosts, {})
        if name not in found:
            raise NotFound(f"there is no {name}")
        return Observation(self._now(), {name: found[name]})

    # -- changing -------------------------------------------------------------------------------------------------

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        if name.type != "Queue":
            raise InvalidValue({key: f"{key} cannot be changed" for key in attributes})
        queue = (await self.read(name)).objects[name]
        now = QueueLimits.of(queue["limits"])
        if now.is_stop and objects[name].get("stops"):
            raise InvalidValue({"": "its producers are stopped: start them before its limits are changed"})
        field = next(iter(attributes), "")
        if "flow_resume_messages" in attributes:
            context = limits.resume_context(queue["context"], attributes["flow_resume_messages"])
            await self._set(name, {"context": context}, "flow_resume_messages")
        wanted = limits.with_attributes(now, attributes)
        await self._change(name, now, wanted, field)
        await self._confirm(name, wanted, field)

    def limits_after(self, changes: Sequence[PolicyChange], objects: Objects) -> Mapping[ObjectName, Attributes]:
        return reading.limits_after(changes, objects, self._hosts)

    async def _change(self, name: ObjectName, now: QueueLimits, wanted: QueueLimits, field: str = "") -> None:
        for step in limits.steps(now, wanted):
            await self._set(name, step.attributes, field)
            if step.releases:
                await self._until_released(name)

    async def _set(self, name: ObjectName, attributes: Attributes, field: str = "") -> None:
        try:
            await self._http.request("POST", self._path(name), body=attributes)
        except HttpError as error:
            if error.status == 400 and not addressable(name):
                raise InvalidValue({"": NOT_ADDRESSABLE.format(name["name"])}) from None
            raise (refused(error, field) if error.status in (409, 422) else error) from None

    def _path(self, queue: ObjectName) -> str:
        node, host = self._hosts.places.get(queue["virtualhost"], ("", ""))
        return f"/queue/{_encoded(node)}/{_encoded(host)}/{_encoded(queue['name'])}"

    async def _confirm(self, name: ObjectName, wanted: QueueLimits, field: str) -> None:
        """Raise InvalidValue if the queue has not got these limits: Broker-J accepts what it does not know."""
        values = (await self.read(name)).objects[name]
        if QueueLimits.of(values["limits"]) != wanted:
            raise InvalidValue({field: "Broker-J accepted the change, but the queue has other limits"})

    async def _until_released(self, name: ObjectName) -> None:
        """Wait until the queue blocks no producers. Another policy before that would leave them blocked."""
        end = time.monotonic() + RELEASE_SECONDS
        while (await self.read(name)).objects[name]["blocks"]:
            if time.monotonic() > end:
                raise BrokerUnreachable(
                    f"{name} still blocks producers {RELEASE_SECONDS:g} s after its limit was lifted"
                )
            await asyncio.sleep(0.1)

    async def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], objects: Objects
    ) -> Mapping[str, Any]:
        if name.type == "Connection" and operation == "close":
            port = self._clients.ports.get(name)
            if port is None:
                raise NotFound(f"there is no {name}")
            await self._http.request("DELETE", f"/connection/{_encoded(port)}/{_encoded(name['id'])}")
            return {}
        raise NotFound(f"Broker-J has no operation {operation}")

    # -- stops ----------------------------------------------------------------------------------------------------

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        covered = covered_by(scopes, objects)
        return {scope: self._targets(scope, names, objects) for scope, names in covered.items()}

    def _targets(self, scope: Scope, covered: Sequence[ObjectName], objects: Objects) -> Sequence[StopTarget]:
        return [
            StopTarget(str(name), frozenset([name]), objects[name]["limits"])
            for name in covered
            if "limits" in objects[name] and (scope.queue or self._can_address(name))
        ]

    def _can_address(self, name: ObjectName) -> bool:
        return addressable(name) or self._old_server

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        attempts = Attempts(all_or_none=not in_round)
        now = await self._limits_now(targets)
        for target in targets:
            (name,) = target.queues
            if name in now:
                with attempts.of(target), suppress(NotFound):  # it was deleted meanwhile
                    await self._change(name, now[name], limits.stopped(now[name]))
        return attempts.faults

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        now = await self._limits_now(targets)
        seconds = RELEASE_SECONDS_IN_ROUND if in_round else RELEASE_SECONDS
        return await undo(targets, now, change=self._set, blocking=self._blocking, seconds=seconds)

    async def _blocking(self) -> set[ObjectName]:
        """Return the queues that block producers now."""
        listed = await self._query("queue", reading.QUICK, where="queueFlowStopped = true")
        return {name for name, values in reading.queues_of(listed, self._hosts, {}).items() if values["blocks"]}

    async def _limits_now(self, targets: Sequence[StopTarget]) -> dict[ObjectName, QueueLimits]:
        """Return the limits of the queues of targets that exist now, with one request."""
        names = {name for target in targets for name in target.queues}
        found = reading.queues_of(await self._query("queue", reading.QUICK), self._hosts, {})
        return {name: QueueLimits.of(values["limits"]) for name, values in found.items() if name in names}

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        (name,) = target.queues
        return name not in objects or QueueLimits.of(objects[name].get("limits", {})).is_stop

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        (name,) = target.queues
        if "limits" not in objects.get(name, {}):
            return None
        before = QueueLimits.of(target.restore)
        found = limits.restored(QueueLimits.of(objects[name]["limits"]), before)
        return None if found == before else found.as_json()

    def clock_set(self, step: int) -> None:
        """Do nothing: all times are the broker's own."""

    async def close(self) -> None:
        await self._http.close()


def _merged(
    objects: Mapping[ObjectName, Attributes], more: Mapping[ObjectName, Attributes]
) -> dict[ObjectName, Attributes]:
    names = {**objects, **more}
    return {name: {**objects.get(name, {}), **more.get(name, {})} for name in names}


#: Characters that a name in a path must not have for newer versions: they are decoded twice, or refused.
_AMBIGUOUS = frozenset("%+/\\")
NOT_ADDRESSABLE = "Broker-J's management over HTTP cannot address {}: its name has one of the characters % + / \\"


def addressable(name: ObjectName) -> bool:
    return not _AMBIGUOUS & set(name["name"])


def _encoded(text: str) -> str:
    """Return a part of a path. Broker-J decodes it twice: `a%2Bb` would be the queue `a b`."""
    return part(part(text)) if _AMBIGUOUS & set(text) else part(text)


def refused(error: HttpError, field: str) -> InvalidValue:
    """Return a refused value as an error of a field, in the broker's own words if it gives any."""
    try:
        said = decoded(error.body)
        reason = str(said.get("errorMessage") or "")
    except (ValueError, AttributeError):
        reason = ""
    return InvalidValue({field: reason or str(error)})


def open_account(account: Account, now: Callable[[], int]) -> BrokerJ:
    """Return the adapter of an account. Its URL is that of the management, with or without `/api/latest`."""
    base = account.url.removesuffix("/api/latest") + "/api/latest"
    return BrokerJ(JsonHttp.of(account, base), now)
