r"""Names of managed objects as JMX writes them, such as
`headgate:type=Queue,broker=local,virtualhost="default",name="orders"`. Pure.

Values other than type and broker are quoted as by `javax.management.ObjectName.quote`: backslash before `"`, `\`, `*`
and `?`, and `\n` for a line feed. On input quotes are optional, unless the value has one of `,=:"*?` or a line feed.
In a pattern `*` and `?` are wildcards, in the domain and in values, and `,*` at the end stands for further keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from brokers.model import TYPES, ObjectName, object_name

DOMAIN = "headgate"

_PAIR = re.compile(r'([^,=:"*?\n]+)=("(?:[^"\\\n]|\\["\\*?n])*"|[^,=:"\n]*)(?:,(?=.)|\Z)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_SPECIAL = re.compile(r'(["\\*?\n])')
#: Parts of a quoted value that stand for something: an escape or a wildcard.
_IN_QUOTES = re.compile(r"\\(.)|[*?]", re.DOTALL)


class MalformedName(ValueError):
    """The text is no name in JMX's syntax. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class Target:
    """One object: the slug of its broker, and its name there."""

    broker: str
    name: ObjectName


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a pattern. `text`: the exact value, None if it has wildcards; `expression` matches values then."""

    text: str | None
    expression: re.Pattern[str] | None = None

    def matches(self, value: str) -> bool:
        return value == self.text if self.expression is None else self.expression.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name as parsed: `domain` and `keys` with their wildcards; `more`: further keys are allowed."""

    domain: Value
    keys: Mapping[str, Value]
    more: bool

    @property
    def exact(self) -> bool:
        """Whether it is the name of one object."""
        return not self.more and self.domain.text is not None and all(v.text is not None for v in self.keys.values())

    def target(self) -> Target | None:
        """Return the object of an exact name; None if no object can have that name."""
        keys = {key: value.text or "" for key, value in self.keys.items()}
        broker, type_name = keys.pop("broker", None), keys.pop("type", "")
        if self.domain.text != DOMAIN or broker is None:
            return None
        try:
            return Target(broker, object_name(type_name, **keys))
        except (ValueError, TypeError):
            return None

    def allows_broker(self, slug: str) -> bool:
        """Return whether objects of this broker can match."""
        return self.domain.matches(DOMAIN) and self._allows("broker", slug)

    def allows_type(self, type_name: str) -> bool:
        """Return whether objects of this type can match."""
        declared = {"type", "broker", *TYPES[type_name].keys}
        complete = self.more or len(declared) == len(self.keys)
        return complete and declared >= set(self.keys) and self._allows("type", type_name)

    def matches(self, name: ObjectName) -> bool:
        """Return whether an object of an allowed broker and type matches."""
        return all(self._allows(key, value) for key, value in name.keys)

    def exact_keys(self, type_name: str) -> dict[str, str]:
        """Return the keys of a type's names whose exact value is given."""
        found = {key: self.keys[key].text for key in TYPES[type_name].keys if key in self.keys}
        return {key: text for key, text in found.items() if text is not None}

    def _allows(self, key: str, value: str) -> bool:
        expected = self.keys.get(key)
        return self.more if expected is None else expected.matches(value)


def quoted(value: str) -> str:
    return '"' + _SPECIAL.sub(lambda found: "\\" + ("n" if found[1] == "\n" else found[1]), value) + '"'


def properties(broker: str, name: ObjectName, *, canonical: bool) -> str:
    """Return the name without its domain. `canonical`: keys in alphabetical order, else in the declared one."""
    pairs = [("type", name.type), ("broker", broker), *((key, quoted(value)) for key, value in name.keys)]
    return ",".join(f"{key}={value}" for key, value in (sorted(pairs) if canonical else pairs))


def jmx_name(broker: str, name: ObjectName, *, canonical: bool = True) -> str:
    return f"{DOMAIN}:{properties(broker, name, canonical=canonical)}"


def parse(text: str) -> Pattern:
    """Parse a name or a pattern. Raises MalformedName."""
    domain, colon, rest = text.partition(":")
    if not colon:
        raise MalformedName(f"{text!r} is not an object name: it has no domain, such as {DOMAIN}:type=Broker")
    if "\n" in domain:
        raise MalformedName(f"{text!r} is not an object name: its domain has a line feed")
    keys: dict[str, Value] = {}
    more, at = False, 0
    while at < len(rest):
        found = _PAIR.match(rest, at)
        if found is None:
            if rest[at] == "*" and rest[at + 1 : at + 2] in ("", ",") and not more:
                more, at = True, at + 2
                if at == len(rest):
                    raise MalformedName(f"{text!r} is not an object name: it ends with a comma")
                continue
            raise MalformedName(f"{text!r} is not an object name: cannot read it from {rest[at:]!r}")
        if found[1] in keys:
            raise MalformedName(f"{text!r} is not an object name: it has the key {found[1]} twice")
        keys[found[1]] = _value(found[2])
        at = found.end()
    if not keys and not more:
        raise MalformedName(f"{text!r} is not an object name: it has no keys")
    return Pattern(_value(domain), keys, more)


def _value(raw: str) -> Value:
    if not raw.startswith('"'):
        return Value(None, _expression(raw)) if re.search(r"[*?]", raw) else Value(raw)
    inside = raw[1:-1]
    if any(found[1] is None for found in _IN_QUOTES.finditer(inside)):
        return Value(None, _expression(inside, escapes=True))
    return Value(_ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], inside))


def _expression(text: str, *, escapes: bool = False) -> re.Pattern[str]:
    """Return the expression that matches what a text with wildcards matches. `escapes`: it was in quotes."""
    parts: list[str] = []
    at = 0
    for found in _IN_QUOTES.finditer(text) if escapes else re.finditer(r"()[*?]", text):
        parts.append(re.escape(text[at : found.start()]))
        if escapes and found[1] is not None:
            parts.append(re.escape("\n" if found[1] == "n" else found[1]))
        elif found[0] == "?":
            parts.append(".")
        else:
            parts.append("*")
        at = found.end()
    parts.append(re.escape(text[at:]))
    return re.compile(_without_backtracking(parts), re.DOTALL)


def _without_backtracking(parts: list[str]) -> str:
    """Join parts of an expression, in which `*` stands for any text. What is between two `*` is matched at its first
    place only (an atomic group), which suffices for wildcards: hostile patterns take no exponential time."""
    segments: list[str] = [""]
    for part in parts:
        if part == "*":
            segments.append("")
        else:
            segments[-1] += part
    if len(segments) == 1:
        return segments[0]
    first, *middle, last = segments
    return first + "".join(f"(?>.*?{segment})" for segment in middle if segment) + f".*{last}"
