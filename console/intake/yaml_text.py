"""YAML from outside: its events are counted before nodes are made of them, since that is done by a function which
calls itself for each level, in C, and for each alias again."""

from __future__ import annotations

from typing import Any

import yaml

from brokers import input_limits as limits
from brokers.admin import InvalidValue
from brokers.input_checks import readable, shortened, text_fault

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def compose(text: str, field: str = "yaml") -> Any:
    """The root node, None of an empty file. Raises InvalidValue, about `field`, with the line."""
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
    """Raises InvalidValue, YAMLError. `sizes`: nodes that each anchor stands for; `open_`: for each map or list that is
    being read, its anchor and how many nodes there were before it."""
    nodes = 0
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []

    def fault(event: Any, sentence: str) -> InvalidValue:
        return InvalidValue({field: f"line {event.start_mark.line + 1}: {sentence}"})

    for event in yaml.parse(text, Loader=_Loader):
        match event:
            case yaml.ScalarEvent():
                nodes += 1
                if says := text_fault("a name or value", event.value, limits.TEXT):
                    raise fault(event, says)
                if event.anchor is not None:
                    sizes[event.anchor] = 1
            case yaml.CollectionStartEvent():
                open_.append((event.anchor, nodes))
                nodes += 1
                if len(open_) > limits.FILE_DEPTH:
                    raise fault(event, f"more than {limits.FILE_DEPTH} maps and lists inside each other")
            case yaml.CollectionEndEvent():
                anchor, before = open_.pop()
                if anchor is not None:
                    sizes[anchor] = nodes - before
            case yaml.AliasEvent(anchor=str(name)):
                if name in {anchor for anchor, _ in open_}:
                    raise fault(event, f"*{shortened(name)} is inside what it stands for")
                nodes += sizes.get(name, 1)
        if nodes > limits.FILE_NODES:
            raise fault(event, f"the file has more than {limits.FILE_NODES:,} names and values")
