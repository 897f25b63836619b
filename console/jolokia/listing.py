"""Answers to `list`: descriptions of types, at objects that have them.

Without `listCache` each type has one object, since each description is as long as a page. With it, as Jolokia's agents
from 2.1 on answer, each description is sent once and all objects refer to it by a key. hawtio requests that where it
can; older ones call an operation of hawtio's own MBean in the agent for the same answer, so there is one here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokers.admin import BrokerUnreachable
from brokers.input_checks import shortened
from brokers.model import ManagedType, ObjectName
from console.jolokia import names
from console.jolokia.descriptions import described
from console.jolokia.objects import DESCRIPTION, NAME, VisibleObjects, target_of
from console.jolokia.protocol import JolokiaRequest, Refusal
from console.jolokia.values import inner
from console.links.link import BrokerLink

#: Objects of one type of one broker, and of all: of more, one is listed. Trees are not for looking through thousands.
MOST_OF_TYPE, MOST_LISTED = 2_000, 20_000

_NO_INSTANCE = "javax.management.InstanceNotFoundException"
_REGISTRY = frozenset({"type=security", "name=RBACRegistry"})
_REGISTRY_DESCRIPTION = {
    "class": "io.hawt.jmx.RBACRegistry",
    "desc": "Lists all objects for hawtio.",
    "op": {"list": {"args": [], "ret": "java.util.Map", "desc": "All objects, and the description of each type once."}},
}


def is_registry(mbean: str) -> bool:
    """Return whether a name is that of hawtio's own MBean, whose only operation is `list`."""
    domain, _, properties = mbean.partition(":")
    return domain == "hawtio" and frozenset(properties.split(",")) == _REGISTRY


class Listing:
    def __init__(self, objects: VisibleObjects) -> None:
        self._objects = objects

    def answer(self, request: JolokiaRequest) -> Any:
        """Return all objects or one of each type, or what is at the path. Raises Refusal, AdminError."""
        if not request.path:
            return self.tree(request) if request.flag("listCache", False) else {names.DOMAIN: self._types(request)}
        domain, *further = request.path
        if further and is_registry(f"{domain}:{further[0]}"):
            return inner(_REGISTRY_DESCRIPTION, tuple(further[1:]))
        if domain not in (names.DOMAIN, "*"):
            raise Refusal(404, _NO_INSTANCE, f"there is no domain {shortened(domain)}: there is {names.DOMAIN}")
        if not further or further[0] == "*" or domain == "*":
            return inner({names.DOMAIN: self._types(request)}, request.path)
        target = target_of(f"{names.DOMAIN}:{further[0]}", request.kind)
        thing = self._objects.read(target)
        link = self._objects.link(target)
        return inner(described(self._objects.type_of(link, thing.name)), tuple(further[1:]))

    def tree(self, request: JolokiaRequest) -> dict[str, Any]:
        """Return all objects, each with the key of its description in `cache`."""
        cache: dict[str, Any] = {}
        found: dict[str, str] = {}

        def add(link: BrokerLink, declared: ManagedType) -> None:
            key = f"{declared.name}@{link.slug}"
            listed = self._objects.names(link, declared, min(MOST_OF_TYPE, MOST_LISTED - len(found)))
            shown = self._first(link, declared) if listed is None else listed
            self._objects.spend(NAME * len(shown) + (DESCRIPTION if shown else 0))
            if shown:
                cache[key] = described(declared)
            for name in shown:
                found[_properties(request, link, name)] = key

        self._each_type(add)
        return {"cache": cache, "domains": {names.DOMAIN: found}}

    def _types(self, request: JolokiaRequest) -> dict[str, Any]:
        """Return the description of each type of each broker, at its first object."""
        found: dict[str, Any] = {}

        def add(link: BrokerLink, declared: ManagedType) -> None:
            for name in self._first(link, declared):
                self._objects.spend(DESCRIPTION)
                found[_properties(request, link, name)] = described(declared)

        self._each_type(add)
        return found

    def _each_type(self, add: Callable[[BrokerLink, ManagedType], None]) -> None:
        for link in self._objects.links():
            try:
                for declared in self._objects.types(link).values():
                    add(link, declared)
            except BrokerUnreachable:
                continue  # a disconnected broker does not hide the others

    def _first(self, link: BrokerLink, declared: ManagedType) -> list[ObjectName]:
        name = self._objects.first(link, declared.name)
        return [] if name is None else [name]


def _properties(request: JolokiaRequest, link: BrokerLink, name: ObjectName) -> str:
    return names.properties(link.slug, name, canonical=request.flag("canonicalNaming", True))
