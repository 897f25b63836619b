"""Read the lines of a log, plain or compressed, in large blocks, from a position on."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from console.history.importing.log_report import Report

_BLOCK = 4 << 20
#: Number of bytes before a position that identify it.
BEFORE = 4096
#: Maximum length of a line in bytes; a longer one is not part of a log.
_LONGEST = 1 << 20


class LogError(Exception):
    """The file cannot be read, or has too many unread lines. The message is one line with its name."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines without their ends. `raw`: the same in one piece, and the beginning of the next line. `end`: position
    of the byte after the lines, in the uncompressed log; `before`: the last bytes before it; `complete`: the last line
    has an end."""

    lines: list[bytes]
    raw: bytes
    end: int
    before: bytes = b""
    complete: bool = True


def blocks(path: Path, report: Report, begin: int, on_read: Callable[[int, int], None]) -> Iterator[Block]:
    """Yield the lines after the position `begin`. `on_read` is called with the bytes read and in all, as stored.
    Raises LogError."""
    before = bytes_before(path, begin)
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            head = file.read(2)
            if head in (b"\xff\xfe", b"\xfe\xff"):
                raise LogError(f"{path} is UTF-16: convert it to UTF-8 first")
            packed = head == b"\x1f\x8b"
            file.seek(0 if packed else begin)
            position, rest = (0, b"") if packed else (begin, b"")
            is_endless = False  # the line that has not ended was reported
            for block in _unpacked(file, report) if packed else iter(lambda: file.read(_BLOCK), b""):
                # A compressed log is read from its beginning.
                whole = rest + block[max(0, begin - position) :]
                position += len(block)
                lines = whole.split(b"\n")
                rest = lines.pop()
                if is_endless and lines:
                    lines[0], is_endless = b"", False
                before = (before + whole[: len(whole) - len(rest)][-BEFORE:])[-BEFORE:]
                if len(rest) > _LONGEST or (is_endless and rest):
                    if not is_endless:
                        report.failed(rest[:300].decode("utf-8", "replace"), "no end of line")
                    rest, is_endless = b"", True
                if lines:
                    yield Block(lines, whole, position - len(rest), before)
                on_read(file.tell(), size)
            if rest:
                yield Block([rest], rest, position, complete=False)
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror or error}") from error


def first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of the uncompressed log. Raises LogError."""
    return b"".join(_range(path, 0, count))


def bytes_before(path: Path, end: int) -> bytes:
    """Return the `BEFORE` bytes before a position of the uncompressed log; fewer if it is shorter. Raises LogError."""
    return b"".join(_range(path, max(0, end - BEFORE), end)) if end else b""


def _range(path: Path, begin: int, end: int) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0 if packed else begin)
            position = 0 if packed else begin
            for block in _unpacked(file, Report(path)) if packed else iter(lambda: file.read(_BLOCK), b""):
                yield block[max(0, begin - position) : max(0, end - position)]
                position += len(block)
                if position >= end:
                    return
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror or error}") from error


def _unpacked(file: BinaryIO, report: Report) -> Iterator[bytes]:
    """Decompress a file; a truncated one, such as a log that is being compressed, up to its end."""
    unpacking = zlib.decompressobj(wbits=31)
    packed = b""
    try:
        while packed := packed or file.read(_BLOCK // 8):
            if unpacking.eof:  # another compressed member follows
                unpacking = zlib.decompressobj(wbits=31)
            block = unpacking.decompress(packed, _BLOCK)
            packed = unpacking.unused_data if unpacking.eof else unpacking.unconsumed_tail
            if block:
                yield block
        if not unpacking.eof:
            report.damage = "it is truncated; the part before was imported"
    except zlib.error as error:
        report.damage = f"it is damaged ({error}); the part before was imported"


def written(path: Path) -> int:
    """Return when the log was written, ms. A compressed file may have this time in its header, which copies
    preserve. Raises LogError."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
        if head[:2] == b"\x1f\x8b" and (seconds := int.from_bytes(head[4:8], "little")):
            return seconds * 1000
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror or error}") from error
