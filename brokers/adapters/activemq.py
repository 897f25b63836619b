"""ActiveMQ Classic (5.18 and later): through Jolokia, as its web console has it.

ActiveMQ holds producers, by settling their messages late, while memory or store are above a limit; there is no order
to stop them. So limits are the valve: a queue is stopped by a memory limit of 1 byte, which lets a message through each
time the queue is empty, and the whole broker by a store limit of 1 byte, which holds persistent messages at once. Both
are gone after a restart of the broker; the core makes stops again. Events come from polls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from brokers.adapters import activemq_reading as reading
from brokers.adapters import jolokia
from brokers.adapters.activemq_reading import HOST, NO_LIMIT, RESOURCES, STOP, Limit
from brokers.adapters.adapter import Faults, Finding, Objects, StopTarget
from brokers.adapters.attempts import Attempts
from brokers.adapters.capabilities import LEVELS, STARTS, TOTALS, Capability, Capable, types_of
from brokers.adapters.http import JsonHttp
from brokers.adapters.jolokia import Answer, Jolokia, JolokiaError
from brokers.adapters.kinds import Account
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.adapters.scopes import covered_by
from brokers.adapters.uptime import Uptime
from brokers.admin import BrokerUnreachable, InvalidValue, NotFound
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName, object_name

BROKER = object_name("Broker")

#: Time for a list of everything, s.
LONG = 30.0

TRICKLES = (
    "ActiveMQ cannot stop the producers of a queue, it can slow them to the pace of its consumers: its memory limit"
    " becomes 1 byte, and each time the queue is empty in memory one more message of each producer can pass."
)
HOLDS = (
    "ActiveMQ holds all producers of persistent messages at once: its store limit becomes 1 byte. Messages that are not"
    " persistent pass. Consumers go on."
)
_QUEUE_STOPS = {"stop-producers": Capable(producer_effect="trickle", remark=TRICKLES), "start-producers": STARTS}
_STOPS = {
    # Of some queues it would have the other effect.
    "stop-producers": Capable(lacks=("pattern", "queues"), producer_effect="hold", remark=HOLDS),
    "start-producers": STARTS,
}

_RETAINED = "It is gone after a restart of ActiveMQ. To retain it, set it in activemq.xml as well:"
_IN_QUEUE = (
    "Memory for the queue's messages. Persistent messages that do not fit are usually in the store alone and block no"
    " producer. Not set: the broker's memory limit. 0: no limit of its own."
    f' {_RETAINED} <policyEntry queue="NAME" memoryLimit="BYTES"/> in destinationPolicy, policyMap, policyEntries.'
)
_IN_MEMORY = "Bytes of the messages in memory, which is what the limit is about; not of those in the store alone."
_OF_BROKER = (
    "At this limit producers{of} are blocked, in bytes; a percentage is not possible. 0: no limit."
    f' {_RETAINED} <{{tag}}><{{tag}} limit="BYTES"/></{{tag}}> in systemUsage, systemUsage.'
)

_TOTALS = (*TOTALS, "producers", "blocked_producers")

CAPABILITIES = {
    "Broker": Capability(
        ("product", "product_version", "started", "connections", "shortages", "last_event", "journal", *_TOTALS,
         *(f"{resource}_{what}_bytes" for resource in RESOURCES for what in ("limit", "used"))),
        writable=tuple(f"{resource}_limit" for resource in RESOURCES),
        operations={**_STOPS, "preview-change": Capable()},
        descriptions={
            "memory_limit": _OF_BROKER.format(of="", tag="memoryUsage"),
            "store_limit": _OF_BROKER.format(of=" of persistent messages", tag="storeUsage"),
            "temp_limit": _OF_BROKER.format(of=" of messages that are not persistent", tag="tempUsage"),
            "depth_bytes": _IN_MEMORY,
        },
    ),
    "VirtualHost": Capability(_TOTALS, operations=_QUEUE_STOPS, descriptions={"depth_bytes": _IN_MEMORY}),
    "Queue": Capability(
        ("state", "depth_messages", "depth_bytes", "unacknowledged_messages", "producers", "blocked_producers",
         "consumers", "rate_in", "rate_out", "enqueued_messages", "dequeued_messages", "expired_messages",
         "overfull_since", "overfull_count", "overfull_ms", "stopped_since", "stops", "mechanism", *LEVELS),
        writable=("capacity_bytes",),
        operations={**_QUEUE_STOPS, "explain": Capable()},
        descriptions={"capacity_bytes": _IN_QUEUE, "depth_bytes": _IN_MEMORY},
    ),
    "Connection": Capability(("remote_address", "container_id", "user", "opened"), text_keys=("id",),
                             operations={"close": Capable(remark="The client may connect again at once.")}),
    "Producer": Capability(
        ("queue", "connection", "link", "client", "state", "reasons", "blocked_since", "blocked_ms", "blocked_count",
         "release", "messages"),
        text_keys=("id",),
    ),
}  # fmt: skip


#: A name that nothing has.
NOWHERE = "headgate~nowhere"


class ActiveMq:
    """See the module. `now`: ms since the epoch."""

    types: Mapping[str, ManagedType] = types_of(CAPABILITIES)
    reports: frozenset[str] = frozenset()
    paged = False
    most_stopped: int | None = None
    creator = None

    def __init__(self, agent: Jolokia, now: Callable[[], int]) -> None:
        self.identity = ""  # a broker's name is often localhost, or that of its host
        self._agent = agent
        self._now = now
        self._broker = ""  # the name of its MBean
        self._beans: dict[str, str] = {}  # of queues, by their names
        self._limits: dict[str, Limit] = {}  # of queues, as last read while they were not stopped
        self._store_limit: Limit | None = None  # likewise
        self._uptime = Uptime()
        self._connections: dict[str, str] = {}  # client id -> MBean
        self._addresses: dict[str, str] = {}  # client id -> remote address

    # -- reading --------------------------------------------------------------------------------------------------

    async def connect(self) -> Sequence[Finding]:
        try:
            brokers = await self._agent.one(jolokia.search("org.apache.activemq:type=Broker,brokerName=*"))
        except NotFound:
            raise BrokerUnreachable(
                f"no Jolokia at {self._agent.base}: enter its address, which usually ends in /api/jolokia"
            ) from None
        if not brokers:
            raise BrokerUnreachable(f"{self._agent.base} shows no ActiveMQ that is started, or none to this user")
        self._broker = sorted(brokers)[0]
        said = _active(await self._agent.one(jolokia.read(self._broker, *reading.BROKER_ATTRIBUTES)))
        found = [Finding(f"ActiveMQ {said.get('BrokerVersion')} answers")]
        if said.get("Persistent") is False:
            found.append(Finding("", "it has no store: all producers cannot be stopped at once, only those of queues"))
        return [*found, *await self._missing_permissions()]

    async def _missing_permissions(self) -> list[Finding]:
        """Try what needs a permission, on a broker that does not exist."""
        nowhere = f"org.apache.activemq:type=Broker,brokerName={jolokia.quote(NOWHERE)}"
        queue = f"{nowhere},destinationType=Queue,destinationName={jolokia.quote(NOWHERE)}"
        wanted = [jolokia.write(queue, "MemoryLimit", 1), jolokia.write(nowhere, "StoreLimit", 1)]
        of = {"MemoryLimit": "producers of queues", "StoreLimit": "all producers at once"}
        return [
            Finding(
                "",
                f"the user lacks the permission to write {request['attribute']}: limits cannot be changed, and"
                f" {of[request['attribute']]} not be stopped",
            )
            for request in await jolokia.refused(self._agent, wanted)
        ]

    async def read_changing(self) -> Observation:
        return await self._poll()

    async def read_all(self) -> AsyncIterator[Observation]:
        beans = _found(
            (
                await self._agent.post(
                    [jolokia.read(self._client("*", "*"), *reading.CONNECTION_ATTRIBUTES)], seconds=LONG
                )
            )[0]
        )
        found = reading.connections_of(beans.values())
        self._connections = {said["ClientId"]: mbean for mbean, said in beans.items() if said.get("ClientId")}
        self._addresses = {name["id"]: str(values["remote_address"]) for name, values in found.items()}
        host = {object_name("VirtualHost", name=HOST): {"name": HOST}}
        yield Observation(self._now(), {**found, **host}, frozenset({"Connection"}))
        yield await self._poll()

    def _client(self, connector: str, name: str) -> str:
        return (
            f"{self._broker},connector=clientConnectors,connectorName={connector},connectionViewType=clientId,"
            f"connectionName={name}"
        )

    async def _poll(self) -> Observation:
        """Read everything but the connections: there is no cheaper list of what has changed."""
        queue = f"{self._broker},destinationType=Queue,destinationName=*"
        # Producers first: one that is blocked then has a queue that is overfull, and not one from before it was.
        producers_read, dynamic_read, broker_read, stores_read, queues_read = await self._agent.post(
            [
                jolokia.read(f"{queue},endpoint=Producer,clientId=*,producerId=*", *reading.PRODUCER_ATTRIBUTES),
                jolokia.read(
                    f"{self._broker},endpoint=dynamicProducer,clientId=*,producerId=*", *reading.PRODUCER_ATTRIBUTES
                ),
                jolokia.read(self._broker, *reading.BROKER_ATTRIBUTES),
                jolokia.read(f"{self._broker},service=PersistenceAdapter,instanceName=*", "Size"),
                jolokia.read(queue, *reading.QUEUE_ATTRIBUTES),
            ],
            seconds=LONG,
        )
        now = self._now()
        broker = self._read_broker(_active(broker_read.get()), _found(stores_read), now)
        listed = _found(queues_read)
        self._beans = reading.beans_of(listed)
        limits = self._note_limits(listed)
        self._limits = {name: limits[name] for name in self._beans if name in limits}
        queues = reading.queues_of(listed.values(), self._limits)
        said = {**_found(producers_read), **_found(dynamic_read)}
        producers = reading.producers_of(said, queues, broker, self._addresses)
        objects = {**reading.count_blocked(queues, producers), **producers, BROKER: broker}
        return Observation(now, objects, frozenset({"Queue", "Producer"}))

    def _note_limits(self, listed: Mapping[str, Mapping[str, Any]]) -> dict[str, Limit]:
        """Return the limits of the queues, of a stopped one that before the stop."""
        read = {said["Name"]: limit for said in listed.values() if "Name" in said and (limit := reading.limit_of(said))}
        return {**self._limits, **{name: limit for name, limit in read.items() if not limit.is_stop}}

    def _read_broker(self, said: Mapping[str, Any], stores: Mapping[str, Mapping[str, Any]], now: int) -> Attributes:
        limit = reading.limit_of(said, "Store")
        if limit is not None and not limit.is_stop:
            self._store_limit = limit
        sizes = [store["Size"] for store in stores.values() if isinstance(store.get("Size"), int)]
        up = said.get("UptimeMillis")
        started = self._uptime.started(up, now) if isinstance(up, int) else None
        return reading.broker_of(said, sizes, self._store_limit, started)

    async def reported(self) -> AsyncIterator[Reported]:
        return
        yield

    async def read(self, name: ObjectName) -> Observation:
        match name.type:
            case "Queue":
                said = await self._agent.one(jolokia.read(await self._bean(name), *reading.QUEUE_ATTRIBUTES))
                self._limits |= self._note_limits({"": said})
                found = reading.queues_of([said], self._limits)
            case "Broker":
                said = await self._agent.one(jolokia.read(self._broker, *reading.BROKER_ATTRIBUTES))
                found = {BROKER: self._read_broker(said, {}, self._now())}
            case _:
                found = {}
        if name not in found:
            raise NotFound(f"there is no {name}")
        return Observation(self._now(), {name: found[name]})

    async def _bean(self, queue: ObjectName) -> str:
        """Return the MBean of a queue. Raises NotFound."""
        if queue["name"] not in self._beans:
            pattern = f"{self._broker},destinationType=Queue,destinationName=*"
            (answer,) = await self._agent.post([jolokia.read(pattern, "Name")], seconds=LONG)
            self._beans = reading.beans_of(_found(answer))
        try:
            return self._beans[queue["name"]]
        except KeyError:
            raise NotFound(f"there is no {queue}") from None

    # -- changing -------------------------------------------------------------------------------------------------

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        if name.type == "Queue" and "capacity_bytes" in attributes:
            await self._update_queue(name, attributes["capacity_bytes"], objects[name])
        elif name.type == "Broker":
            await self._update_broker(attributes, objects[name])

    def limits_after(self, changes: Sequence[PolicyChange], objects: Objects) -> Mapping[ObjectName, Attributes]:
        for change in changes:
            _checked("capacity_bytes", change.attributes.get("capacity_bytes"))
        return reading.limits_after(changes, objects, objects.get(BROKER, {}))

    async def _update_queue(self, name: ObjectName, size: int | None, queue: Attributes) -> None:
        if queue.get("stopped_by_limit"):
            raise InvalidValue({"": "its producers are stopped: start them before its limit is changed"})
        bean = await self._bean(name)
        await self._write(_limit_request(bean, _checked("capacity_bytes", size)), "capacity_bytes")

    async def _update_broker(self, attributes: Attributes, broker: Attributes) -> None:
        wrong = {}
        for key, size in attributes.items():
            if not isinstance(size, int):
                wrong[key] = f"{key} must be a number of bytes here: what activemq.xml says applies after a restart"
            elif key == "store_limit" and broker.get("stopped_by_limit"):
                wrong[key] = "all producers are stopped by this limit: start them before it is changed"
        if wrong:
            raise InvalidValue(wrong)
        sizes = {key: _checked(key, size) for key, size in attributes.items()}
        for key, size in sizes.items():
            attribute = f"{key.removesuffix('_limit').capitalize()}Limit"
            await self._write(jolokia.write(self._broker, attribute, size), key)

    async def _write(self, request: jolokia.Request, field: str) -> None:
        try:
            await self._agent.one(request)
        except JolokiaError as error:
            raise InvalidValue({field: str(error)}) from None

    async def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], objects: Objects
    ) -> Mapping[str, Any]:
        if name.type == "Connection" and operation == "close":
            bean = self._connections.get(name["id"])
            if bean is None:
                raise NotFound(f"there is no {name}")
            await self._agent.one(jolokia.execute(bean, "stop()"))
            return {}
        raise NotFound(f"ActiveMQ has no operation {operation}")

    # -- stops ----------------------------------------------------------------------------------------------------

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        covered = covered_by(scopes, objects)
        return {scope: self._targets(scope, names, objects) for scope, names in covered.items()}

    def _targets(self, scope: Scope, covered: Sequence[ObjectName], objects: Objects) -> Sequence[StopTarget]:
        if not scope.virtualhost and not scope.pattern:
            return [self._whole(objects)]
        throttled = [name for name in covered if objects[name].get("throttles") is not False]
        if scope.queue and not throttled:
            raise InvalidValue({"": f"queue {scope.queue} cannot be stopped: its producerFlowControl is false"})
        return [
            StopTarget(str(name), frozenset([name]), _restore(objects[name].get("limit_before_stop"), Limit(0, 1.0)))
            for name in throttled
        ]

    def _whole(self, objects: Objects) -> StopTarget:
        broker = objects.get(BROKER, {})
        if broker.get("persistent") is False:
            raise InvalidValue({"": "it has no store, so its producers cannot be stopped at once: stop them by queue"})
        known = broker.get("limit_before_stop")
        if known is None and self._store_limit is not None:  # which a start has restored since
            known = (self._store_limit.size, 0.0)
        if known is None and broker.get("stopped_by_limit"):
            raise InvalidValue({"": "its store limit is 1 byte, and what it was before is unknown: set store_limit"})
        queues = frozenset(name for name in objects if name.type == "Queue")
        return StopTarget(str(BROKER), queues, _restore(known, Limit(NO_LIMIT)))

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        attempts = Attempts(all_or_none=not in_round)
        await self._write_all([(target, self._stop_request) for target in targets], attempts)
        return attempts.faults

    def _stop_request(self, target: StopTarget, bean: str) -> jolokia.Request:
        return jolokia.write(bean, _attribute(target), STOP)

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        """Restore the limits of those that are stopped now: a restart, or someone, may have given others their own."""
        present = await self._present(targets)
        answers = await self._agent.post([jolokia.read(bean, _attribute(t)) for t, bean in present], seconds=LONG)
        stopped, attempts = [], Attempts()
        for (target, _), answer in zip(present, answers, strict=True):
            with attempts.of(target), suppress(NotFound):
                if answer.get().get(_attribute(target)) == STOP:
                    stopped.append((target, self._start_request))
        await self._write_all(stopped, attempts)
        for target, _ in stopped:
            if target.id == str(BROKER) and target.id not in attempts.faults:  # until the next poll it is shown stopped
                self._store_limit = Limit(int(target.restore["limit"]))
        return attempts.faults

    def _start_request(self, target: StopTarget, bean: str) -> jolokia.Request:
        before = Limit(int(target.restore["limit"]), float(target.restore["portion"]))
        if _attribute(target) == "StoreLimit":
            return jolokia.write(bean, "StoreLimit", before.shown or NO_LIMIT)
        return _limit_request(bean, NO_LIMIT if before.own == 0 else before.own, before.portion)

    async def _present(self, targets: Sequence[StopTarget]) -> list[tuple[StopTarget, str]]:
        """Return the targets that the broker has, with their MBeans."""
        found = []
        for target in targets:
            if target.id == str(BROKER):
                found.append((target, self._broker))
            elif (bean := await self._bean_or_none(next(iter(target.queues)))) is not None:
                found.append((target, bean))
        return found

    async def _bean_or_none(self, queue: ObjectName) -> str | None:
        try:
            return await self._bean(queue)
        except NotFound:
            return None

    async def _write_all(
        self, wanted: Sequence[tuple[StopTarget, Callable[[StopTarget, str], Any]]], attempts: Attempts
    ) -> None:
        make = {target.id: request for target, request in wanted}
        present = await self._present([target for target, _ in wanted])
        answers = await self._agent.post([make[target.id](target, bean) for target, bean in present], seconds=LONG)
        for (target, _), answer in zip(present, answers, strict=True):
            with attempts.of(target), suppress(NotFound):  # deleted meanwhile
                answer.get()

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        name = BROKER if target.id == str(BROKER) else next(iter(target.queues))
        return name not in objects or bool(objects[name].get("stopped_by_limit"))

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        said = objects.get(BROKER if target.id == str(BROKER) else next(iter(target.queues)), {})
        if said.get("stopped_by_limit") is not False or said.get("limit_before_stop") is None:
            return None
        return _restore(said["limit_before_stop"], Limit(0))

    def clock_set(self, step: int) -> None:
        self._uptime.clock_set(step)

    async def close(self) -> None:
        await self._agent.close()


def _found(answer: Answer) -> Mapping[str, Mapping[str, Any]]:
    """Return what a pattern matches; nothing if no MBean does."""
    if isinstance(answer.error, NotFound):
        return {}
    value: Mapping[str, Mapping[str, Any]] = answer.get()
    return value


def _active(said: Mapping[str, Any]) -> Mapping[str, Any]:
    if said.get("Slave") is True:
        raise BrokerUnreachable("this ActiveMQ is not active: it is a slave, or still starting")
    return said


def _restore(known: Any, otherwise: Limit) -> dict[str, Any]:
    limit = Limit(*known) if known is not None else otherwise
    return {"limit": limit.size, "portion": limit.portion}


def _attribute(target: StopTarget) -> str:
    return "StoreLimit" if target.id == str(BROKER) else "MemoryLimit"


def _checked(field: str, size: int | None) -> int | None:
    """Return the size to write for a limit in Headgate's words: 0 is none there and is never written, None is that of
    the broker."""
    if size == STOP:
        raise InvalidValue({field: "1 byte is what stops producers: use stop-producers"})
    return NO_LIMIT if size == 0 else size


def _limit_request(bean: str, size: int | None, portion: float = 1.0) -> jolokia.Request:
    """Return the request for the memory limit of a queue. None: it follows the broker's, by this portion."""
    if size is None:
        return jolokia.write(bean, "MemoryUsagePortion", portion)
    return jolokia.write(bean, "MemoryLimit", size)


def open_account(account: Account, now: Callable[[], int]) -> ActiveMq:
    """Return the adapter of an account. Its URL is that of Jolokia; without a path, where the web console has it."""
    url = account.url.rstrip("/")
    base = url if urlsplit(url).path else f"{url}/api/jolokia"
    return ActiveMq(
        Jolokia(JsonHttp.of(account, base)),
        now,
    )
