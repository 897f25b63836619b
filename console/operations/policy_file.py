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

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from brokers.admin import InvalidValue
from brokers.model import TYPES, ManagedType, ObjectName, object_name
from brokers.model.patterns import pattern_fault
from console.intake.yaml_text import compose
from console.operations.policies import FIELDS, SCOPES, set_fields, writable_fields

VERSION = "1"
#: Policy fields and priority that each object sets.
Settings = dict[ObjectName, dict[str, Any]]

#: Faults that are reported together.
_NAMED = 100
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


def settings_of(name: ObjectName, attributes: Mapping[str, Any], types: Mapping[str, ManagedType]) -> dict[str, Any]:
    """Return the policy fields that an object sets and that can be changed, and the priority unless it is 0."""
    writable = writable_fields(types, name.type)
    return {field: value for field, value in set_fields(attributes).items() if field in writable}


# -- reading --------------------------------------------------------------------------------------------------------


def read(text: str, types: Mapping[str, ManagedType] = TYPES) -> Settings:
    """Return the settings of a file for a broker with these types. Raises InvalidValue with all faults, by their paths
    in the file."""
    root = compose(text)
    reading = _Reading(types)
    try:
        reading.document(root)
    except _EnoughError:
        reading.wrong["detail"] = f"the file has more faults; these are the first {_NAMED}"
    if reading.wrong:
        raise InvalidValue(reading.wrong)
    return reading.settings


class _EnoughError(Exception):
    """The limit of reported faults is reached."""


class _Reading:
    """One pass over the nodes of a file that collects settings and faults."""

    def __init__(self, types: Mapping[str, ManagedType]) -> None:
        self._types = types
        self._checks_patterns = _pattern(types) == _pattern(TYPES)
        self.settings: Settings = {}
        self.wrong: dict[str, str] = {}

    def fault(self, path: str, node: Any, sentence: str) -> None:
        self.wrong.setdefault(path or "yaml", f"line {node.start_mark.line + 1}: {sentence}")
        if len(self.wrong) >= _NAMED:
            raise _EnoughError

    def document(self, root: Any) -> None:
        if root is None:
            self.wrong["yaml"] = "the file is empty: it must contain at least version: 1"
            return
        keys = set()
        for key, node, path in self.entries(root, ""):
            keys.add(key)
            match key:
                case "version":
                    if not isinstance(node, yaml.ScalarNode) or node.value != VERSION:
                        self.fault(path, node, f"version must be {VERSION}")
                case "broker":
                    self.object(_BROKER, node, path)
                case "virtualhosts":
                    for name, host, at in self.entries(node, path):
                        self.host(name, host, at)
                case _:
                    self.fault(path, node, f"unknown key {key}: expected version, broker or virtualhosts")
        if "version" not in keys and isinstance(root, yaml.MappingNode):
            self.fault("version", root, "version is missing: it must be 1")

    def host(self, host: str, node: Any, path: str) -> None:
        for key, section, at in self.entries(node, path):
            if key == "defaults":
                self.object(object_name("VirtualHost", name=host), section, at)
            elif key in _SECTIONS:
                type_name, name_key = _SECTIONS[key]
                for name, each, where in self.entries(section, at):
                    if key == "patterns" and self._checks_patterns and (problem := pattern_fault(name)):
                        self.fault(where, each, problem)
                    else:
                        self.object(object_name(type_name, virtualhost=host, **{name_key: name}), each, where)
            else:
                self.fault(at, section, f"unknown key {key}: expected defaults, {', '.join(_SECTIONS)}")

    def object(self, name: ObjectName, node: Any, path: str) -> None:
        declared = self._types.get(name.type)
        if declared is None:
            self.fault(path, node, f"this broker has no objects of type {name.type}")
            return
        writable = writable_fields(self._types, name.type)
        values: dict[str, Any] = {}
        for field, value, at in self.entries(node, path):
            attribute = declared.attribute(field)
            if field not in writable or attribute is None:
                self.fault(at, value, _unknown(name.type, field, writable))
            elif not isinstance(value, yaml.ScalarNode):
                self.fault(at, value, f"{field} must be a single value")
            elif not _is_null(value):
                try:
                    values[field] = attribute.check(value.value)
                except ValueError as error:
                    self.fault(at, value, str(error))
        self.settings[name] = values

    def entries(self, node: Any, path: str) -> Iterator[tuple[str, Any, str]]:
        """Yield (key, node, path) for each entry of a map; an empty value counts as an empty map."""
        if isinstance(node, yaml.ScalarNode) and _is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self.fault(path, node, f"{path or 'the file'} must be a map of names to values")
            return
        keys = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.fault(path, key, "a name must be a string")
                continue
            at = f"{path}.{key.value}" if path else key.value
            if key.value in keys:
                self.fault(at, key, f"duplicate key {key.value}")
                continue
            keys.add(key.value)
            yield key.value, value, at


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


def _is_null(node: Any) -> bool:
    return not node.style and node.value in ("", "~", "null")
