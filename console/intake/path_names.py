"""Escaping of queue and virtual host names in URL paths, so that every name has a URL.

Browsers and proxies resolve `.` and `..` and merge empty segments, also percent-encoded ones; a segment cannot contain
a slash, nor a path a control character. A name with any of these is escaped: `~~`, then its UTF-8 bytes, where each
byte but letters, digits, `-` and `_` is `~` and two hex digits: `..` is `~~~2E~2E`. Other names are not escaped.
`static/console/core/object_names.js` has the same.
"""

from __future__ import annotations

import re

from django.urls import register_converter
from django.urls.converters import PathConverter, StringConverter

_MARK = "~~"
_ESCAPED = re.compile(r"~~((?:[A-Za-z0-9_-]|~[0-9A-F]{2})*)")
_PLAIN = re.compile(rb"[A-Za-z0-9_-]")
#: Names that look escaped, and characters that URLs cannot contain.
_LONG = re.compile("^~~|[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: Segments with another meaning: to browsers, to proxies, or after a queue's name in the console's own URLs.
_TAKEN = frozenset({"", ".", "..", "check"})


def escaped(name: str) -> str:
    """Return the escaped form of a name."""
    return _MARK + "".join(
        chr(byte) if _PLAIN.fullmatch(bytes([byte])) else f"~{byte:02X}" for byte in name.encode("utf-8", "replace")
    )


def unescaped(part: str) -> str:
    """Return the name of a path segment. A segment that only looks escaped is the name itself."""
    found = _ESCAPED.fullmatch(part)
    if not found:
        return part
    raw = re.sub(rb"~([0-9A-F]{2})", lambda hex_: bytes.fromhex(hex_[1].decode()), found[1].encode())
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return part


class QueueNameConverter(PathConverter):
    """A queue name; slashes within the name stay slashes."""

    def to_python(self, value: str) -> str:
        return unescaped(value)

    def to_url(self, value: str) -> str:
        return escaped(value) if _LONG.search(value) or _TAKEN.intersection(value.split("/")) else value


class HostNameConverter(StringConverter):
    def to_python(self, value: str) -> str:
        return unescaped(value)

    def to_url(self, value: str) -> str:
        unsafe = _LONG.search(value) or value in _TAKEN or "/" in value
        return escaped(value) if unsafe else value


class ObjectNameConverter(PathConverter):
    """A percent-encoded object name of any characters."""

    regex = r"[\s\S]+"


register_converter(ObjectNameConverter, "object")
register_converter(QueueNameConverter, "queue")
register_converter(HostNameConverter, "host")
