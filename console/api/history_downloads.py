"""Streamed export of history rows: CSV for spreadsheets, Parquet for other programs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, StreamingHttpResponse

from console.api.streaming import streamed

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def download(request: HttpRequest, rows: pa.RecordBatchReader, kind: str, name: str) -> StreamingHttpResponse:
    """Stream the rows as a file. `kind`: of `KINDS`; `name`: file name without its extension."""
    parts = _csv(rows, rows.schema) if kind == "csv" else _parquet(rows, rows.schema)
    return streamed(request, parts, KINDS[kind], f"{name}.{kind}")


class _DrainedBuffer(io.BytesIO):
    """A buffer of the bytes written since the last `take`."""

    def take(self) -> bytes:
        content = self.getvalue()
        self.seek(0)
        self.truncate()
        return content


def _csv(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    import pyarrow.csv as pacsv

    buffer = _DrainedBuffer()
    with pacsv.CSVWriter(buffer, schema) as writer:
        for batch in batches:
            writer.write_batch(_escape_formulas(batch))
            yield buffer.take()
    yield buffer.take()


def _escape_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Prefix text that a spreadsheet would run as a formula with an apostrophe: clients choose their own names."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [
        pc.replace_substring_regex(column, r"^([=+\-@\t\r])", r"'\1") if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _parquet(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    sent = _ForwardOnlyFile()
    with pq.ParquetWriter(sent, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sent.take()
    yield sent.take()


class _ForwardOnlyFile(io.RawIOBase):
    """A file written sequentially that buffers only what has not been sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        part = bytes(content)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)
