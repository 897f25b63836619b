"""Which flow-control setting holds where: field-wise inheritance, destination patterns, and explain.

Each field of a policy is looked up on its own, from the most specific layer to the least: the queue's own setting,
its virtual host's default, the broker's default, the built-in value (DOMAIN.md section 5). What the values then mean
in messages and bytes is told by `limits.py`. Nothing here knows AMQP, storage or a running queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokers.managed import POLICY

Value = int | str

FIELDS: tuple[str, ...] = tuple(attribute.name for attribute in POLICY)

#: What holds where nobody set anything. None: derived from another field (see `limits.resolve`).
BUILT_IN: Mapping[str, Value | None] = {
    "capacity_bytes": 0,
    "capacity_messages": 0,
    "flow_stop_bytes": "100%",
    "flow_stop_messages": "100%",
    "flow_resume_bytes": None,
    "flow_resume_messages": None,
    "overflow": "block",
    "producer_window_messages": 1000,
}

OWN, VIRTUALHOST, BROKER, BUILT = "own", "virtualhost", "broker", "built-in"


@dataclass(frozen=True, slots=True)
class Setting:
    """A field's value in force and the layer that it comes from. `rank` 0 is the most specific layer."""

    value: Value | None
    origin: str
    rank: int


def inherit(layers: Iterable[tuple[str, Mapping[str, Value]]]) -> dict[str, Setting]:
    """The setting of every field, given (origin, fields set there) from the most specific layer to the least."""
    ranked = list(layers)
    settings: dict[str, Setting] = {}
    for field in FIELDS:
        for rank, (origin, values) in enumerate(ranked):
            if values.get(field) is not None:
                settings[field] = Setting(values[field], origin, rank)
                break
        else:
            settings[field] = Setting(BUILT_IN[field], BUILT, len(ranked))
    return settings


def explain(settings: Mapping[str, Setting]) -> dict[str, dict[str, Value | str | None]]:
    """For each field its value and where it came from, as plain maps."""
    return {field: {"value": setting.value, "origin": setting.origin} for field, setting in settings.items()}


def matches(pattern: str, name: str) -> bool:
    """Whether a destination pattern covers a dot-separated name: `*` stands for one word; `>` or `#`, as the last
    word, for any number of words, none included; anything else for itself. The empty pattern covers every name."""
    wanted, is_open = _fixed(pattern)
    words = name.split(".")
    if is_open:
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in zip(wanted, words, strict=True))


def pattern_contains(outer: str, inner: str) -> bool:
    """Whether `outer` covers every name that `inner` covers."""
    wanted, outer_open = _fixed(outer)
    words, inner_open = _fixed(inner)
    if outer_open:
        if wanted == ["*"]:  # every name has a first word
            return True
        words = words[: len(wanted)]
    elif inner_open:
        return False
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in zip(wanted, words, strict=True))


def _fixed(pattern: str) -> tuple[list[str], bool]:
    """(the words of a pattern, whether any number of words may follow)."""
    words = pattern.split(".") if pattern else [">"]
    return (words[:-1], True) if words[-1] in (">", "#") else (words, False)


def pattern_fault(pattern: str) -> str:
    """What is wrong with a pattern, as a sentence; empty if nothing is."""
    words = pattern.split(".") if pattern else []
    if any(not word for word in words):
        return f"pattern {pattern!r} has an empty word: words are separated by single dots"
    if any(word in (">", "#") for word in words[:-1]):
        return f"pattern {pattern!r}: > and # may only be the last word"
    if any(len(word) > 1 and set(word) & set("*>#") for word in words):
        return f"pattern {pattern!r}: *, > and # stand for whole words"
    return ""
