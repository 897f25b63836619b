"""Artemis's answers as observations, and changed limits as address settings: pure functions of JSON.

Flow control in Artemis belongs to addresses: the queues of one share its memory, its limit and its block. So a queue
here has the limits of its address; its depth in bytes is the memory of the address, which is what the limit counts, or
what it stores if there is no limit.

Settings are merged by Artemis from every match, from `#` to the address's own name, and it only says the result. What
a match itself sets is the difference from what another name in its place gets (`STRANGER`). Its settings are replaced
as a whole when they are written.

Artemis does not say which producers are blocked. One counts as blocked if its address takes no messages and it has
sent none since the last poll: the reason `inferred: …` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from brokers.adapters.jolokia import properties_of
from brokers.adapters.observation import Attributes
from brokers.model import ObjectName, object_name, queue_named
from brokers.model.reasons import Shortage

Json = Mapping[str, Any]

#: What Artemis can be short of.
DISK, MEMORY = Shortage("disk"), Shortage("memory")

#: Artemis has no virtual hosts.
HOST = "default"

#: The match of all addresses.
ALL = "#"

#: The last word of a name that no address has.
STRANGER = "headgate-no-such-address"

INFERRED = "inferred: it has sent no message since the last poll"

#: Artemis's page size if none is set, bytes. No limit in bytes may be below the page size.
PAGE_SIZE = 10 << 20

#: What addresses of the broker itself begin with.
_INTERNAL = ("activemq.management", "activemq.notifications", "$.artemis.", "$sys.")

#: Policies of a full address that make producers wait or refuse them.
_MECHANISMS = {"BLOCK": "block", "FAIL": "reject"}

#: Two looks at a producer's counter that are closer say nothing about its progress, ms.
_SHORTEST_LOOK = 900

ADDRESS_ATTRIBUTES = ("AddressSize", "MessageCount", "BlockedViaManagement", "Internal")
QUEUE_ATTRIBUTES = (
    "MessageCount", "PersistentSize", "DeliveringCount", "ScheduledCount", "ConsumerCount", "MessagesAdded",
    "MessagesAcknowledged", "MessagesExpired", "Durable", "InternalQueue",
)  # fmt: skip
BROKER_ATTRIBUTES = (
    "Version", "Active", "UptimeMillis", "GlobalMaxSize", "AddressMemoryUsage", "DiskStoreUsage", "MaxDiskUsage",
    "ConnectionCount",
)  # fmt: skip


def queue_name(name: str) -> ObjectName:
    return queue_named(HOST, name)


def policy_name(match: str) -> ObjectName:
    return object_name("Policy", virtualhost=HOST, pattern=match)


# -- addresses and queues -----------------------------------------------------------------------------------------


def addresses_of(read: Json) -> dict[str, Json]:
    """Return the addresses for clients by name. `read`: MBean name -> attributes."""
    found = {properties_of(mbean)["address"]: attributes for mbean, attributes in read.items()}
    return {
        name: attributes
        for name, attributes in found.items()
        if not attributes.get("Internal") and not name.startswith(_INTERNAL)
    }


@dataclass(frozen=True, slots=True)
class AddressQueue:
    """A queue as read: its name, its address's, and its attributes in Artemis's words."""

    name: str
    address: str
    read: Json


def listed(read: Json) -> list[AddressQueue]:
    """Return the queues for clients. `read`: MBean name -> attributes."""
    found = []
    for mbean, attributes in read.items():
        properties = properties_of(mbean)
        if not attributes.get("InternalQueue") and not properties["address"].startswith(_INTERNAL):
            found.append(AddressQueue(properties["queue"], properties["address"], attributes))
    return found


def queues_of(
    queues: Iterable[AddressQueue], addresses: Mapping[str, Json], settings: Mapping[str, Settings]
) -> dict[ObjectName, Attributes]:
    """Return the queues. `addresses`: as read, by name; `settings`: by address, of those that are known."""
    return {
        queue_name(queue.name): _queue(queue, addresses.get(queue.address, {}), settings.get(queue.address))
        for queue in queues
    }


def _queue(queue: AddressQueue, address: Json, settings: Settings | None) -> Attributes:
    read = queue.read
    values: dict[str, Any] = {
        "virtualhost": HOST,
        "name": queue.name,
        "address": queue.address,
        "durable": read.get("Durable"),
        "depth_messages": read.get("MessageCount"),
        "depth_bytes": read.get("PersistentSize"),
        "unacknowledged_messages": read.get("DeliveringCount"),
        "delayed_messages": read.get("ScheduledCount"),
        "consumers": read.get("ConsumerCount"),
        "enqueued_messages": read.get("MessagesAdded"),
        "dequeued_messages": read.get("MessagesAcknowledged"),
        "expired_messages": read.get("MessagesExpired"),
        "blocked_by_management": address.get("BlockedViaManagement"),
        "address_bytes": address.get("AddressSize"),
        "address_messages": address.get("MessageCount"),
    }
    if settings is not None:
        values |= settings.of_queue
        if settings.limit("bytes"):
            values["depth_bytes"] = address.get("AddressSize")
        values["overfull"] = overfull(address, settings)
    return values


def overfull(address: Json, settings: Settings) -> bool | None:
    """Return whether an address takes no messages because of its own limits; None: unknown."""
    if settings.mechanism is None:
        return False
    depths = {"bytes": address.get("AddressSize"), "messages": address.get("MessageCount")}
    full = [_at_limit(depth, limit) for unit, depth in depths.items() if (limit := settings.limit(unit))]
    return True if True in full else None if None in full else False


def _at_limit(depth: int | None, limit: int) -> bool | None:
    return None if depth is None else depth >= limit


# -- settings -----------------------------------------------------------------------------------------------------

#: Artemis's name of a limit -> Headgate's unit.
_LIMITS = {"maxSizeBytes": "bytes", "maxSizeMessages": "messages"}
_KEYS = {unit: key for key, unit in _LIMITS.items()}


@dataclass(frozen=True)
class Settings:
    """The settings of a match. `merged`: those that apply; `inherited`: those that would apply without its own."""

    merged: Json
    inherited: Json

    @property
    def own(self) -> dict[str, Any]:
        """What the match itself sets. A value equal to the inherited one makes no difference, and is not there."""
        return {key: value for key, value in self.merged.items() if self.inherited.get(key) != value}

    @property
    def mechanism(self) -> str | None:
        """How the full address throttles its producers; None: it does not."""
        return _MECHANISMS.get(str(self.merged.get("addressFullMessagePolicy")))

    @property
    def effective(self) -> dict[str, str | None]:
        """The fields of which `own_limits` has only what the match sets, as they apply."""
        policy = str(self.merged.get("addressFullMessagePolicy") or "PAGE")
        return {"mechanism": self.mechanism, "spool": "disk" if policy == "PAGE" else "memory"}

    @cached_property
    def of_queue(self) -> Mapping[str, Any]:
        """The attributes of the queues of an address with these settings, which are read less often than queues."""
        throttles = {"throttles": self.mechanism is not None}
        return {**self.own_limits(), **self.levels(), "effective_fields": self.effective, **throttles}

    def limit(self, unit: str) -> int:
        """Return the effective limit in bytes or messages, 0 for none."""
        return _limit(self.merged.get(_KEYS[unit])) or 0

    def levels(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for unit in ("bytes", "messages"):
            found[f"effective_capacity_{unit}"] = self.limit(unit)
            found[f"effective_stop_{unit}"] = self.limit(unit) if self.mechanism else 0
            found[f"effective_resume_{unit}"] = self.limit(unit) if self.mechanism else 0
        return found

    def own_limits(self) -> dict[str, Any]:
        own = self.own
        policy = own.get("addressFullMessagePolicy")
        return {
            "capacity_bytes": _limit(own.get("maxSizeBytes")),
            "capacity_messages": _limit(own.get("maxSizeMessages")),
            "mechanism": _MECHANISMS.get(str(policy)),
            "spool": None if policy is None else "disk" if policy == "PAGE" else "memory",
        }


def _limit(value: Any) -> int | None:
    """Return a limit in Headgate's words: 0 is none."""
    return None if value is None else max(0, int(value))


def stranger_to(match: str) -> str:
    """Return a name that gets what `match` inherits; "" for the match of all addresses, which inherits nothing."""
    if match == ALL:
        return ""
    if match.endswith(ALL):
        return ALL
    before, dot, _ = match.rpartition(".")
    return before + dot + STRANGER


def matches_of(addresses: Iterable[str]) -> list[str]:
    """Return the matches that are shown as policies, since Artemis does not list those that it has: all addresses, and
    those with the same first word if there are several."""
    counts: dict[str, int] = {}
    for address in addresses:
        first, dot, _ = address.partition(".")
        if dot and first:
            counts[first] = counts.get(first, 0) + 1
    return [ALL, *sorted(f"{first}.{ALL}" for first, count in counts.items() if count > 1)]


def policy_of(match: str, settings: Settings) -> Attributes:
    return {"virtualhost": HOST, "pattern": match, **settings.own_limits()}


def changed(settings: Settings, attributes: Attributes) -> dict[str, Any]:
    """Return all settings that a match itself has after a change; empty if none is left. `attributes`: to set, None for
    what is no longer set here, 0 for no limit."""
    own, before = settings.own, settings.own
    for unit, key in _KEYS.items():
        if (name := f"capacity_{unit}") in attributes:
            own.pop(key, None)
            if attributes[name] is not None:
                own[key] = attributes[name] or -1
    _change_policy(own, settings, attributes)
    most = own.get("maxSizeBytes", -1)
    if most > 0:
        # Artemis checks these settings alone, with its default page size if they have none.
        own["pageSizeBytes"] = min(settings.merged.get("pageSizeBytes", PAGE_SIZE), most)
    elif before.get("pageSizeBytes") == before.get("maxSizeBytes"):
        own.pop("pageSizeBytes", None)  # it was made smaller for the limit that is gone
    return own


def _change_policy(own: dict[str, Any], settings: Settings, attributes: Attributes) -> None:
    key = "addressFullMessagePolicy"
    wanted = {name: attributes[name] for name in ("mechanism", "spool") if name in attributes}
    if wanted.get("mechanism"):
        own[key] = "BLOCK" if wanted["mechanism"] == "block" else "FAIL"
    elif wanted.get("spool") == "disk":
        own[key] = "PAGE"
    elif wanted.get("spool") == "memory":
        if settings.mechanism is None:
            own[key] = "BLOCK"
    elif wanted:
        own.pop(key, None)


# -- clients ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """A producer's counter as last compared. `at`: ms since the epoch. `moved`: whether it had grown since the look
    before; None: there was none."""

    at: int
    sent: int
    moved: bool | None = None


def producer_id(said: Json) -> str:
    """Return an id that no producer has again after a restart of the broker. Older versions give none, but a link."""
    return f"{said.get('session')}:{said.get('id') or said.get('name')}"


def _remote(said: Json) -> str:
    """Return the remote address, which older versions begin with a slash."""
    return str(said.get("remoteAddress") or "").removeprefix("/")


def looks_at(producers: Iterable[Json], before: Mapping[str, Look], now: int) -> dict[str, Look]:
    """Compare the producers' counters with the last look. `now`: ms since the epoch."""
    found: dict[str, Look] = {}
    for said in producers:
        id_, sent = producer_id(said), said.get("msgSent")
        if sent is None:
            continue
        last = before.get(id_)
        if last is None:
            found[id_] = Look(now, int(sent))
        elif int(sent) != last.sent:
            found[id_] = Look(now, int(sent), True)
        else:
            found[id_] = Look(now, last.sent, False) if now - last.at >= _SHORTEST_LOOK else last
    return found


@dataclass(frozen=True, slots=True)
class Flow:
    """What holds producers now. `reasons`: of each address that takes no messages. `everywhere`: for all addresses."""

    reasons: Mapping[str, Sequence[str]]
    everywhere: Sequence[str] = ()


def flow_of(queues: Mapping[ObjectName, Attributes], shortages: Collection[str]) -> Flow:
    """Return what holds producers. A full disk holds all; full memory holds those of addresses that throttle."""
    reasons: dict[str, list[str]] = {}
    for name, queue in queues.items():
        found = reasons.setdefault(queue["address"], [])
        if queue.get("blocked_by_management"):
            found.append(f"operator-stop:address {queue['address']}")
        if queue.get("overfull"):
            found.append(f"queue-overfull:{name['name']}")
        if str(MEMORY) in shortages and queue.get("throttles"):
            found.append(str(MEMORY))
    unique = {address: list(dict.fromkeys(found)) for address, found in reasons.items() if found}
    return Flow(unique, [str(DISK)] if str(DISK) in shortages else [])


def producers_of(
    producers: Iterable[Json], looks: Mapping[str, Look], flow: Flow, queues: Mapping[ObjectName, Attributes],
    connections: Mapping[str, str],
) -> dict[ObjectName, Attributes]:  # fmt: skip
    """Return the producers for clients. `connections`: remote address -> id."""
    by_address: dict[str, list[ObjectName]] = {}
    for name, queue in queues.items():
        by_address.setdefault(queue["address"], []).append(name)
    found: dict[ObjectName, Attributes] = {}
    for said in producers:
        address = str(said.get("address") or "").rpartition("::")[0] or str(said.get("address") or "")
        if address.startswith(_INTERNAL):
            continue
        name = object_name("Producer", virtualhost=HOST, id=producer_id(said))
        connection = connections.get(_remote(said))
        at = by_address.get(address, [])
        user = said.get("validatedUser") or said.get("user") or "anonymous"
        found[name] = {
            "virtualhost": HOST,
            "id": name["id"],
            "address": address,
            "queue": str(at[0]) if len(at) == 1 else None,
            "connection": str(connection_name(connection)) if connection is not None else None,
            "link": said.get("name") or "",
            "client": f"{user}@{_remote(said)}" + (f" ({said['clientID']})" if said.get("clientID") else ""),
            "messages": said.get("msgSent"),
            "bytes": said.get("msgSizeSent"),
            **_blocked(looks.get(name["id"]), [*flow.reasons.get(address, ()), *flow.everywhere]),
        }
    return found


def _blocked(look: Look | None, reasons: list[str]) -> Attributes:
    if not reasons:
        return {"blocked": False, "reasons": [], "release": ""}
    if look is None or look.moved is None:
        return {"blocked": None, "reasons": [], "release": ""}
    if look.moved:
        return {"blocked": False, "reasons": [], "release": ""}
    return {"blocked": True, "reasons": [*reasons, INFERRED], "release": _release(reasons[0])}


def _release(reason: str) -> str:
    if reason.startswith("operator-stop:"):
        return "Its address must be started."
    if (shortage := Shortage.parse(reason)) is not None:
        return f"The broker's {shortage.resource} must be below its limit."
    return "Its address must fall below its limit."


def count_producers(
    queues: Mapping[ObjectName, Attributes], producers: Mapping[ObjectName, Attributes]
) -> dict[ObjectName, Attributes]:
    """Return the queues with the producers of their addresses; how many are blocked is unknown if it is of one."""
    states: dict[str, list[bool | None]] = {}
    for producer in producers.values():
        states.setdefault(producer["address"], []).append(producer["blocked"])
    found: dict[ObjectName, Attributes] = {}
    for name, queue in queues.items():
        blocked = states.get(queue["address"], [])
        known = None if None in blocked else blocked.count(True)
        found[name] = {**queue, "producers": len(blocked), "blocked_producers": known}
    return found


def connection_name(id_: str) -> ObjectName:
    return object_name("Connection", virtualhost=HOST, id=id_)


def connections_of(connections: Iterable[Json]) -> dict[ObjectName, Attributes]:
    return {
        connection_name(str(said["connectionID"])): {
            "virtualhost": HOST,
            "id": str(said["connectionID"]),
            "remote_address": _remote(said),
            "container_id": said.get("clientID") or "",
            "user": said.get("users") or "anonymous",
        }
        for said in connections
    }


# -- the broker ---------------------------------------------------------------------------------------------------


def shortages_of(read: Json) -> list[str]:
    """Return what the broker is short of, for all addresses."""
    found = []
    most, used = read.get("MaxDiskUsage"), read.get("DiskStoreUsage")
    if isinstance(most, int) and most > 0 and used is not None and 100 * used >= most:
        found.append(str(DISK))
    limit, memory = read.get("GlobalMaxSize"), read.get("AddressMemoryUsage")
    if isinstance(limit, int) and limit > 0 and memory is not None and memory >= limit:
        found.append(str(MEMORY))
    return found


def broker_of(read: Json, started: int) -> Attributes:
    """Return the broker. `started`: ms since the epoch."""
    return {
        "product": "Apache Artemis",
        "product_version": read.get("Version"),
        "started": started,
        "connections": read.get("ConnectionCount"),
        "memory_limit_bytes": _limit(read.get("GlobalMaxSize")),
        "memory_used_bytes": read.get("AddressMemoryUsage"),
        "shortages": shortages_of(read),
    }
