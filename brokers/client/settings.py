"""The defaults of timeouts: from the environment, else those of the Qpid client for Java."""

from __future__ import annotations

import math
import os

SEND_TIMEOUT, NOTIFY_PERIOD = "HEADGATE_SEND_TIMEOUT", "HEADGATE_NOTIFY_PERIOD"

_DEFAULTS = {SEND_TIMEOUT: 60.0, NOTIFY_PERIOD: 5.0}


def setting(name: str) -> float | None:
    """Return SEND_TIMEOUT or NOTIFY_PERIOD from the environment: seconds, or None for `none`. Raises ValueError,
    which names the variable."""
    text = os.environ.get(name, "").strip()
    if not text:
        return _DEFAULTS[name]
    if text.lower() == "none":
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"the environment variable {name} must be seconds above 0, or none, and is {text!r}")
    return seconds
