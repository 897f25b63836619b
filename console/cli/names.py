"""Names of objects and durations on the command line."""

from __future__ import annotations

import re


def object_name(type_name: str, **keys: str) -> str:
    """Return an object name in the API's format."""
    return ",".join([f"type={type_name}", *(f"{key}={_quoted(value)}" for key, value in keys.items())])


def queue(text: str) -> str:
    """Return the object name of `orders`, `test/orders` (virtual host, name), `/orders` (of the virtual host `/`) or an
    object name. A queue of the default virtual host with a slash in its name is written `default/a/b`."""
    if text.startswith("type="):
        return text
    host, name = split_host(text)
    return object_name("Queue", virtualhost=host, name=name)


def split_host(text: str) -> tuple[str, str]:
    """Split `exchange`, `test/exchange` or `/exchange` (of the virtual host `/`) into virtual host and name."""
    host, slash, name = text.partition("/")
    return (host or "/", name) if slash else ("default", text)


def label(virtualhost: str, name: str) -> str:
    """Return virtual host and name as `queue` reads them: `default/orders`, `/orders`."""
    return f"{'' if virtualhost == '/' else virtualhost}/{name}"


def short_name(object_text: str) -> str:
    """Return virtual host and name of a queue, such as default/orders; other object names as they are."""
    found = re.match(r'type=Queue,virtualhost=("(?:[^"\\]|\\.)*"|[^,]*),name=(.*)$', object_text, re.DOTALL)
    return label(*map(_plain, found.groups())) if found else object_text


def milliseconds(text: str) -> int:
    """Parse a duration: `90`, `90s`, `30m`, `2h`, `1d`. Returns ms. Raises ValueError."""
    found = re.fullmatch(r"(\d+)\s*(s|m|h|d)?", text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration such as 90s, 30m or 2h")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2] or "s"] * 1000


def _quoted(value: str) -> str:
    if value and value == value.strip() and not re.search(r'[,="\\]', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
