"""Apache Artemis (2.20 and later): through Jolokia, as its web console does, or by messages to its management address.

Artemis holds producers of an address: at its limits, or by `block()`, which gives them no more credit. So a stop of a
queue stops all queues of its address. A restart of the broker forgets that; the core makes it again. Events come from
polls: Artemis has no notification of a full address.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import urlsplit

from brokers.adapters import artemis_reading as reading
from brokers.adapters import jolokia
from brokers.adapters.adapter import Faults, Finding, Objects, StopTarget
from brokers.adapters.artemis_limits import limits_after, origins
from brokers.adapters.artemis_management import ManagementAddress
from brokers.adapters.artemis_reading import ALL, Settings
from brokers.adapters.attempts import Attempts
from brokers.adapters.capabilities import LEVELS, STARTS, TOTALS, Capability, Capable, types_of
from brokers.adapters.http import JsonHttp
from brokers.adapters.jolokia import Agent, Jolokia, JolokiaError
from brokers.adapters.json_text import decoded
from brokers.adapters.kinds import Account
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.adapters.scopes import covered_by
from brokers.adapters.uptime import Uptime
from brokers.admin import BrokerUnreachable, InvalidValue, NotFound
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName, object_name

Part = TypeVar("Part")

BROKER = object_name("Broker")

DOMAIN = "org.apache.activemq.artemis"

#: A name that nothing has.
NOWHERE = "headgate~nowhere"

#: Requests in one POST.
MANY = 500

#: Arguments of lists: no filter, in the form that every version takes, and all on the first page.
_EVERYTHING = (json.dumps({"field": "", "operation": "", "value": ""}), 1, 1_000_000)

#: Time for a list of everything, s.
LONG = 30.0

HOLDS = (
    "Artemis blocks the whole address, all its queues: an AMQP producer can first use the credit it has, up to 100"
    " messages. Core and OpenWire clients are refused instead. After a restart of Artemis the block is made again"
    " within seconds; until then producers can send."
)
_SET = "addAddressSettings(java.lang.String,java.lang.String)"
_REMOVE = "removeAddressSettings(java.lang.String)"
_GET = "getAddressSettingsAsJSON(java.lang.String)"

_STOPS = {
    "stop-producers": Capable(producer_effect="hold", remark=HOLDS),
    "start-producers": STARTS,
}
_TOTALS = (*TOTALS, "producers", "blocked_producers")
_LIMITS = ("capacity_messages", "capacity_bytes", "mechanism", "spool")
_CHOICES = {"mechanism": ("block", "reject")}

CAPABILITIES = {
    "Broker": Capability(
        ("product", "product_version", "started", "connections", "shortages", "memory_limit_bytes", "memory_used_bytes",
         "last_event", "journal", *_TOTALS),
        operations={**_STOPS, "preview-change": Capable()},
    ),
    "VirtualHost": Capability(_TOTALS, operations=_STOPS),
    "Queue": Capability(
        ("durable", "state", "depth_messages", "depth_bytes", "unacknowledged_messages", "delayed_messages",
         "producers", "blocked_producers", "consumers", "rate_in", "rate_out", "enqueued_messages", "dequeued_messages",
         "expired_messages", "overfull_since", "overfull_count", "overfull_ms", "stopped_since", "stops", *LEVELS),
        writable=_LIMITS,
        operations={**_STOPS, "explain": Capable()},
        choices=_CHOICES,
    ),
    "Policy": Capability((), writable=_LIMITS, choices=_CHOICES,
                         descriptions={"pattern": "The addresses it applies to, as in Artemis's address settings."}),
    "Connection": Capability(("remote_address", "container_id", "user"), text_keys=("id",),
                             operations={"close": Capable(remark="The client may connect again at once.")}),
    "Producer": Capability(
        ("queue", "connection", "link", "client", "state", "reasons", "blocked_since", "blocked_ms", "blocked_count",
         "release", "messages", "bytes"),
        text_keys=("id",),
    ),
}  # fmt: skip


def capabilities(*, stops: bool, limits: bool) -> dict[str, Capability]:
    """Return what a version has. `stops`: addresses can be blocked. `limits`: settings can be written as JSON."""
    found = dict(CAPABILITIES)
    if not stops:
        for name in ("Broker", "VirtualHost", "Queue"):
            others = {o: each for o, each in found[name].operations.items() if o not in _STOPS}
            found[name] = replace(found[name], operations=others)
    if not limits:
        for name in ("Queue", "Policy"):
            found[name] = replace(found[name], attributes=(*found[name].attributes, *_LIMITS), writable=())
    return found


def open_account(account: Account, now: Callable[[], int]) -> Artemis:
    """Return the adapter of an account. Its URL is that of Jolokia; without a path, where the web console has it. Or it
    is that of an AMQP acceptor: then the broker is managed by messages."""
    url = account.url.rstrip("/")
    if urlsplit(url).scheme in ("amqp", "amqps"):
        return Artemis(ManagementAddress(account), now)
    base = url if urlsplit(url).path else f"{url}/console/jolokia"
    return Artemis(
        Jolokia(JsonHttp.of(account, base)),
        now,
    )


class Artemis:
    """See the module. `now`: ms since the epoch."""

    reports: frozenset[str] = frozenset()
    paged = False
    most_stopped: int | None = None
    creator = None

    def __init__(self, agent: Agent, now: Callable[[], int]) -> None:
        self.types: Mapping[str, ManagedType] = types_of(CAPABILITIES)
        self.identity = ""
        self._agent = agent
        self._now = now
        self._broker = ""  # the name of its MBean
        self._uptime = Uptime()
        self._started = 0  # ms since the epoch
        self._settings: dict[str, Settings] = {}  # by match, as last read
        self._former: dict[str, Settings] = {}  # before the last change, for previews until they are read again
        self._origins: dict[str, Mapping[str, str | None]] = {}  # of the limits of addresses, by these settings:
        self._origins_of = self._settings
        self._settling = asyncio.Lock()  # none are read while some are written, or old ones would be taken for new
        self._looks: dict[str, reading.Look] = {}
        self._connections: dict[str, str] = {}  # remote address -> id
        self._blocked: set[str] = set()  # addresses that were blocked here and since the broker was started

    # -- reading --------------------------------------------------------------------------------------------------

    async def connect(self) -> Sequence[Finding]:
        try:
            brokers = await self._agent.one(jolokia.search(f"{DOMAIN}:broker=*"))
        except NotFound:
            raise BrokerUnreachable(
                f"no Jolokia at {self._agent.base}: enter its address, which usually ends in /console/jolokia"
            ) from None
        if not brokers:
            raise BrokerUnreachable(f"{self._agent.base} shows no Artemis that is started, or none to this user")
        self._broker = sorted(brokers)[0]
        self._blocked = set()  # it may have been restarted meanwhile
        said = await self._read_broker()
        node = await self._agent.one(jolokia.read(self._broker, "NodeID"))
        self.identity = str(node.get("NodeID") or "")  # a pair's is the same
        described = await self._agent.one(jolokia.describe(_canonical(self._broker)))
        limits = _takes(described, "addAddressSettings", 2)
        stops = await self._can_block()
        self.types = types_of(capabilities(stops=stops, limits=limits))
        found = [Finding(f"Artemis {said.get('Version')} answers")]
        if not stops:
            found.append(Finding("", "this version cannot block addresses (2.20 and later can): stops are not offered"))
        if not limits:
            found.append(Finding("", "this version does not take settings as JSON: limits cannot be changed"))
        return [*found, *await self._missing_permissions()]

    async def _missing_permissions(self) -> list[Finding]:
        """Try what needs a permission, on objects that do not exist. Raises NotAllowed if the lists are refused."""
        await self._listed("listProducers")
        refused = await jolokia.refused(
            self._agent,
            [
                jolokia.execute(self._address(NOWHERE), "block()"),
                jolokia.execute(self._address(NOWHERE), "unblock()"),
                jolokia.execute(f"{DOMAIN}:broker={jolokia.quote(NOWHERE)}", _SET, NOWHERE, "{}"),
            ],
        )
        missing = {jolokia.named(request) for request in refused}
        lacks = "the user lacks the permission for"
        found = []
        if stops := sorted(missing & {"block()", "unblock()"}):
            found.append(Finding("", f"{lacks} {' and '.join(stops)} of addresses: producers cannot be stopped"))
        if "addAddressSettings()" in missing:
            found.append(Finding("", f"{lacks} addAddressSettings() of the broker: limits cannot be changed"))
        return found

    async def _can_block(self) -> bool:
        addresses = await self._agent.one(jolokia.search(f"{self._broker},component=addresses,address=*"))
        if not addresses:
            return True  # each broker with notifications has one; without any there is nothing to find out
        described = await self._agent.one(jolokia.describe(_canonical(sorted(addresses)[0])))
        return "block" in (described.get("op") or {})

    async def _read_broker(self) -> Mapping[str, Any]:
        return self._active(await self._agent.one(jolokia.read(self._broker, *reading.BROKER_ATTRIBUTES)))

    def _active(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check the attributes of the broker. Raises BrokerUnreachable for one that is not active: it shows no queues,
        which must not be taken for their deletion."""
        if not said.get("Active"):
            raise BrokerUnreachable("this Artemis is a backup that is not active, or it is being started or stopped")
        up = said.get("UptimeMillis") or 0
        restarts = self._uptime.restarts
        self._started = self._uptime.started(up, self._now())
        if self._uptime.restarts > restarts:
            self._blocked = set()
        return said

    async def read_changing(self) -> Observation:
        return await self._poll([])

    async def read_all(self) -> AsyncIterator[Observation]:
        connections = (await self._listed("listConnections"))["data"]
        found = reading.connections_of(connections)
        self._connections = {str(values["remote_address"]): name["id"] for name, values in found.items()}
        host = {object_name("VirtualHost", name=reading.HOST): {"name": reading.HOST}}
        yield Observation(self._now(), {**found, **host}, frozenset({"Connection"}))
        addresses = await self._agent.one(jolokia.search(f"{self._broker},component=addresses,address=*"))
        names = list(reading.addresses_of({each: {} for each in addresses}))
        await self._read_settings([*names, *reading.matches_of(names)], whole=True)
        yield await self._poll(reading.matches_of(names))

    async def _poll(self, matches: Iterable[str]) -> Observation:
        """Read what changes. `matches`: of policies that are part of the answer."""
        broker, addresses_read, queues_read, listed = await self._agent.post(
            [
                jolokia.read(self._broker, *reading.BROKER_ATTRIBUTES),
                jolokia.read(f"{self._broker},component=addresses,address=*", *reading.ADDRESS_ATTRIBUTES),
                jolokia.read(_queues_of(self._broker, "*"), *reading.QUEUE_ATTRIBUTES),
                self._list("listProducers"),
            ],
            seconds=LONG,
        )
        now = self._now()
        said = self._active(broker.get())
        addresses = reading.addresses_of(_found(addresses_read))
        listed_queues = reading.listed(_found(queues_read))
        await self._read_settings([name for name in addresses if name not in self._settings])
        queues = reading.queues_of(listed_queues, addresses, self._settings)
        producers_said = decoded(listed.get())["data"]
        self._looks = reading.looks_at(producers_said, self._looks, now)
        flow = reading.flow_of(queues, reading.shortages_of(said))
        producers = reading.producers_of(producers_said, self._looks, flow, queues, self._connections)
        queues = reading.count_producers(self._with_origins(queues), producers)
        policies = {
            reading.policy_name(match): reading.policy_of(match, self._settings[match])
            for match in matches
            if match in self._settings
        }
        objects = {**queues, **producers, **policies, BROKER: reading.broker_of(said, self._started)}
        return Observation(now, objects, frozenset({"Queue", "Producer"}))

    async def _read_settings(self, matches: Sequence[str], *, whole: bool = False) -> None:
        """Read the settings of matches, and what they inherit. `whole`: these are all that there are."""
        if matches:
            async with self._settling:
                await self._read_settings_now(matches, whole=whole)

    async def _read_settings_now(self, matches: Sequence[str], *, whole: bool = False) -> None:
        strangers = {stranger for match in matches if (stranger := reading.stranger_to(match))}
        wanted = list(dict.fromkeys([*matches, *sorted(strangers)]))
        said: dict[str, Mapping[str, Any]] = {}
        for some in _parts(wanted):
            answers = await self._agent.post(
                [jolokia.execute(self._broker, _GET, match) for match in some], seconds=LONG
            )
            said |= {match: decoded(answer.get()) for match, answer in zip(some, answers, strict=True)}
        read = {match: Settings(said[match], said.get(reading.stranger_to(match), {})) for match in matches}
        self._settings = read if whole else {**self._settings, **read}

    async def _listed(self, operation: str) -> Any:
        return decoded(await self._agent.one(self._list(operation), seconds=LONG))

    def _list(self, operation: str) -> jolokia.Request:
        return jolokia.execute(self._broker, f"{operation}(java.lang.String,int,int)", *_EVERYTHING)

    async def reported(self) -> AsyncIterator[Reported]:
        return
        yield

    async def read(self, name: ObjectName) -> Observation:
        match name.type:
            case "Queue":
                found = await self._read_queue(name)
            case "Policy":
                await self._read_settings([name["pattern"]])
                found = {name: reading.policy_of(name["pattern"], self._settings[name["pattern"]])}
            case _:
                found = {}
        if name not in found:
            raise NotFound(f"there is no {name}")
        return Observation(self._now(), {name: found[name]})

    async def _read_queue(self, name: ObjectName) -> dict[ObjectName, Attributes]:
        try:
            said = await self._agent.one(
                jolokia.read(_queues_of(self._broker, jolokia.quote(name["name"])), *reading.QUEUE_ATTRIBUTES)
            )
        except NotFound:
            return {}
        queues = reading.listed(said)
        addresses = {
            queue.address: await self._agent.one(
                jolokia.read(self._address(queue.address), *reading.ADDRESS_ATTRIBUTES)
            )
            for queue in queues
        }
        await self._read_settings(list(addresses))
        return self._with_origins(reading.queues_of(queues, addresses, self._settings))

    def _with_origins(self, queues: Mapping[ObjectName, Attributes]) -> dict[ObjectName, Attributes]:
        """Return the queues with where their limits come from. The settings of matches are read seldom: until then what
        was known of them remains."""
        if self._origins_of is not self._settings:  # which is replaced as a whole
            self._origins_of, self._origins = self._settings, {}
        return {name: self._with_origin(queue) for name, queue in queues.items()}

    def _with_origin(self, queue: Attributes) -> Attributes:
        address = queue["address"]
        if address not in self._settings or ALL not in self._settings:
            return queue
        if address not in self._origins:
            self._origins[address] = origins(address, self._settings)
        return {**queue, "origins": self._origins[address]}

    def limits_after(self, changes: Sequence[PolicyChange], objects: Objects) -> Mapping[ObjectName, Attributes]:
        return limits_after(changes, {**self._former, **self._settings}, objects)

    def _address(self, name: str) -> str:
        return f"{self._broker},component=addresses,address={jolokia.quote(name)}"

    # -- changing -------------------------------------------------------------------------------------------------

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        match = objects[name]["address"] if name.type == "Queue" else name["pattern"]
        async with self._settling:
            await self._read_settings_now([match])
            wanted = reading.changed(self._settings[match], attributes)
            if wanted:
                request = jolokia.execute(self._broker, _SET, match, json.dumps(wanted))
            else:
                request = jolokia.execute(self._broker, _REMOVE, match)
            try:
                await self._agent.one(request)
            except JolokiaError as error:
                raise InvalidValue({next(iter(attributes), ""): str(error)}) from None
            finally:
                self._former = {**self._former, **self._settings}
                self._settings = {}  # those of other matches can follow from these

    async def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], objects: Objects
    ) -> Mapping[str, Any]:
        if name.type == "Connection" and operation == "close":
            closed = await self._agent.one(
                jolokia.execute(self._broker, "closeConnectionWithID(java.lang.String)", name["id"])
            )
            if not closed:
                raise NotFound(f"there is no {name}")
            return {}
        raise NotFound(f"Artemis has no operation {operation}")

    # -- stops ----------------------------------------------------------------------------------------------------

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        addresses = {name: queue["address"] for name, queue in objects.items() if _is_listed(name, queue)}
        together: dict[str, list[ObjectName]] = {}
        for name, address in addresses.items():
            together.setdefault(address, []).append(name)
        return {
            scope: [
                StopTarget(address, frozenset(together[address]), {"address": address})
                for address in sorted({addresses[name] for name in covered})
            ]
            for scope, covered in covered_by(scopes, addresses).items()
        }

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        attempts = Attempts(all_or_none=not in_round)
        await self._call_all(targets, "block()", attempts)
        self._blocked |= _addresses(targets, without=attempts.faults)
        return attempts.faults

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        attempts = Attempts()
        await self._call_all(targets, "unblock()", attempts)
        self._blocked -= _addresses(targets, without=attempts.faults)
        return attempts.faults

    async def _call_all(self, targets: Sequence[StopTarget], operation: str, attempts: Attempts) -> None:
        """Call an operation of addresses; those that are gone count as done."""
        for some in _parts(targets):
            requests = [jolokia.execute(self._address(_address_of(target)), operation) for target in some]
            answers = await self._agent.post(requests, seconds=LONG)
            for target, answer in zip(some, answers, strict=True):
                with attempts.of(target), suppress(NotFound):
                    answer.get()

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        present = [objects[name] for name in target.queues if name in objects]
        if not present:
            return True  # there is nothing to stop; the address may come again, with its queues
        said = present[0].get("blocked_by_management")
        # Versions that do not say it: by what was done since the broker was started.
        return bool(said) if said is not None else target.restore["address"] in self._blocked

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        return None  # a block changes no limit

    def clock_set(self, step: int) -> None:
        self._uptime.clock_set(step)
        self._looks = {producer: replace(look, at=look.at + step) for producer, look in self._looks.items()}

    async def close(self) -> None:
        await self._agent.close()


def _address_of(target: StopTarget) -> str:
    return str(target.restore["address"])


def _addresses(targets: Sequence[StopTarget], *, without: Faults) -> set[str]:
    return {_address_of(target) for target in targets if target.id not in without}


def _parts(all_: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield the parts that one POST takes."""
    rest = iter(all_)
    while some := list(islice(rest, MANY)):
        yield some


def _is_listed(name: ObjectName, queue: Attributes) -> bool:
    """Whether an object is a queue that this process has read: of one that is remembered only, no address is known."""
    return name.type == "Queue" and "address" in queue


def _queues_of(broker: str, queue: str) -> str:
    return f"{broker},component=addresses,address=*,subcomponent=queues,routing-type=*,queue={queue}"


def _found(answer: jolokia.Answer) -> Mapping[str, Any]:
    """Return what matches a pattern: an error says that nothing does."""
    if isinstance(answer.error, NotFound):
        return {}
    found: Mapping[str, Any] = answer.get()
    return found


def _canonical(mbean: str) -> str:
    """Return an MBean name with its properties in order, as descriptions are listed."""
    domain, _, _ = mbean.partition(":")
    pairs = (f"{key}={_value(key, value)}" for key, value in sorted(jolokia.properties_of(mbean).items()))
    return f"{domain}:{','.join(pairs)}"


def _value(key: str, value: str) -> str:
    """Artemis quotes the names that users give, and no others."""
    return value if key in ("component", "subcomponent") else jolokia.quote(value)


def _takes(described: Mapping[str, Any], operation: str, count: int) -> bool:
    """Return whether an operation takes this number of arguments. Overloaded ones are described by a list."""
    forms = (described.get("op") or {}).get(operation) or []
    forms = forms if isinstance(forms, list) else [forms]
    return any(len(form.get("args") or ()) == count for form in forms)
