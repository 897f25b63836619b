"""Names of queues and virtual hosts as parts of an address, such that every name can be opened.

Browsers and proxies resolve `.` and `..` and merge empty parts, also percent-encoded ones, and a slash cannot stand in
one part of a path, nor a control character anywhere. A name with any of these is written `~~` and then its UTF-8 bytes,
each but letters, digits, `-` and `_` as `~` and two hex digits: `..` is `~~~2E~2E`. Every other name is written as it
is. `static/console/core/object_names.js` has the same.
"""

from __future__ import annotations

import re

from django.urls import register_converter
from django.urls.converters import PathConverter, StringConverter

_MARK = "~~"
_ESCAPED = re.compile(r"~~((?:[A-Za-z0-9_-]|~[0-9A-F]{2})*)")
_PLAIN = re.compile(rb"[A-Za-z0-9_-]")
#: What looks like the long form already, and what no address has.
_LONG = re.compile("^~~|[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: Parts that mean something else: to browsers, to proxies, or after a queue's name in an address of ours.
_TAKEN = frozenset({"", ".", "..", "check"})


def escaped(name: str) -> str:
    """The name in the long form."""
    return _MARK + "".join(
        chr(byte) if _PLAIN.fullmatch(bytes([byte])) else f"~{byte:02X}" for byte in name.encode("utf-8", "replace")
    )


def unescaped(part: str) -> str:
    """The name that a part of an address stands for. What only looks like the long form is a name itself."""
    found = _ESCAPED.fullmatch(part)
    if not found:
        return part
    raw = re.sub(rb"~([0-9A-F]{2})", lambda hex_: bytes.fromhex(hex_[1].decode()), found[1].encode())
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return part


class QueueNameConverter(PathConverter):
    """Slashes within the name stay slashes."""

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
    """A whole object name, which clients percent-encode: of any characters."""

    regex = r"[\s\S]+"


register_converter(ObjectNameConverter, "object")
register_converter(QueueNameConverter, "queue")
register_converter(HostNameConverter, "host")
