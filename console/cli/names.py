"""Names of objects as people type them on a command line."""

from __future__ import annotations

import re


def object_name(type_name: str, **keys: str) -> str:
    """The text of a managed object's name, as the interface takes it."""
    return ",".join([f"type={type_name}", *(f"{key}={_quoted(value)}" for key, value in keys.items())])


def queue(text: str) -> str:
    """`orders`, `test/orders` (virtual host, name) or the object name itself. A name with a slash, in the default
    virtual host, is written `default/a/b`."""
    if text.startswith("type="):
        return text
    host, slash, name = text.partition("/")
    return (
        object_name("Queue", virtualhost=host, name=name)
        if slash
        else object_name("Queue", virtualhost="default", name=text)
    )


def within(text: str) -> tuple[str, str]:
    """`exchange` or `test/exchange` -> (virtual host, name)."""
    host, slash, name = text.partition("/")
    return (host, name) if slash else ("default", text)


def short(object_text: str) -> str:
    """The queue's virtual host and name, of its object name."""
    found = re.match(r'type=Queue,virtualhost=("(?:[^"\\]|\\.)*"|[^,]*),name=(.*)$', object_text, re.DOTALL)
    return "/".join(_plain(part) for part in found.groups()) if found else object_text


def milliseconds(text: str) -> int:
    """`90`, `90s`, `30m`, `2h`, `1d`; raises ValueError."""
    found = re.fullmatch(r"(\d+)\s*(s|m|h|d)?", text.strip())
    if not found:
        raise ValueError(f"{text!r} is no length of time, such as 90s, 30m or 2h")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2] or "s"] * 1000


def _quoted(value: str) -> str:
    if value and value == value.strip() and not re.search(r'[,="\\]', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
