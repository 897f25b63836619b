"""All policies of a broker as one YAML file, to be kept in a repository: text to settings and back. Pure.

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

Written in a stable order, so that two exports of the same policies are the same text. Read without giving YAML's own
types a say: names and values are texts, which the declared fields then check; so `off` is "off", and a queue may be
called `12`. Everything that is wrong is told at once, by its place and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from brokers.admin import InvalidValue
from brokers.model import TYPES, ObjectName, object_name
from brokers.model.patterns import pattern_fault
from console.intake.yaml_text import compose
from console.operations.policies import FIELDS, SCOPES, set_fields

VERSION = "1"
#: The policy fields, and the priority, that each object sets.
Settings = dict[ObjectName, dict[str, Any]]

#: Faults of a file that are named at once.
_NAMED = 100
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SECTIONS = {"exchanges": ("Exchange", "name"), "patterns": ("Policy", "pattern"), "queues": ("Queue", "name")}
_BROKER = object_name("Broker")


def in_order(name: ObjectName) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Sorts object names from the least specific scope to the most, then by name."""
    return SCOPES.index(name.type), name.keys


# -- writing --------------------------------------------------------------------------------------------------------


def written(settings: Mapping[ObjectName, Mapping[str, Any]]) -> str:
    """The file. Objects that set nothing are left out, but for patterns, which are there or not."""
    hosts: dict[str, dict[str, Any]] = {}
    document: dict[str, Any] = {"version": int(VERSION)}
    kept = {name: set_fields(values) for name, values in settings.items()}
    for name in sorted((n for n, values in kept.items() if values or n.type == "Policy"), key=in_order):
        if name.type == "Broker":
            document["broker"] = kept[name]
        elif name.type == "VirtualHost":
            hosts.setdefault(name["name"], {})["defaults"] = kept[name]
        else:
            section, key = next((s, key) for s, (type_name, key) in _SECTIONS.items() if type_name == name.type)
            hosts.setdefault(name["virtualhost"], {}).setdefault(section, {})[name[key]] = kept[name]
    if hosts:
        document["virtualhosts"] = dict(sorted(hosts.items()))
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text


# -- reading --------------------------------------------------------------------------------------------------------


def read(text: str) -> Settings:
    """Raises InvalidValue with everything that is wrong, by its place in the file."""
    root = compose(text)
    reading = _Reading()
    try:
        reading.document(root)
    except _EnoughError:
        reading.wrong["detail"] = f"these are the first {_NAMED} faults of the file: there are more"
    if reading.wrong:
        raise InvalidValue(reading.wrong)
    return reading.settings


class _EnoughError(Exception):
    """So much is wrong that the rest is not read."""


class _Reading:
    """One pass over the nodes of a file, which collects settings and what is wrong."""

    def __init__(self) -> None:
        self.settings: Settings = {}
        self.wrong: dict[str, str] = {}

    def fault(self, place: str, node: Any, sentence: str) -> None:
        self.wrong.setdefault(place or "yaml", f"line {node.start_mark.line + 1}: {sentence}")
        if len(self.wrong) >= _NAMED:
            raise _EnoughError

    def document(self, root: Any) -> None:
        if root is None:
            self.wrong["yaml"] = "the file is empty: it must at least say version: 1"
            return
        seen = set()
        for key, node, place in self.entries(root, ""):
            seen.add(key)
            match key:
                case "version":
                    if not isinstance(node, yaml.ScalarNode) or node.value != VERSION:
                        self.fault(place, node, f"version must be {VERSION}: no other is known")
                case "broker":
                    self.object(_BROKER, node, place)
                case "virtualhosts":
                    for name, host, at in self.entries(node, place):
                        self.host(name, host, at)
                case _:
                    self.fault(place, node, f"{key} is not known here: version, broker or virtualhosts is")
        if "version" not in seen and isinstance(root, yaml.MappingNode):
            self.fault("version", root, "version is missing: it must be 1")

    def host(self, host: str, node: Any, place: str) -> None:
        for key, section, at in self.entries(node, place):
            if key == "defaults":
                self.object(object_name("VirtualHost", name=host), section, at)
            elif key in _SECTIONS:
                type_name, name_key = _SECTIONS[key]
                for name, each, where in self.entries(section, at):
                    if key == "patterns" and (problem := pattern_fault(name)):
                        self.fault(where, each, problem)
                    else:
                        self.object(object_name(type_name, virtualhost=host, **{name_key: name}), each, where)
            else:
                self.fault(at, section, f"{key} is not known here: defaults, {', '.join(_SECTIONS)} are")

    def object(self, name: ObjectName, node: Any, place: str) -> None:
        known = (*FIELDS, "priority") if name.type == "Policy" else FIELDS
        values: dict[str, Any] = {}
        for field, value, at in self.entries(node, place):
            declared = TYPES[name.type].attribute(field)
            if field not in known or declared is None:
                self.fault(at, value, f"{field} is not a policy field: there are {', '.join(known)}")
            elif not isinstance(value, yaml.ScalarNode):
                self.fault(at, value, f"{field} must be a single value")
            elif not _is_null(value):
                try:
                    values[field] = declared.check(value.value)
                except ValueError as error:
                    self.fault(at, value, str(error))
        self.settings[name] = values

    def entries(self, node: Any, place: str) -> Iterator[tuple[str, Any, str]]:
        """(key, node, place) of a map; an empty value stands for an empty map."""
        if isinstance(node, yaml.ScalarNode) and _is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self.fault(place, node, f"{place or 'the file'} must be a map of names to values")
            return
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.fault(place, key, "a name must be a text")
                continue
            at = f"{place}.{key.value}" if place else key.value
            if key.value in seen:
                self.fault(at, key, f"{key.value} is there twice")
                continue
            seen.add(key.value)
            yield key.value, value, at


def _is_null(node: Any) -> bool:
    return not node.style and node.value in ("", "~", "null")
