"""The declared types as a broker has them, from what it says about itself. A broker never adds what this release does
not declare: unknown names are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from brokers.model import TYPES, Attribute, Kind, ManagedType, Operation


def with_capabilities(body: Mapping[str, Any]) -> dict[str, ManagedType]:
    """Return the types of a broker from its answer to GET-CAPABILITIES."""
    return {name: _type(TYPES[name], said) for name, said in body.items() if name in TYPES}


def _type(declared: ManagedType, said: Mapping[str, Any]) -> ManagedType:
    attributes, operations = said.get("attributes") or {}, said.get("operations") or {}
    here = replace(
        declared,
        attributes=tuple(_attribute(a, attributes[a.name]) for a in declared.attributes if a.name in attributes),
        operations=tuple(_operation(o, operations[o.name]) for o in declared.operations if o.name in operations),
        creatable=bool(said.get("creatable")),
        deletable=bool(said.get("deletable")),
        searched=tuple(name for name in declared.searched if name in attributes),
    )
    return declared if here == declared else here


def _attribute(declared: Attribute, said: Mapping[str, Any]) -> Attribute:
    creatable = bool(said.get("creatable"))
    return replace(
        declared,
        kind=Kind(said["kind"]) if said.get("kind") in set(Kind) else declared.kind,
        description=str(said.get("description") or declared.description),
        writable=bool(said.get("writable")),
        creatable=creatable,
        nullable=bool(said.get("nullable")),
        choices=tuple(each for each in declared.choices if each in said.get("choices", declared.choices)),
        required=declared.required and (creatable or bool(said.get("writable"))),
    )


def _operation(declared: Operation, said: Mapping[str, Any]) -> Operation:
    names = said.get("arguments") or ()
    return replace(
        declared,
        arguments=tuple(a for a in declared.arguments if a.name in names),
        producer_effect=str(said.get("producer_effect") or ""),
        remark=str(said.get("remark") or ""),
    )


def restricted(declared: ManagedType, attributes: Sequence[str], operations: Mapping[str, Any]) -> ManagedType:
    """Return a type without the attributes and operations that are not named: for a broker that has no
    GET-CAPABILITIES."""
    attributes_here = tuple(a for a in declared.attributes if a.name in attributes)
    operations_here = tuple(o for o in declared.operations if o.name in operations)
    if attributes_here == declared.attributes and operations_here == declared.operations:
        return declared
    return replace(declared, attributes=attributes_here, operations=operations_here)
