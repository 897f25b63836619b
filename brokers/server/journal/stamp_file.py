"""The stamp of a journal, in a small file of its own that is replaced as a whole.

It is there twice, in pages of their own, each with a checksum, so that a damaged byte, or a sector that cannot be read,
costs neither the stamp nor the start. It also has the serial of the newest segment when it was written: if the files of
all segments are lost, nothing else says that there were any.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from google_crc32c import value

from brokers.server.journal.segment_file import PAGE, WriteFailed, sync_folder
from brokers.server.sqlite_file import DiskFull, StoreError

NAME = "stamp.json"
#: Bytes of a copy besides its text: the checksum, a blank, and the end of the line.
_BESIDE = 10


@dataclass(frozen=True, slots=True)
class Stamp:
    """The owner of a store: the broker's identity, the virtual host, the broker's number of starts at the last write,
    and the highest number of a queue that has had a message in it."""

    identity: str
    virtualhost: str
    generation: int
    last_queue: int = 0


def read_stamp(folder: Path) -> tuple[Stamp | None, int]:
    """Return the stamp, None if none has been written, and the serial of the newest segment then. Raises StoreError if
    it is damaged."""
    path = folder / NAME
    content = read_copies(folder)
    if content is None:
        return None, 0
    half = len(content) // 2
    for line in (content[:half], content[half:]):
        checksum, text = line[:8], line[9:-1]
        if checksum == b"%08x" % value(text):
            values: dict[str, Any] = json.loads(text)
            serial = values.pop("serial", 0)
            return Stamp(**values), serial
    raise StoreError(f"{path} is damaged")


def read_copies(folder: Path) -> bytes | None:
    """Return the content of the stamp's file, zeros for a copy that the disk cannot read; None if there is no file.
    Raises StoreError."""
    path = folder / NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    content = b""
    try:
        size = os.fstat(descriptor).st_size
        for at, end in ((0, size // 2), (size // 2, size)):
            with suppress(OSError):
                content += os.pread(descriptor, end - at, at)
            content = content.ljust(end, b"\0")
    finally:
        os.close(descriptor)
    return content


def write_stamp(folder: Path, stamp: Stamp, serial: int = 0) -> None:
    """Write a stamp; `serial`, and the highest number of a queue, only increase. Raises StoreError, DiskFull if there
    is no room; then the old one is still there."""
    path, draft = folder / NAME, folder / f"{NAME}.new"
    with suppress(StoreError):
        before, serial_before = read_stamp(folder)
        serial = max(serial, serial_before)
        if before is not None and before.last_queue > stamp.last_queue:
            stamp = replace(stamp, last_queue=before.last_queue)
    text = json.dumps(asdict(stamp) | {"serial": serial}).encode()
    text = text.ljust(-(-(len(text) + _BESIDE) // PAGE) * PAGE - _BESIDE)
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            content = b"%08x %b\n" % (value(text), text) * 2
            while content:
                content = content[os.write(descriptor, content) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, path)
        sync_folder(folder)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        failed = WriteFailed(path, error)
        raise DiskFull(str(failed)) if failed.full else failed from error
