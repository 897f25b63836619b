"""Parsing of untrusted JSON with bounded depth and bounded numbers."""

from __future__ import annotations

import json
import re
from typing import Any

from brokers import input_limits as limits
from brokers.admin import InvalidValue
from brokers.input_checks import TooLong, value_faults

#: A string (also an unterminated one), or a bracket. Possessive quantifiers: no backtracking.
_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


def read_json(text: str) -> Any:
    """Parse JSON. Raises InvalidValue: by field if a value exceeds a limit, by `detail` if the text is not JSON."""
    _check_depth(text)
    try:
        value = json.loads(text, parse_int=_whole)
    except ValueError as error:
        raise InvalidValue({"detail": f"JSON parse error - {error}"}) from None
    if wrong := value_faults(value):
        raise InvalidValue(wrong)
    return value


def _check_depth(text: str) -> None:
    depth = 0
    for part in _PART.finditer(text):
        match text[part.start()]:
            case "[" | "{":
                depth += 1
                if depth > limits.DEPTH:
                    line = text.count("\n", 0, part.start()) + 1
                    message = f"line {line}: more than {limits.DEPTH} lists and objects inside each other"
                    raise InvalidValue({"detail": message})
            case "]" | "}":
                depth -= 1


def _whole(digits: str) -> int:
    return int(digits) if len(digits) <= limits.DIGITS + 1 else TooLong()
