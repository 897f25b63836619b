"""The stamp of a journal (`message_file.Stamp`) in a small file of its own, replaced as a whole."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from google_crc32c import value

from brokers.server.journal.segment_file import WriteFailed, sync_folder
from brokers.server.message_file import Stamp
from brokers.server.sqlite_file import DiskFull, StoreError

NAME = "stamp.json"


def read_stamp(folder: Path) -> Stamp | None:
    """Return the stamp; None if none has been written. Raises StoreError if it is damaged."""
    path = folder / NAME
    try:
        checksum, _, text = path.read_bytes().partition(b" ")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    if checksum != b"%08x" % value(text):
        raise StoreError(f"{path} is damaged")
    return Stamp(**json.loads(text))


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Raises StoreError, DiskFull if there is no room; then the old one is still there."""
    path, draft = folder / NAME, folder / f"{NAME}.new"
    text = json.dumps(asdict(stamp)).encode()
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"%08x %b" % (value(text), text))
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
