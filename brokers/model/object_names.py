"""The names of managed objects, such as `type=Queue,virtualhost=default,name=orders`: syntax and parser. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache

from brokers.model.types import TYPES


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of a managed object, such as `type=Queue,virtualhost=default,name=orders`.

    `keys` are in the order that their type declares. A value with one of `,="\\` or white space at its ends is written
    in double quotes, with backslash before a quote or a backslash.
    """

    type: str
    keys: tuple[tuple[str, str], ...] = ()
    #: The text, once it was needed: names of queues are converted every second.
    _text: str = field(default="", init=False, repr=False, compare=False)

    def __str__(self) -> str:
        if not self._text:
            text = ",".join(f"{k}={v}" for k, v in self.written())
            object.__setattr__(self, "_text", text)
        return self._text

    def written(self) -> list[tuple[str, str]]:
        """Return the keys, the first is `type`, with their values as in the text: in quotes where they must be."""
        return [("type", self.type), *((k, _quote(v)) for k, v in self.keys)]

    def __getitem__(self, key: str) -> str:
        for k, v in self.keys:
            if k == key:
                return v
        raise KeyError(key)

    def get(self, key: str, default: str = "") -> str:
        return next((v for k, v in self.keys if k == key), default)

    @property
    def label(self) -> str:
        """The values of the keys for people, such as `default/orders`, with the virtual host `/` written once:
        `/orders`. The broker has none."""
        values = [v for _, v in self.keys]
        if len(values) > 1 and values[0] == "/":
            values[0] = ""
        return "/".join(values)

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Raise ValueError, naming the text, unless it is the name of an object of a declared type."""
        return _cached(text) if len(text) <= _LONGEST_CACHED else _parsed(text)


#: Longer names, in characters, are not cached: no object has one.
_LONGEST_CACHED = 600


@lru_cache(maxsize=50_000)  # the names of thousands of queues are parsed every second
def _cached(text: str) -> ObjectName:
    return _parsed(text)


def _parsed(text: str) -> ObjectName:
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if not match:
            raise ValueError(f"{text!r} is not an object name: cannot read it from {text[at:]!r}")
        raw = match["value"]
        pairs.append((match["key"], re.sub(r"\\(.)", r"\1", raw[1:-1]) if raw.startswith('"') else raw))
        at = match.end()
    if not pairs or pairs[0][0] != "type":
        raise ValueError(f"{text!r} is not an object name: it must start with type=")
    if len(dict(pairs)) != len(pairs):
        raise ValueError(f"{text!r} is not an object name: it has a key twice")
    return object_name(pairs[0][1], **dict(pairs[1:]))


_PAIR = re.compile(r'(?P<key>[a-z_]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^,="\\]*)(?:,(?=.)|$)', re.DOTALL)


def _quote(value: str) -> str:
    if value and value == value.strip() and not re.search(r'[,="\\]', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


_PART = r'(user|container_id|link)=("(?:[^"\\]|\\.)*"|[^ "]+) '
_CLIENT = re.compile(f"client ((?:{_PART})+)of ", re.DOTALL)


def scope_label(scope: str) -> str:
    """Return the text of a stop's scope, which quotes the virtual host `/`, for people: `queue /orders`, as in `label`,
    and `virtualhost /`; and names clients in words: `user ann, container web in queue default/orders`."""
    client = _CLIENT.match(scope)
    if client is not None:
        parts = re.findall(_PART, client[1], re.DOTALL)
        words = ", ".join(
            f"{'container' if name == 'container_id' else name} {_unquoted(text)}" for name, text in parts
        )
        return f"{words} in {scope_label(scope[client.end() :])}"
    for quoted, plain in (
        ('queue "/"/', "queue /"),
        ('exchange "/"/', "exchange /"),
        ('virtualhost "/"', "virtualhost /"),
    ):
        if scope.startswith(quoted):
            return plain + scope[len(quoted) :]
    return scope


def _unquoted(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def object_name(type_name: str, /, **keys: str | int) -> ObjectName:
    """Build a name; raise ValueError if the type is unknown or its keys are not the declared ones."""
    declared = TYPES.get(type_name)
    if declared is None:
        raise ValueError(f"{type_name!r} is not a type of managed objects: there are {', '.join(TYPES)}")
    if set(keys) != set(declared.keys):
        wanted = ", ".join(declared.keys) or "no keys"
        raise ValueError(f"a name of type {type_name} has {wanted}, not {', '.join(keys) or 'none'}")
    return ObjectName(type_name, tuple((k, str(keys[k])) for k in declared.keys))


@lru_cache(maxsize=50_000)  # thousands of queues are read every second
def queue_named(virtualhost: str, name: str) -> ObjectName:
    """Return the name of a queue, which is the same object each time."""
    return object_name("Queue", virtualhost=virtualhost, name=name)
