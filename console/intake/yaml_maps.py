"""Maps in a YAML file that is read by its nodes: names and values are strings, without YAML's implicit types (`off` is
"off"), and all faults are collected with their path and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import yaml

from brokers.admin import InvalidValue
from console.intake.yaml_text import compose

#: Faults that are reported together.
_NAMED = 100
VERSION = "1"


class YamlMaps:
    """One pass over the nodes of a file. `wrong`: path -> sentence."""

    def __init__(self) -> None:
        self.wrong: dict[str, str] = {}

    def read(self, text: str, document: Callable[[Any], None]) -> None:
        """Call `document` with the root node. Raises InvalidValue with all faults."""
        root = compose(text)
        if root is None:
            raise InvalidValue({"yaml": "the file is empty: it must contain at least version: 1"})
        try:
            document(root)
        except _EnoughError:
            self.wrong["detail"] = f"the file has more faults; these are the first {_NAMED}"
        if self.wrong:
            raise InvalidValue(self.wrong)

    def fault(self, path: str, node: Any, sentence: str) -> None:
        self.wrong.setdefault(path or "yaml", f"line {node.start_mark.line + 1}: {sentence}")
        if len(self.wrong) >= _NAMED:
            raise _EnoughError

    def sections(self, root: Any) -> Iterator[tuple[str, Any, str]]:
        """Yield (key, node, path) for each entry of the document, except `version`, which is checked."""
        keys = set()
        for key, node, path in self.entries(root, ""):
            keys.add(key)
            if key != "version":
                yield key, node, path
            elif not isinstance(node, yaml.ScalarNode) or node.value != VERSION:
                self.fault(path, node, f"version must be {VERSION}")
        if "version" not in keys and isinstance(root, yaml.MappingNode):
            self.fault("version", root, "version is missing: it must be 1")

    def entries(self, node: Any, path: str) -> Iterator[tuple[str, Any, str]]:
        """Yield (key, node, path) for each entry of a map; an empty value counts as an empty map."""
        if isinstance(node, yaml.ScalarNode) and is_null(node):
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


class _EnoughError(Exception):
    """The limit of reported faults is reached."""


def is_null(node: Any) -> bool:
    return not node.style and node.value in ("", "~", "null")
