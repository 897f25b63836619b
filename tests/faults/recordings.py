"""Recorded conversations: what real clients sent to a broker, one frame or protocol header a line, in hexadecimal.

`xx{n}` is the byte xx n times. Lines that begin with # are remarks. `record.py` makes the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "recorded"

#: What clients sign in as where they do, in a virtual host of this name, which lets anonymous clients in, too.
NAME, PASSWORD = "fuzz", "recorded-for-tests"

_RUN = 16  # bytes from which a run is shortened


def frames(data: bytes) -> list[bytes]:
    """A client's bytes, cut where its frames and headers begin. What is cut off at the end is one, too."""
    found, at = list[bytes](), 0
    while at < len(data):
        header = data[at : at + 4] == b"AMQP"
        length = 8 if header else max(8, int.from_bytes(data[at : at + 4], "big"))
        found.append(data[at : at + length])
        at += length
    return found


def write(name: str, remark: str, data: bytes) -> None:
    lines = [f"# {remark}", *map(_text, frames(data))]
    (FOLDER / f"{name}.hex").write_text("\n".join(lines) + "\n")


def read(path: Path) -> list[bytes]:
    return [_bytes(line) for line in path.read_text().splitlines() if not line.startswith("#")]


def read_all() -> dict[str, list[bytes]]:
    """Name -> frames, in the order of their names."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.hex"))}


def _text(data: bytes) -> str:
    pieces: Iterable[bytes] = re.findall(rb"(?s)(.)(\1{%d,})|(.)" % (_RUN - 1), data)
    return "".join(
        f"{first.hex()}{{{1 + len(rest)}}}" if rest else single.hex()
        for first, rest, single in pieces  # type: ignore[str-unpack]
    )


def _bytes(text: str) -> bytes:
    return b"".join(
        bytes.fromhex(byte) * int(count or 1) for byte, count in re.findall(r"([0-9a-f]{2})(?:\{(\d+)\})?", text)
    )
