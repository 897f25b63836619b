"""Celery messages as files in the data folder: kombu's filesystem transport, made safe for concurrent readers and
writers.

kombu's own transport writes a message under its final name, so that a reader may get a partial message. It takes a
message by moving it to the system's folder for temporary files, which is a copy if that is another disk: two readers
may both get it, and other users may read it there. And it names files by a clock that restarts with the machine.

Here a message appears by one atomic rename and is taken by another, within one folder, and exactly once. If a reader
dies while it reads, the message stays in `taken/` and is requeued later. A message is deleted once it is read: work
that must not be lost is a database row, which a sweep finds.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.encoding import bytes_to_str, str_to_bytes
from kombu.utils.json import dumps, loads

SCHEME = "headgate-files"

#: Seconds after which a taken message is requeued: its reader has died.
TAKEN_TIMEOUT = 60.0


class Channel(filesystem.Channel):  # type: ignore[misc]
    """One reader or writer of the folder."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._taken = Path(self.data_folder_in) / "taken"
        self._taken.mkdir(mode=0o700, exist_ok=True)
        self._requeue_abandoned()

    def _put(self, queue: str, payload: Any, **_: Any) -> None:
        name = f"{time.time_ns():020d}_{uuid.uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        part = folder / f".{name}.part"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(str_to_bytes(dumps(payload)))
        part.rename(folder / name)

    def _get(self, queue: str) -> Any:
        wanted = f"{queue}.msg"
        for name in sorted(os.listdir(self.data_folder_in)):
            if name.partition(".")[2] != wanted:
                continue
            mine = self._taken / name
            try:
                (Path(self.data_folder_in) / name).rename(mine)
            except FileNotFoundError:
                continue  # another reader was first
            payload = mine.read_bytes()
            mine.unlink()
            return loads(bytes_to_str(payload))
        raise Empty

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Bind a queue. The table of the exchange is replaced atomically."""
        file = self._exchange_file(exchange)
        self.control_folder.mkdir(mode=0o700, exist_ok=True)
        with _locked(self.control_folder / ".lock"):
            bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
            table = self.get_table(exchange)
            if bound in table:
                return
            part = file.with_name(f".{file.name}.part")
            part.write_bytes(str_to_bytes(dumps([bound, *table])))
            part.rename(file)

    def _requeue_abandoned(self) -> None:
        long_ago = time.time() - TAKEN_TIMEOUT
        for file in self._taken.iterdir():
            try:
                if file.stat().st_ctime < long_ago:
                    file.rename(Path(self.data_folder_in) / file.name)
            except FileNotFoundError:
                continue


class Transport(filesystem.Transport):  # type: ignore[misc]
    """The transport; see the module's docstring."""

    Channel = Channel
    polling_interval = 0.5

    def drain_events(self, connection: Any, timeout: float | None = None, **more: Any) -> Any:
        """Wait for at most 0.5 s, since a worker checks for shutdown only between two calls."""
        return super().drain_events(connection, None if timeout is None else min(timeout, 0.5), **more)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def register() -> None:
    """Register the transport with kombu under its URL scheme."""
    TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"
