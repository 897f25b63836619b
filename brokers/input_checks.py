"""Checks of values from outside: depth, number, length and characters. Pure.

Values are the output of a JSON or AMQP decoder: maps, lists, texts, numbers. No function is recursive, so that no
depth can exhaust the stack; none quotes more of a value than a person would read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from brokers import input_limits as limits

#: Allowed in no text: stores, logs and clients may not support them.
_NEVER = re.compile("[\x00\ud800-\udfff]")
#: Texts that people write for people (reasons, labels) have no control characters but tab and line feed, and none that
#: change the direction of the following text.
_NOT_PLAIN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_IN_A_LINE = re.compile("[\t\n]")
_SHOWN = 120
_INT64 = 1 << 63

#: The path to a value: the key or index, and the path to its container.
_Path = tuple[Any, Any] | None


_WHOLE = re.compile(rf"-?[0-9]{{1,{limits.DIGITS}}}")


class TooLong(int):
    """A placeholder for a whole number with too many digits, which is not converted."""


def shortened(text: str, most: int = _SHOWN) -> str:
    """Return the text, or its beginning with an ellipsis and its length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def whole_number(text: str) -> int | None:
    """Return the number in JSON's notation: no blanks, underscores, or digits of other scripts. None if the text is no
    such number, or has too many digits."""
    return int(text) if _WHOLE.fullmatch(text) else None


def text_fault(field: str, text: str, most: int = limits.TEXT) -> str:
    """Return why any text is invalid; "" if it is valid."""
    if len(text) > most:
        return f"{field} has {len(text):,} characters: {most:,} at most"
    if found := _NEVER.search(text):
        return f"{field} has {_character(found)} as its character {found.start() + 1:,}: that is no text"
    return ""


def plain_fault(field: str, text: str, most: int) -> str:
    """Return why a text that people write for people, of several lines, is invalid; "" if it is valid."""
    if fault := text_fault(field, text, most):
        return fault
    if found := _NOT_PLAIN.search(text):
        return f"{field} has {_character(found)} as its character {found.start() + 1:,}: write it without"
    return ""


def label_fault(field: str, text: str, most: int = limits.LABEL) -> str:
    """Return why the name of one of the console's own objects is invalid; "" if it is valid."""
    if not text.strip():
        return f"{field} is missing"
    if text != text.strip():
        return f"{field} has blanks at its ends: write it without"
    if found := _NOT_IN_A_LINE.search(text):
        return f"{field} has {_character(found)} as its character {found.start() + 1:,}: write it without"
    return plain_fault(field, text, most)


def _character(found: re.Match[str]) -> str:
    code = ord(found.group())
    what = "half a character (a surrogate)" if 0xD800 <= code <= 0xDFFF else "the control character"
    return f"{what} U+{code:04X}"


def value_faults(value: Any) -> dict[str, str]:
    """Return the faults of a decoded value by the path of the field (`attributes.capacity_messages`,
    `changes.3.object`; `detail` for the whole), `limits.NAMED` faults at most."""
    wrong: dict[str, str] = {}
    waiting: list[tuple[Any, _Path, int]] = [(value, None, 0)]
    seen = 0
    while waiting and len(wrong) < limits.NAMED:
        one, path, depth = waiting.pop()
        seen += 1
        if seen > limits.VALUES:
            wrong["detail"] = f"there are more than {limits.VALUES:,} values in it: send less at once"
            break
        if fault := _own_fault(one, path, depth):
            wrong[_place(path)] = fault
        elif isinstance(one, Mapping):
            _enter_map(one, path, depth, waiting, wrong)
        elif isinstance(one, list | tuple):
            waiting.extend((each, (number, path), depth + 1) for number, each in enumerate(one))
    return wrong


def _own_fault(one: Any, path: _Path, depth: int) -> str | None:
    """Return the fault of a value itself, not of the values inside it."""
    field = _last_name(path)
    if isinstance(one, str):
        most = limits.TEXTS.get(field, limits.TEXT)
        return plain_fault(field, one, most) if field == "reason" else text_fault(field, one, most)
    if isinstance(one, float | int) and not isinstance(one, bool):
        return _number_fault(field, one)
    if isinstance(one, Mapping | list | tuple) and depth >= limits.DEPTH:
        return f"{field} is deeper than {limits.DEPTH} lists and objects"
    if isinstance(one, list | tuple) and len(one) > limits.VALUES:
        return f"{field} has {len(one):,} values: {limits.VALUES:,} at most"
    return None


def _enter_map(
    one: Mapping[Any, Any], path: _Path, depth: int, waiting: list[tuple[Any, _Path, int]], wrong: dict[str, str]
) -> None:
    if len(one) > limits.FIELDS:
        wrong[_place(path)] = f"{_last_name(path)} has {len(one):,} fields: {limits.FIELDS:,} at most"
        return
    for key, each in one.items():
        if isinstance(key, str) and (fault := text_fault("the name of a field", key, limits.FIELD_NAME)):
            wrong[_place((key, path))] = fault
            if len(wrong) >= limits.NAMED:
                return
        else:
            waiting.append((each, (key, path), depth + 1))


def _number_fault(field: str, number: float) -> str:
    if isinstance(number, TooLong):
        return f"{field} is a whole number of more than {limits.DIGITS} digits: it must be from -2^63 to 2^63-1"
    if isinstance(number, int):
        return "" if -_INT64 <= number < _INT64 else f"{field} is {number}: it must be from -2^63 to 2^63-1"
    return "" if math.isfinite(number) else f"{field} is {number}: it must be a finite number"


def _last_name(path: _Path) -> str:
    """Return the name of the field that a value belongs to, also in a list."""
    while path is not None:
        if isinstance(path[0], str):
            return readable(shortened(path[0]))
        path = path[1]
    return "it"


def _place(path: _Path) -> str:
    parts: list[str] = []
    while path is not None:
        parts.append(readable(shortened(str(path[0]))))
        path = path[1]
    return ".".join(reversed(parts)) or "detail"


def readable(text: str) -> str:
    """Return the text with escapes for characters that cannot be sent."""
    return _NEVER.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def on_one_line(text: str) -> str:
    """Return the text with escapes for control characters, ends of lines and characters that change its direction."""
    escaped = _NOT_PLAIN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return _NOT_IN_A_LINE.sub(lambda found: {"\t": "\\t", "\n": "\\n"}[found.group()], escaped)


def readable_sentences(errors: Mapping[str, str], most: int = 1000) -> dict[str, str]:
    """Return faults by field in a form that can be sent: limited in number, length and characters."""
    listed = list(errors.items())[: limits.NAMED * 10]
    shown = {readable(shortened(field)): readable(shortened(sentence, most)) for field, sentence in listed}
    if len(errors) > len(listed):
        shown.setdefault("detail", f"and {len(errors) - len(listed):,} more")
    return shown
