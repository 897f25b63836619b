"""The text of an operator's stop as events tell it, and which queues it covers. Pure.

`broker [PATTERN]`, `virtualhost VH [PATTERN]`, `exchange VH/NAME` or `queue VH/NAME`, VH in JSON's quotes where it
needs them.
"""

from __future__ import annotations

import json
import re

from brokers.patterns import matches

_HOST = re.compile(r'("(?:[^"\\]|\\.)*"|[^ /]+)(.*)', re.DOTALL)


def covers(scope: str, virtualhost: str, queue: str) -> bool:
    """Whether a stop of that scope stops the queue. An exchange's cannot be told: its bindings then are not known."""
    kind, _, rest = scope.partition(" ")
    if kind == "broker":
        return matches(rest, queue)
    match = _HOST.match(rest)
    if match is None or kind not in ("virtualhost", "queue"):
        return False
    try:
        host = json.loads(match[1]) if match[1].startswith('"') else match[1]
    except ValueError:
        return False
    if host != virtualhost:
        return False
    return matches(match[2].removeprefix(" "), queue) if kind == "virtualhost" else match[2].removeprefix("/") == queue
