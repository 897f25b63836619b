"""Where the limits of Artemis's queues come from, and which they would have after changes of address settings. Pure.

Artemis says only the merged settings of a name. What a match sets is the difference to what another name in its place
gets (`artemis_reading.Settings`). So the origin of an inherited value is one of the matches that are shown as policies
and have this value, and a change of a match reaches the addresses below it that have the match's present value: those
with another one override it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokers.adapters.artemis_reading import ALL, Settings, changed, overfull
from brokers.adapters.observation import Attributes
from brokers.admin import InvalidValue
from brokers.engine.management.policy_changes import PolicyChange
from brokers.model import ObjectName

_POLICY = "addressFullMessagePolicy"
#: Policy field -> Artemis's name of the setting.
_SETTINGS = {
    "capacity_bytes": "maxSizeBytes",
    "capacity_messages": "maxSizeMessages",
    "mechanism": _POLICY,
    "spool": _POLICY,
}

Objects = Mapping[ObjectName, Attributes]


def origins(address: str, settings: Mapping[str, Settings]) -> dict[str, str | None]:
    """Return the origins of an address's limits. `settings`: by address and match, those that are known."""
    return {field: _origin(key, address, settings) for field, key in _SETTINGS.items()}


def _origin(key: str, address: str, settings: Mapping[str, Settings]) -> str | None:
    here = settings[address]
    if key in here.own:
        return "own"
    if key not in here.merged:
        return "built-in"
    for match in _matches_of(address):
        if match in settings and settings[match].own.get(key) == here.merged[key]:
            return f"pattern {match}"
    return None


def _matches_of(address: str) -> list[str]:
    """Return the matches that can be policies and cover an address, the most specific first."""
    return [f"{address.partition('.')[0]}.{ALL}", ALL]


def limits_after(
    changes: Sequence[PolicyChange], settings: Mapping[str, Settings], objects: Objects
) -> dict[ObjectName, Attributes]:
    """Return the queues that the changes apply to, with their limits after them. `settings`: by address and match."""
    planned = dict(settings)
    reached: set[str] = set()
    queues = {name: queue for name, queue in objects.items() if name.type == "Queue"}
    addresses = {str(queue["address"]) for queue in queues.values()} & settings.keys()
    for change in changes:
        name = change.name
        match = str(objects[name]["address"]) if name.type == "Queue" else name["pattern"]
        if match not in planned:
            raise InvalidValue({"": f"the settings of {match} are not known"})
        below = {match} & addresses if name.type == "Queue" else {a for a in addresses if match in _matches_of(a)}
        before = planned[match]
        own = changed(before, change.attributes)
        planned[match] = Settings({**before.inherited, **own}, before.inherited)
        for address in below - {match}:
            planned[address] = _inheriting(planned[address], before, planned[match])
        reached |= below
    return {n: _limits(n, q, planned) for n, q in queues.items() if str(q["address"]) in reached}


def _inheriting(address: Settings, before: Settings, after: Settings) -> Settings:
    """Return the settings of an address of which a match has changed."""
    merged, inherited = dict(address.merged), dict(address.inherited)
    for key in {*before.merged, *after.merged}:
        for values in (merged, inherited):
            if values.get(key) == before.merged.get(key):
                values.pop(key, None)
                if key in after.merged:
                    values[key] = after.merged[key]
    return Settings(merged, inherited)


def _limits(name: ObjectName, queue: Attributes, settings: Mapping[str, Settings]) -> dict[str, Any]:
    address = str(queue["address"])
    after = settings[address]
    depths = {"AddressSize": queue.get("address_bytes"), "MessageCount": queue.get("address_messages")}
    depth = {"depth_bytes": queue.get("address_bytes")} if after.limit("bytes") else {}
    return {
        **after.own_limits(),
        **after.levels(),
        **depth,
        "overfull": overfull(depths, after),
        "effective_fields": after.effective,
        "origins": origins(address, settings),
    }
