"""The patterns of a selector's LIKE: % stands for any characters, _ for one.

A consumer chooses the pattern and a producer the value, so their cost is bounded: each part between two % is searched
for once, by `str.find`, which takes linear time. A part with _ is searched for at each place, which takes the product
of both lengths: above `MOST_STEPS` the answer is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: Maximum length of a value times the length of a part with _ that is searched for in it.
MOST_STEPS = 1 << 20

#: Characters; None stands for any one.
_Part = list[str | None]


class InvalidPattern(ValueError):
    """The pattern has no meaning; the message says why."""


def like(text: str, escape: str) -> Callable[[str], bool | None]:
    """Return whether a value is like the pattern, as a function; None: that is unknown. `escape`: the character that
    stands before a literal % or _, "" for none. Raises InvalidPattern."""
    first, *more = _parts(text, escape)
    begins = _at(first)
    if not more:
        return lambda value: len(value) == len(first) and begins(value, 0)
    *middle, last = more
    ends, searches = _at(last), [(_search(part), len(part)) for part in middle if part]
    longest = max((len(part) for part in middle if None in part), default=0)
    least = len(first) + len(last)

    def fits(value: str) -> bool | None:
        at, end = len(first), len(value) - len(last)
        if len(value) < least or not begins(value, 0) or not ends(value, end):
            return False
        if longest * len(value) > MOST_STEPS:
            return None
        for search, length in searches:
            found = search(value, at, end)
            if found < 0:
                return False
            at = found + length
        return True

    return fits


def _parts(text: str, escape: str) -> list[_Part]:
    """Return what stands between the %."""
    if len(escape) > 1:
        raise InvalidPattern(f"ESCAPE {escape!r} must be one character")
    parts: list[_Part] = [[]]
    letters = iter(text)
    for letter in letters:
        if escape and letter == escape:
            following = next(letters, None)
            if following is None:
                raise InvalidPattern(f"LIKE {text!r} ends with its escape character")
            parts[-1].append(following)
        elif letter == "%":
            parts.append([])
        else:
            parts[-1].append(None if letter == "_" else letter)
    return parts


def _at(part: _Part) -> Callable[[str, int], bool]:
    """Return whether a value has the part at a place, as a function."""
    if None in part:
        matches = _compiled(part).match
        return lambda value, at: matches(value, at) is not None
    literal = "".join(letter or "" for letter in part)
    return lambda value, at: value.startswith(literal, at)


def _search(part: _Part) -> Callable[[str, int, int], int]:
    """Return where a value has the part between two places, -1 for nowhere, as a function."""
    if None in part:
        searched = _compiled(part).search
        return lambda value, at, end: -1 if (found := searched(value, at, end)) is None else found.start()
    literal = "".join(letter or "" for letter in part)
    return lambda value, at, end: value.find(literal, at, end)


def _compiled(part: _Part) -> re.Pattern[str]:
    return re.compile("".join("." if letter is None else re.escape(letter) for letter in part), re.DOTALL)
