"""Parse and format a file of the brokers that are added to a console, for version control. Pure.

```yaml
version: 1
brokers:
  rabbit-eu:
    title: Rabbits of Europe
    kind: rabbitmq
    url: https://rabbit.example.org:15671
    username: headgate
    password_file: secrets/rabbit-eu
    tags: [eu, prod]
```

A password is never in the file: `password_file` or `password_env` names where the one who applies the file reads it.
`paused` is written only of paused brokers, so that a file without it neither pauses a broker nor resumes one that an
operator paused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from console.intake.yaml_maps import VERSION, YamlMaps, is_null
from console.operations.brokers import field_fault

#: In the order in which they are written.
_TEXTS = ("title", "kind", "url", "username", "authority")
_SECRETS = ("password_file", "password_env")
_KEYS = (*_TEXTS, *_SECRETS, "tags", "paused")
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """A broker of a file. `values`: every field but slug and password, defaults included; `paused` only if it is given.
    `secret`: (`password_file` or `password_env`, where the password is); None: not named."""

    slug: str
    values: Mapping[str, Any]
    secret: tuple[str, str] | None = None


# -- writing --------------------------------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Writes certificates as blocks of lines."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def written(brokers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a file. `brokers`: slug -> its fields; those that are empty are omitted."""
    document = {
        "version": int(VERSION),
        "brokers": {
            slug: {key: values[key] for key in (*_TEXTS, "tags", "paused") if values.get(key)}
            for slug, values in sorted(brokers.items())
        },
    }
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text


# -- reading --------------------------------------------------------------------------------------------------------


def read(text: str) -> dict[str, BrokerEntry]:
    """Return the brokers of a file by slug. Raises InvalidValue with all faults, by their paths in the file."""
    reading = _Reading()
    reading.file.read(text, reading.document)
    return reading.brokers


@dataclass
class _Reading:
    file: YamlMaps = field(default_factory=YamlMaps)
    brokers: dict[str, BrokerEntry] = field(default_factory=dict)

    def document(self, root: Any) -> None:
        for key, node, path in self.file.sections(root):
            if key == "brokers":
                for slug, each, at in self.file.entries(node, path):
                    self.broker(slug, each, at)
            else:
                self.file.fault(path, node, f"unknown key {key}: expected version or brokers")

    def broker(self, slug: str, node: Any, path: str) -> None:
        if fault := field_fault("slug", slug):
            self.file.fault(path, node, fault)
        values: dict[str, Any] = {"title": slug, "username": "", "authority": "", "tags": []}
        secrets: list[tuple[str, str]] = []
        for key, value, at in self.file.entries(node, path):
            if key in _SECRETS and isinstance(value, yaml.ScalarNode) and value.value.strip():
                secrets.append((key, value.value))
            else:
                self._field(values, key, value, at)
        for key in ("kind", "url"):
            if key not in values and f"{path}.{key}" not in self.file.wrong:
                self.file.fault(f"{path}.{key}", node, f"{key} is missing")
        if len(secrets) > 1:
            self.file.fault(path, node, f"{' and '.join(_SECRETS)} exclude each other")
        self.brokers[slug] = BrokerEntry(
            slug, {key: values[key] for key in _KEYS if key in values}, secrets[0] if secrets else None
        )

    def _field(self, values: dict[str, Any], key: str, node: Any, path: str) -> None:
        if key == "password":
            self.file.fault(path, node, f"a password must not be in the file: name it by {' or '.join(_SECRETS)}")
        elif key not in _KEYS:
            self.file.fault(path, node, f"unknown key {key}: expected one of {', '.join(_KEYS)}")
        elif key == "tags":
            self._take(values, key, self._tags(node), node, path)
        elif not isinstance(node, yaml.ScalarNode):
            self.file.fault(path, node, f"{key} must be a single value")
        elif key in _SECRETS:
            self.file.fault(path, node, f"{key} is empty")
        elif not is_null(node):
            self._take(values, key, _FLAGS.get(node.value) if key == "paused" else node.value, node, path)

    def _take(self, values: dict[str, Any], key: str, value: Any, node: Any, path: str) -> None:
        if value is None:
            self.file.fault(path, node, f"{key} must be {'true or false' if key == 'paused' else 'a list of words'}")
        elif key != "paused" and (fault := field_fault(key, value)):
            self.file.fault(path, node, fault)
        else:
            values[key] = value

    def _tags(self, node: Any) -> list[str] | None:
        if isinstance(node, yaml.ScalarNode) and is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(e, yaml.ScalarNode) for e in node.value):
            return None
        return sorted({each.value for each in node.value})
