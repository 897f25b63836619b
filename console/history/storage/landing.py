"""The landing folder: the contract between the writers (recorder, imported and generated logs) and the pipeline.

Files are `<HEADGATE_HISTORY_URL>/landing/<kind>/<name>.parquet`, with a kind of `SCHEMAS`. The folder `recorder` beside
`landing` belongs to the recorders (`fresh.py` is its contract); all others belong to the pipeline.

Guarantees for readers:
- A file appears complete or not at all, and never changes. Files whose names begin with a dot are unfinished: readers
  ignore them (as Spark does).
- Rows are delivered at least once: after a kill a row may be in two files. Rows with equal `KEYS` are duplicates, of
  which any one may be used.
- Rows arrive in any order, and late: an imported log may be years old. A file may have rows of many days.
- A reader may delete a processed file older than `SETTLED_SECONDS`: no writer reads older ones.

Times are UTC with milliseconds. Values that a broker did not report are null, never 0.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import uuid
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from console.history.storage.file_systems import file_system
from console.history.storage.landing_keys import KEYS, LandingError

__all__ = [
    "COVERAGE",
    "EVENTS",
    "KEYS",
    "MAX_ROWS",
    "SAMPLES",
    "SCHEMAS",
    "SETTLED_SECONDS",
    "Landing",
    "LandingError",
]

#: Maximum age, in seconds, of files that a writer reads in the landing folder to find its last position.
SETTLED_SECONDS = 7200

#: Maximum number of rows of a file.
MAX_ROWS = 500_000

_TIME = pa.timestamp("ms", tz="UTC")


def _required(name: str, of: pa.DataType) -> pa.Field:
    return pa.field(name, of, nullable=False)


#: An event that a broker reported, or a line of its log.
EVENTS = pa.schema(
    [
        _required("broker", pa.string()),  # slug of the configured broker, or the name given to an imported log
        # What numbered the event: the broker's event journal, `log` for imported lines, `made` for generated ones.
        _required("run", pa.string()),
        # Unique in its run: consecutive from a recorder, a hash of the line from a log.
        _required("number", pa.int64()),
        _required("at", _TIME),
        _required("sequence", pa.int64()),  # order of events of one broker with the same `at`
        _required("kind", pa.string()),  # a notification declared in brokers/model/; from a log also `client-warning`
        pa.field(
            "object", pa.string()
        ),  # the managed object's name, such as type=Queue,virtualhost=default,name=orders
        pa.field("object_type", pa.string()),  # Broker, VirtualHost, Queue, Policy, Exchange, Connection, Producer
        pa.field("virtualhost", pa.string()),
        pa.field("queue", pa.string()),  # the queue's bare name
        pa.field("connection", pa.string()),  # as in the log's subject: con:2(guest@127.0.0.1:40000/test)
        pa.field("channel", pa.string()),  # ch:1
        pa.field("client", pa.string()),  # user, container and address of the client, for display
        pa.field("link", pa.string()),  # the producer's link name, as the client chose it
        pa.field(
            "reasons", pa.list_(pa.string())
        ),  # why a producer is blocked: queue-overfull:NAME, operator-stop:SCOPE
        # The queue after the event.
        pa.field("state", pa.string()),  # NORMAL, OVERFULL, STOPPED, OVERFULL_STOPPED
        pa.field("depth_messages", pa.int64()),
        pa.field("depth_bytes", pa.int64()),
        pa.field("blocked_producers", pa.int64()),
        # The levels in the event's text; 0: no limit.
        pa.field("stop_bytes", pa.int64()),  # for overfull and dropped: the log's "Capacity"
        pa.field("stop_messages", pa.int64()),
        pa.field("resume_bytes", pa.int64()),  # for underfull: the log's "Resume Capacity"
        pa.field("resume_messages", pa.int64()),
        # For operators' stops, starts, edits and purges.
        pa.field("actor", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("scope", pa.string()),  # queue VH/NAME, exchange VH/NAME, virtualhost VH [PATTERN], broker [PATTERN]
        pa.field("pattern", pa.string()),
        pa.field("queues", pa.int64()),  # number of queues affected by the stop or start
        pa.field("producers", pa.int64()),  # number of their producers
        pa.field("before", pa.string()),  # policy-changed: JSON map, attribute -> old value; null: not set
        pa.field("after", pa.string()),  # policy-changed: JSON map, attribute -> new value; null: not set
        pa.field("lasted_ms", pa.int64()),  # underfull: overfull time; producer-released: blocked time
        pa.field("messages", pa.int64()),  # dropped, purged or recovered messages
        pa.field("text", pa.string()),  # the line of the broker log, without its timestamp
        pa.field("attributes", pa.string()),  # JSON map: all attributes of the broker's event
        _required("source", pa.string()),  # recorder, log, made
    ]
)

#: The state of one queue at one time. A broker sends changed queues about once a second, so between two samples of a
#: queue nothing has changed if COVERAGE has no gap there. `whole`: from a read of all queues of the broker, at the
#: start of each connection and every few minutes.
SAMPLES = pa.schema(
    [
        _required("broker", pa.string()),
        _required("run", pa.string()),
        _required("at", _TIME),
        _required("virtualhost", pa.string()),
        _required("queue", pa.string()),
        pa.field("state", pa.string()),
        pa.field("depth_messages", pa.int64()),
        pa.field("depth_bytes", pa.int64()),
        pa.field("unacknowledged_messages", pa.int64()),
        pa.field("producers", pa.int64()),
        pa.field("blocked_producers", pa.int64()),
        pa.field("draining_producers", pa.int64()),
        pa.field("consumers", pa.int64()),
        pa.field("credit", pa.int64()),
        pa.field("rate_in", pa.float64()),  # messages/s, over the last second
        pa.field("rate_out", pa.float64()),
        # Totals since the start of the broker process or the creation of the queue: a smaller value is a reset.
        pa.field("enqueued_messages", pa.int64()),
        pa.field("dequeued_messages", pa.int64()),
        pa.field("rejected_messages", pa.int64()),
        pa.field("dropped_messages", pa.int64()),
        pa.field("overfull_count", pa.int64()),
        pa.field("overfull_ms", pa.int64()),
        pa.field("longest_wait_ms", pa.int64()),
        pa.field("overfull_since", _TIME),
        pa.field("stopped_since", _TIME),
        # Effective limits; 0: no limit.
        pa.field("capacity_bytes", pa.int64()),
        pa.field("stop_bytes", pa.int64()),
        pa.field("resume_bytes", pa.int64()),
        pa.field("capacity_messages", pa.int64()),
        pa.field("stop_messages", pa.int64()),
        pa.field("resume_messages", pa.int64()),
        _required("whole", pa.bool_()),
        _required("source", pa.string()),  # recorder, made
    ]
)

#: When a broker was recorded. From `at` to `until` every change of its queues has reached the landing folder
#: (`followed`), or it was not recorded, or events are missing (not `followed`, with the `reason`). Time without a row
#: was not recorded either. The rows of a connected recorder are contiguous.
COVERAGE = pa.schema(
    [
        _required("broker", pa.string()),
        _required("run", pa.string()),
        _required("at", _TIME),
        _required("until", _TIME),
        _required("followed", pa.bool_()),
        pa.field("reason", pa.string()),
        pa.field("first_missing", pa.int64()),  # numbers of events that the broker has deleted
        pa.field("last_missing", pa.int64()),
        _required("source", pa.string()),  # recorder, log (events only: there are no samples), made
    ]
)

SCHEMAS: Mapping[str, pa.Schema] = {"events": EVENTS, "samples": SAMPLES, "coverage": COVERAGE}


class Landing:
    """`url`: the history's root, a folder or a URL that pyarrow supports (s3://, gs://, hdfs://). Raises
    LandingError."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._files, self.root = file_system(url)
        except (pa.ArrowInvalid, OSError) as error:
            raise LandingError(f"the history folder {url} cannot be used: {error}") from error
        self.is_local = isinstance(self._files, pafs.LocalFileSystem)

    def folder(self, kind: str) -> str:
        return f"{self.root}/landing/{kind}"

    def publish(self, kind: str, rows: pa.Table, name: str = "") -> str:
        """Publish these rows as a complete file and return its name once it is durable. A file of that name is
        replaced: use the same name only for the same rows. Raises LandingError; then there is no file."""
        name = f"{name or uuid.uuid4().hex}.parquet"
        table = rows.select(SCHEMAS[kind].names).cast(SCHEMAS[kind])
        self.put(f"landing/{kind}/{name}", encoded(table))
        return name

    def put(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Write or replace a file at a path relative to the root, atomically. Not `durable`: a power failure may lose
        it. Raises LandingError."""
        target = f"{self.root}/{path}"
        try:
            if self.is_local:
                _replace(target, content, durable=durable)
            else:
                with self._files.open_output_stream(target) as stream:  # an object appears when its stream is closed
                    stream.write(content)
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{target} cannot be written: {_why(error)}") from error

    def get(self, path: str) -> bytes | None:
        """Return the content of the file at a path relative to the root; None if there is none. Raises LandingError."""
        source = f"{self.root}/{path}"
        try:
            with self._files.open_input_stream(source) as stream:
                content: bytes = stream.read()
                return content
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{source} cannot be read: {_why(error)}") from error

    def names(self, kind: str, prefix: str = "") -> list[str]:
        """Return the names of the finished files of a kind, with `.parquet`, sorted. Raises LandingError."""
        return sorted(file.base_name for file in self._finished(kind) if file.base_name.startswith(prefix))

    def names_of_recorders(self, kind: str) -> list[str]:
        """Return the names of the finished files of a kind that recorders landed, in any order. For readers that list
        them often: a local folder is read without its files' attributes. Raises LandingError."""
        if not self.is_local:
            return self.names(kind, "recorder~")
        try:
            found = os.listdir(self.folder(kind))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LandingError(f"{self.folder(kind)} cannot be read: {_why(error)}") from error
        return [name for name in found if name.startswith("recorder~") and name.endswith(".parquet")]

    def landed(self) -> dict[tuple[str, str], dt.datetime]:
        """Return when each finished file landed, by (kind, name). Raises LandingError."""
        return {(kind, file.base_name): file.mtime for kind in SCHEMAS for file in self._finished(kind)}

    def files(self) -> list[tuple[str, str, int, int]]:
        """Return (kind, name, time in ns, size in bytes) of each finished file. Raises LandingError."""
        return [
            (kind, file.base_name, file.mtime_ns or 0, file.size or 0)
            for kind in SCHEMAS
            for file in self._finished(kind)
        ]

    def _finished(self, kind: str) -> list[pafs.FileInfo]:
        folder = pafs.FileSelector(self.folder(kind), allow_not_found=True)
        try:
            try:
                found = self._files.get_file_info(folder)
            except FileNotFoundError:
                # The folder was created between two checks of pyarrow.
                found = self._files.get_file_info(folder)
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{self.folder(kind)} cannot be read: {_why(error)}") from error
        return [each for each in found if each.base_name.endswith(".parquet") and each.base_name[0] != "."]

    def remove(self, kind: str, name: str) -> None:
        """Remove a processed file; see above for when. Raises LandingError."""
        self.delete(f"landing/{kind}/{name}")

    def delete(self, path: str) -> None:
        """Remove the file at a path relative to the root, if it exists. Raises LandingError."""
        target = f"{self.root}/{path}"
        try:
            self._files.delete_file(target)
        except FileNotFoundError:
            return
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{target} cannot be removed: {_why(error)}") from error

    def modified(self, path: str) -> dt.datetime | None:
        """Return when the file at a path relative to the root was written; None if there is none. Raises
        LandingError."""
        target = f"{self.root}/{path}"
        try:
            written: dt.datetime | None = self._files.get_file_info(target).mtime
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{target} cannot be read: {_why(error)}") from error
        return written

    def entries(self, path: str) -> list[pafs.FileInfo]:
        """Return what a folder, at a path relative to the root, contains; nothing if there is none. Raises
        LandingError."""
        place = f"{self.root}/{path}"
        try:
            found: list[pafs.FileInfo] = self._files.get_file_info(pafs.FileSelector(place, allow_not_found=True))
        except FileNotFoundError:
            return []  # created or removed between two checks of pyarrow
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{place} cannot be read: {_why(error)}") from error
        return found

    def file_names(self, folder: str) -> list[str]:
        """Return the names of the finished files in a folder relative to the root, sorted. Raises LandingError."""
        return sorted(each.base_name for each in self.entries(folder) if each.is_file and each.base_name[0] != ".")

    def set_aside(self, kind: str, name: str, reason: str) -> None:
        """Move a file that cannot be processed to the folder `aside`, with the reason, so that it does not delay the
        others. Raises LandingError."""
        self.put(f"aside/{kind}/{name}.reason", reason.encode())
        source, target = f"{self.folder(kind)}/{name}", f"{self.root}/aside/{kind}/{name}"
        try:
            self._files.move(source, target)
        except FileNotFoundError:
            return
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{source} cannot be moved: {_why(error)}") from error

    def files_set_aside(self) -> dict[str, str]:
        """Return the reason by file, as `kind/name`. Raises LandingError."""
        found = {}
        for kind in SCHEMAS:
            for name in self.file_names(f"aside/{kind}"):
                if not name.endswith(".reason"):
                    reason = self.get(f"aside/{kind}/{name}.reason") or b""
                    found[f"{kind}/{name}"] = reason.decode(errors="replace")
        return found

    def remove_unfinished(self, before: dt.datetime) -> int:
        """Remove unfinished files of killed writers, not modified since `before`; return their number. An object store
        has none, since an object appears complete. Raises LandingError."""
        if not self.is_local:
            return 0
        removed = 0
        parents = ("landing", "aside", "recorder", "pipeline")
        inner = [entry.path for parent in parents for entry in self.entries(parent) if not entry.is_file]
        for folder in (*(f"{self.root}/{each}" for each in (*parents, "imports")), *inner):
            try:
                for entry in self._files.get_file_info(pafs.FileSelector(folder, allow_not_found=True)):
                    if entry.is_file and entry.base_name[0] == "." and entry.mtime < before:
                        os.unlink(entry.path)
                        removed += 1
            except FileNotFoundError:
                continue
            except (pa.ArrowException, OSError) as error:
                raise LandingError(f"{folder} cannot be cleaned up: {_why(error)}") from error
        return removed

    def read(self, kind: str, name: str) -> pa.Table:
        """Return the rows of a file. Raises LandingError."""
        return self.read_rows(f"landing/{kind}/{name}")

    def read_rows(self, path: str) -> pa.Table:
        """Return the rows of the Parquet file at a path relative to the root. Raises LandingError."""
        path = f"{self.root}/{path}"
        try:
            return pq.read_table(path, filesystem=self._files, partitioning=None)
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{path} cannot be read: {_why(error)}") from error

    def footer(self, kind: str, name: str) -> pq.FileMetaData:
        """Return the footer of a file. Raises LandingError."""
        return self._footer(f"{self.folder(kind)}/{name}")

    def rows_in(self, path: str) -> int:
        """Return the number of rows of the Parquet file at a path relative to the root, by its footer. Raises
        LandingError."""
        return int(self._footer(f"{self.root}/{path}").num_rows)

    def _footer(self, path: str) -> pq.FileMetaData:
        try:
            return pq.read_metadata(path, filesystem=self._files)
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{path} cannot be read: {_why(error)}") from error

    def read_all(self, kind: str) -> pa.Table:
        """Return all rows of a kind; for tests and small histories. Raises LandingError."""
        return pa.concat_tables([SCHEMAS[kind].empty_table(), *(self.read(kind, name) for name in self.names(kind))])

    def newest(self, kind: str, prefix: str) -> str:
        """Return the name of the last published file of a kind; empty if there is none. Raises LandingError."""
        names = self.names(kind, prefix)
        try:
            written = self._files.get_file_info([f"{self.folder(kind)}/{name}" for name in names])
        except (pa.ArrowException, OSError) as error:
            raise LandingError(f"{self.folder(kind)} cannot be read: {_why(error)}") from error
        return max(zip((info.mtime_ns or 0 for info in written), names, strict=True), default=(0, ""))[1]


def _replace(target: str, content: bytes, *, durable: bool) -> None:
    folder, name = os.path.split(target)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    unfinished = f"{folder}/.{name}.{uuid.uuid4().hex}"
    try:
        with open(unfinished, "xb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.rename(unfinished, target)
    except BaseException:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise
    if not durable:
        return
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)  # makes the name durable
    finally:
        os.close(entry)


def encoded(rows: pa.Table) -> bytes:
    """Return the rows as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", version="2.6")
    return buffer.getvalue()


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
