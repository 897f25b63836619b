"""Types of managed objects as Jolokia's `list` describes them. Pure."""

from __future__ import annotations

from typing import Any

from brokers.model import Attribute, ManagedType, Operation
from console.jolokia.values import JAVA_TYPES, positional


def described(managed_type: ManagedType) -> dict[str, Any]:
    """Return class, description, attributes and operations of a type."""
    return {
        "class": f"headgate.{managed_type.name}",
        "desc": managed_type.description,
        "attr": {attribute.name: _attribute(attribute) for attribute in managed_type.attributes},
        "op": {operation.name: _operation(operation) for operation in managed_type.operations},
    }


def _attribute(attribute: Attribute) -> dict[str, Any]:
    unit = f" ({attribute.unit})" if attribute.unit else ""
    return {
        "type": JAVA_TYPES[attribute.kind],
        "desc": f"{attribute.description}{unit}",
        "rw": attribute.writable,
        "r": True,
        "w": attribute.writable,
        "is": False,
    }


def _operation(operation: Operation) -> dict[str, Any]:
    arguments = [
        {"name": argument.name, "type": JAVA_TYPES[argument.kind], "desc": argument.description}
        for argument in positional(operation)
    ]
    desc = f"{operation.description} {operation.remark}".strip()
    return {"args": arguments, "ret": "java.util.Map" if operation.returns else "void", "desc": desc}
