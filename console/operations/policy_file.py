"""Parse and format policy files: all policies of a broker in one YAML file, for version control. Pure.

```yaml
version: 1
broker: {flow_resume_messages: 80%}
virtualhosts:
  default:
    defaults: {capacity_messages: 100000}
    exchanges:
      stocks: {overflow: ring}
    patterns:
      orders.>: {priority: 1, capacity_messages: 5000}
    queues:
      orders.eu: {capacity_bytes: 64000000}
```

The order is stable: two exports of the same policies are the same text. Names and values are read as strings and
validated by the declared fields, without YAML's implicit types: `off` is "off", and a queue can be called `12`. All
faults of a file are reported together, each with its path and line. What can be set, and to what, is in the types of
the broker that the file is for: most kinds of brokers have fewer types and fields than Headgate's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from brokers.model import TYPES, ManagedType, ObjectName, object_name
from brokers.model.patterns import pattern_fault
from console.intake.yaml_maps import VERSION, YamlMaps, is_null
from console.operations.policies import FIELDS, SCOPES, fields_of, set_fields

#: Policy fields and priority that each object sets.
Settings = dict[ObjectName, dict[str, Any]]

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SECTIONS = {"exchanges": ("Exchange", "name"), "patterns": ("Policy", "pattern"), "queues": ("Queue", "name")}
_BROKER = object_name("Broker")


def in_order(name: ObjectName) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Return a sort key: the least specific scope first, then by name."""
    return SCOPES.index(name.type), name.keys


# -- writing --------------------------------------------------------------------------------------------------------


def written(settings: Mapping[ObjectName, Mapping[str, Any]], types: Mapping[str, ManagedType] = TYPES) -> str:
    """Return the text of a file, with what can be set on a broker with these types. Objects without settings are
    omitted, except patterns, whose existence counts."""
    hosts: dict[str, dict[str, Any]] = {}
    document: dict[str, Any] = {"version": int(VERSION)}
    fields = {name: settings_of(name, values, types) for name, values in settings.items()}
    for name in sorted((n for n, values in fields.items() if values or n.type == "Policy"), key=in_order):
        if name.type == "Broker":
            document["broker"] = fields[name]
        elif name.type == "VirtualHost":
            hosts.setdefault(name["name"], {})["defaults"] = fields[name]
        else:
            section, key = next((s, key) for s, (type_name, key) in _SECTIONS.items() if type_name == name.type)
            hosts.setdefault(name["virtualhost"], {}).setdefault(section, {})[name[key]] = fields[name]
    if hosts:
        document["virtualhosts"] = dict(sorted(hosts.items()))
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text


def settable_names(types: Mapping[str, ManagedType], type_name: str) -> tuple[str, ...]:
    """Return the names that a file can set of an object of a type: policy fields, and the priority of a pattern."""
    return tuple(field.name for field in fields_of(types, type_name, ("priority",)))


def settings_of(name: ObjectName, attributes: Mapping[str, Any], types: Mapping[str, ManagedType]) -> dict[str, Any]:
    """Return the policy fields that an object sets and that can be changed, and the priority unless it is 0."""
    writable = settable_names(types, name.type)
    return {field: value for field, value in set_fields(attributes).items() if field in writable}


# -- reading --------------------------------------------------------------------------------------------------------


def read(text: str, types: Mapping[str, ManagedType] = TYPES) -> Settings:
    """Return the settings of a file for a broker with these types. Raises InvalidValue with all faults, by their paths
    in the file."""
    reading = _Reading(types)
    reading.file.read(text, reading.document)
    return reading.settings


class _Reading:
    """One pass over the nodes of a file that collects settings and faults."""

    def __init__(self, types: Mapping[str, ManagedType]) -> None:
        self._types = types
        self._checks_patterns = _pattern(types) == _pattern(TYPES)
        self.settings: Settings = {}
        self.file = YamlMaps()

    def document(self, root: Any) -> None:
        for key, node, path in self.file.sections(root):
            match key:
                case "broker":
                    self.object(_BROKER, node, path)
                case "virtualhosts":
                    for name, host, at in self.file.entries(node, path):
                        self.host(name, host, at)
                case _:
                    self.file.fault(path, node, f"unknown key {key}: expected version, broker or virtualhosts")

    def host(self, host: str, node: Any, path: str) -> None:
        for key, section, at in self.file.entries(node, path):
            if key == "defaults":
                self.object(object_name("VirtualHost", name=host), section, at)
            elif key in _SECTIONS:
                type_name, name_key = _SECTIONS[key]
                for name, each, where in self.file.entries(section, at):
                    if key == "patterns" and self._checks_patterns and (problem := pattern_fault(name)):
                        self.file.fault(where, each, problem)
                    else:
                        self.object(object_name(type_name, virtualhost=host, **{name_key: name}), each, where)
            else:
                self.file.fault(at, section, f"unknown key {key}: expected defaults, {', '.join(_SECTIONS)}")

    def object(self, name: ObjectName, node: Any, path: str) -> None:
        declared = self._types.get(name.type)
        if declared is None:
            self.file.fault(path, node, f"this broker has no objects of type {name.type}")
            return
        writable = settable_names(self._types, name.type)
        values: dict[str, Any] = {}
        for field, value, at in self.file.entries(node, path):
            attribute = declared.attribute(field)
            if field not in writable or attribute is None:
                self.file.fault(at, value, _unknown(name.type, field, writable))
            elif not isinstance(value, yaml.ScalarNode):
                self.file.fault(at, value, f"{field} must be a single value")
            elif not is_null(value):
                try:
                    values[field] = attribute.check(value.value)
                except ValueError as error:
                    self.file.fault(at, value, str(error))
        self.settings[name] = values


def _pattern(types: Mapping[str, ManagedType]) -> str:
    """Return how patterns are written. A broker that describes them otherwise has a syntax of its own, and checks them
    when they are created."""
    attribute = types["Policy"].attribute("pattern") if "Policy" in types else None
    return attribute.description if attribute else ""


def _unknown(type_name: str, field: str, writable: Sequence[str]) -> str:
    expected = f"expected one of {', '.join(writable)}" if writable else "nothing can be set there"
    known = field in FIELDS or (field == "priority" and type_name == "Policy")
    if known:
        return f"{field} cannot be set on objects of type {type_name} of this broker; {expected}"
    return f"{field} is not a policy field; {expected}"
