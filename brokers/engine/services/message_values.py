"""Values of messages, which producers determine, as short as answers need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Characters of a value, and values of a map.
MOST_TEXT, MOST_VALUES = 256, 64


def shortened(value: Any, most: int = MOST_TEXT) -> Any:
    """Return a value that is short enough for a list: a long text is cut, a long list or map becomes a text."""
    if isinstance(value, (list, dict)):
        text = str(value)
        return value if len(text) <= most else shortened(text, most)
    if isinstance(value, str) and len(value) > most:
        return value[: most - 3] + "..."
    return value


def shortened_map(values: Mapping[str, Any], most: int = MOST_TEXT) -> dict[str, Any]:
    """Return the first values of a map, each short enough for a list."""
    found = {str(shortened(name)): shortened(value, most) for name, value in list(values.items())[:MOST_VALUES]}
    if len(values) > MOST_VALUES:
        found["..."] = f"{len(values) - MOST_VALUES:,} more"
    return found
