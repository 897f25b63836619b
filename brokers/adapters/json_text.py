"""JSON as brokers send it, decoded. Pure.

Brokers written in other languages can send half of a surrogate pair, which is no character: no text with it can be
stored or sent. It becomes the replacement character here, before anything else reads the answer.
"""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def decoded(text: str) -> Any:
    """Return the value of a JSON text, itself without halves of pairs. Raises ValueError if it is none."""
    value = json.loads(text)
    return well_formed(value) if _ESCAPED.search(text) else value


def well_formed(value: Any) -> Any:
    """Return a value with the replacement character for each half of a surrogate pair in its texts, those of keys
    included."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {well_formed(key): well_formed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [well_formed(each) for each in value]
    return value
