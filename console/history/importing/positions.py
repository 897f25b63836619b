"""Where the import of a log has got to, so that a repeated or interrupted import reads only what follows.

A file is known by its first line, not by its name: a rotated, compressed or longer copy is the same log. The bytes
before the position are compared, since a log may begin like another one. What has been read is in the history, so
`imports/<broker>~<log>.json` is in the history's folder.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from console.history.importing.log_files import bytes_before, first_bytes
from console.history.storage.landing import Landing
from console.history.storage.landing_names import part

_FIRST_LINE = 4096
_VERSION = 1


@dataclass(slots=True)
class Position:
    """`end`: bytes of the uncompressed log that have been imported; the other fields: state of the import there."""

    end: int = 0
    before: str = ""  # digest of the bytes before `end`
    times: list[int] = field(default_factory=lambda: [0, 0])
    seen: list[tuple[int, str, int]] = field(default_factory=list)
    numbering: tuple[int, int, int] = (0, -1, 0)
    alarms: list[str] = field(default_factory=list)  # this and `blocks`: of `implied.Implied`
    blocks: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    span: list[int | None] = field(default_factory=lambda: [None, None, 1])
    known: bool = False


class Positions:
    """Positions of the logs of one broker. `options`: what else the events depend on; with others the log is read from
    its beginning."""

    def __init__(self, landing: Landing, broker: str, options: str) -> None:
        self._landing, self._broker, self._options = landing, broker, options

    def get(self, path: Path) -> Position:
        """Return the position in a log; its beginning for a new one. Raises LogError, LandingError."""
        name = self._name(path)
        content = self._landing.get(name) if name else None
        if content is None:
            return Position()
        try:
            state: dict[str, Any] = json.loads(content)
            if state.pop("version") != _VERSION:
                return Position()
            position = Position(**state)
            position.seen = [(at, text, count) for at, text, count in position.seen]
            position.blocks = {key: (last, end) for key, (last, end) in position.blocks.items()}
            position.numbering = tuple(position.numbering)  # type: ignore[assignment]
        except (ValueError, TypeError, KeyError):
            return Position()
        return position if position.before == _digest(bytes_before(path, position.end)) else Position()

    def put(self, path: Path, position: Position, before: bytes) -> None:
        """Record a position, after what is before it has been published. `before`: as in `log_files.Block`. Raises
        LogError, LandingError."""
        if name := self._name(path):
            position.before = _digest(before)
            self._landing.put(name, json.dumps({"version": _VERSION, **asdict(position)}).encode())

    def _name(self, path: Path) -> str:
        first, end, _ = first_bytes(path, _FIRST_LINE).partition(b"\n")
        if not end and len(first) < _FIRST_LINE:
            return ""  # an unfinished line is no identity
        digest = blake2b(first + b"\0" + self._options.encode(), digest_size=16).hexdigest()
        return f"imports/{part(self._broker)}~{digest}.json"


def _digest(before: bytes) -> str:
    return blake2b(before, digest_size=16).hexdigest()
