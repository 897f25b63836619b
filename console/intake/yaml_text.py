"""Parsing of untrusted YAML: the parser's events are counted first, since composing nodes recurses in C for each level,
and again for each alias."""

from __future__ import annotations

from typing import Any

import yaml

from brokers import input_limits as limits
from brokers.admin import InvalidValue
from brokers.input_checks import readable, shortened, text_fault

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def compose(text: str, field: str = "yaml") -> Any:
    """Return the root node; None of an empty file. Raises InvalidValue for `field`, with the line."""
    if fault := text_fault("the file", text, limits.FILE):
        raise InvalidValue({field: fault})
    try:
        _measure(text, field)
        return yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise InvalidValue({field: readable(f"{where}this is not YAML: {shortened(str(problem))}")}) from None


def _measure(text: str, field: str) -> None:
    """Check the limits. Raises InvalidValue, YAMLError."""
    measure = _Measure()
    for event in yaml.parse(text, Loader=_Loader):
        if fault := measure.take(event):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise InvalidValue({field: f"line {line}: {fault}"})


class _Measure:
    """Counts nodes, with aliases expanded, and nesting depth from the parser's events."""

    def __init__(self) -> None:
        self._nodes = 0
        self._sizes: dict[str, int] = {}  # number of nodes by anchor
        #: Of each open map or list: its anchor, and the number of nodes before it.
        self._open: list[tuple[str | None, int]] = []

    def take(self, event: yaml.Event) -> str:
        """Count an event, and return what exceeds a limit; empty: nothing."""
        fault = ""
        match event:
            case yaml.ScalarEvent():
                self._nodes += 1
                fault = text_fault("a name or value", event.value, limits.TEXT) or ""
                if event.anchor is not None:
                    self._sizes[event.anchor] = 1
            case yaml.CollectionStartEvent():
                self._open.append((event.anchor, self._nodes))
                self._nodes += 1
                if len(self._open) > limits.FILE_DEPTH:
                    fault = f"more than {limits.FILE_DEPTH} maps and lists inside each other"
            case yaml.CollectionEndEvent():
                anchor, before = self._open.pop()
                if anchor is not None:
                    self._sizes[anchor] = self._nodes - before
            case yaml.AliasEvent(anchor=str(name)):
                if name in {anchor for anchor, _ in self._open}:
                    fault = f"*{shortened(name)} refers to a node that contains it"
                self._nodes += self._sizes.get(name, 1)
        if not fault and self._nodes > limits.FILE_NODES:
            fault = f"the file has more than {limits.FILE_NODES:,} names and values"
        return fault
