"""The managed objects of a broker: found by name, queried, and shown as values. Nothing here changes anything.

The errors are those of `brokers.admin`. Which types and attributes there are stands in `brokers/model/`, and where
their values come from in `attributes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from brokers.admin import InvalidValue, ManagedObject, NotFound, Page
from brokers.engine.broker import Broker
from brokers.engine.management.attributes import GETTERS
from brokers.model import TYPES, Kind, ManagedType, ObjectName, object_name

MAX_PAGE = 1000


class ManagedObjects:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def read(self, name: ObjectName) -> ManagedObject:
        return self.shown(name.type, self.find(name))

    def query(
        self,
        type_name: str,
        *,
        where: Mapping[str, Any] | None = None,
        search: str = "",
        sort: str = "",
        offset: int = 0,
        count: int = 100,
        visible: Callable[[ObjectName], bool] | None = None,
    ) -> Page:
        """`visible`: leave out the objects that whoever asks may not see."""
        declared = declared_type(type_name)
        _check_query(where, search, sort, offset, count)
        getters = GETTERS[type_name]
        objects = self._all(type_name)
        if visible is not None:
            objects = [o for o in objects if visible(name_of(o))]
        for attribute, wanted in (where or {}).items():
            objects = self._filter(objects, declared, attribute, wanted)
        if search:
            also = [getters[attribute] for attribute in declared.searched]
            objects = [o for o in objects if search.casefold() in self._searched(o, also)]
        found = sorted(objects, key=lambda o: _natural(name_of(o).keys))
        for attribute in reversed([a.strip() for a in sort.split(",") if a.strip()]):
            found.sort(key=self._key(declared, attribute.lstrip("-")), reverse=attribute.startswith("-"))
        items = tuple(self.shown(type_name, o, getters) for o in found[offset : offset + count])
        return Page(items, len(found), offset)

    def _filter(self, objects: Iterable[Any], declared: ManagedType, attribute: str, wanted: Any) -> list[Any]:
        found = declared.attribute(attribute)
        if found is None:
            raise InvalidValue({attribute: f"{attribute} is not an attribute of {declared.name}"})
        getter = GETTERS[declared.name][attribute]
        values = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        if found.kind is Kind.NAME:
            return [o for o in objects if _is_named(getter(self.broker, o), values)]
        return [o for o in objects if getter(self.broker, o) in values]

    def _searched(self, thing: Any, also: Iterable[Any]) -> str:
        """What a search looks through."""
        words = [value for _, value in name_of(thing).keys] + [str(get(self.broker, thing)) for get in also]
        return "/".join(words).casefold()

    def _key(self, declared: ManagedType, attribute: str) -> Callable[[Any], Any]:
        if declared.attribute(attribute) is None:
            raise InvalidValue({"sort": f"{attribute} is not an attribute of {declared.name}"})
        getter, broker = GETTERS[declared.name][attribute], self.broker

        def key(thing: Any) -> Any:
            value = getter(broker, thing)
            plain = value if isinstance(value, (int, float)) else str(value).casefold()
            return (value is not None, isinstance(plain, str), plain) if value is not None else (False, False, 0)

        return key

    def _all(self, type_name: str) -> list[Any]:
        broker, hosts = self.broker, self.broker.virtualhosts.values()
        every: Mapping[str, Callable[[], Iterable[Any]]] = {
            "Broker": lambda: [broker],
            "VirtualHost": lambda: hosts,
            "Queue": broker.queues,
            "Policy": lambda: [p for host in hosts for p in host.policies.by_pattern.values()],
            "Exchange": lambda: [e for host in hosts for e in host.exchanges.values()],
            "Subscription": broker.subscriptions.of.values,
            "SlowConsumerPolicy": lambda: [p for host in hosts for p in host.slow_consumer_policies.values()],
            "Connection": broker.connections.values,
            "Producer": broker.producers.values,
            "Consumer": broker.consumers.values,
            "User": broker.accounts.users.values,
        }
        return list(every[type_name]())

    def find(self, name: ObjectName) -> Any:
        broker = self.broker
        try:
            name = object_name(name.type, **dict(name.keys))
        except ValueError as error:
            raise NotFound(str(error)) from None
        if name.type == "Broker":
            return broker
        if name.type == "VirtualHost":
            return broker.virtualhost(name["name"])
        if name.type == "Queue":
            return broker.queue(name["virtualhost"], name["name"])
        if name.type == "Policy":
            return broker.enforcement.policy(name["virtualhost"], name["pattern"])
        if name.type == "Exchange":
            return broker.routing.exchange(name["virtualhost"], name["name"])
        if name.type == "User":
            return broker.accounts.user(name["name"])
        if name.type == "Subscription":
            return broker.subscriptions.subscription(name["virtualhost"], name["name"])
        if name.type == "SlowConsumerPolicy":
            return broker.slow_consumers.policy(name["virtualhost"], name["name"])
        things: Mapping[str, Mapping[int, Any]] = {
            "Connection": broker.connections,
            "Producer": broker.producers,
            "Consumer": broker.consumers,
        }
        number = name.get("id")
        thing = things[name.type].get(int(number)) if number.isdecimal() and len(number) < 20 else None
        if thing is None or name_of(thing) != name:
            raise NotFound(f"there is no {name.type.lower()} {name}")
        return thing

    def shown(self, type_name: str, thing: Any, getters: Mapping[str, Any] | None = None) -> ManagedObject:
        broker = self.broker
        attributes = {a: get(broker, thing) for a, get in (getters or GETTERS[type_name]).items()}
        return ManagedObject(name_of(thing), attributes["version"], attributes)


def name_of(thing: Any) -> ObjectName:
    name = getattr(thing, "object_name", None) or thing.name
    assert isinstance(name, ObjectName)
    return name


def _is_named(value: Any, wanted: Iterable[Any]) -> bool:
    """`value` is the name of an object: it may be asked for whole, or by its last key, such as a queue's name."""
    if value is None:
        return None in wanted
    return value in wanted or ObjectName.parse(value).keys[-1][1] in wanted


@lru_cache(maxsize=20_000)  # a page of thousands of queues is cut from all of them, in order
def _natural(keys: tuple[tuple[str, str], ...]) -> tuple[tuple[int, str], ...]:
    """Names in the order people expect: numbers by their value."""
    return tuple((int(v), "") if v.isdecimal() and len(v) < 20 else (-1, v) for _, v in keys)


def declared_type(name: str) -> ManagedType:
    try:
        return TYPES[name]
    except KeyError:
        raise NotFound(f"{name!r} is not a type of managed objects: there are {', '.join(TYPES)}") from None


def _check_query(where: Any, search: Any, sort: Any, offset: Any, count: Any) -> None:
    """What comes from a wire may be anything."""
    errors = {}
    if where is not None and not isinstance(where, Mapping):
        errors["where"] = f"where is {where!r}: it must be a map of attributes to values"
    for field, text in (("search", search), ("sort", sort)):
        if not isinstance(text, str):
            errors[field] = f"{field} is {text!r}: it must be text"
    numbers = all(isinstance(n, int) and not isinstance(n, bool) for n in (offset, count))
    if not numbers or offset < 0 or not 0 <= count <= MAX_PAGE:
        errors["count"] = f"offset {offset!r} and count {count!r}: offset from 0, count from 0 to {MAX_PAGE}"
    if errors:
        raise InvalidValue(errors)
