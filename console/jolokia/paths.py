"""Paths of Jolokia's requests: parts separated by slashes, with `!/`, `!!` and `!"` for what the second character
is. Pure."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"!(.)", re.DOTALL)
_PART = re.compile(r"(?:[^/!]|!.|!\Z)*", re.DOTALL)


def split_path(text: str) -> list[str]:
    """Return the parts of a path, without the empty ones at its ends."""
    parts: list[str] = []
    at = 0
    while True:
        found = _PART.match(text, at)
        assert found is not None  # it matches the empty text
        parts.append(_ESCAPE.sub(r"\1", found[0]))
        at = found.end() + 1
        if at > len(text):
            break
    while parts and not parts[0]:
        parts.pop(0)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def join_path(parts: list[str]) -> str:
    return "/".join(re.sub(r"([!/])", r"!\1", part) for part in parts)


def join_old_escapes(parts: list[str]) -> list[str]:
    """Return the parts after the kind of request, with a name that clients before Jolokia 1.0 have split: `/-/` stands
    for a slash in it."""
    while len(parts) > 2 and parts[1] == "-":
        parts = [f"{parts[0]}/{parts[2]}", *parts[3:]]
    return parts
