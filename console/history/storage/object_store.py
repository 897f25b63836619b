"""Scan files of an object store with DuckDB through pyarrow, which has the store's credentials.

Each access to a file is a request. A table's file never changes, so its footer is cached; and files are not accessed
before they are scanned, except the first one for its columns.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from console.history.storage.file_systems import file_system

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

#: Maximum number of cached footers, of about 10 KB each.
_CACHED_FOOTERS = 2000


class StoreError(Exception):
    """A file cannot be read, or the store cannot be reached. The message has the reason."""


class ObjectStore:
    """`url`: the history's root, as for pyarrow. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._opening = threading.Lock()
        self._location: tuple[pafs.FileSystem, str] | None = None
        self._file = lru_cache(_CACHED_FOOTERS)(self._new_file)

    def rows(self, urls: Sequence[str]) -> ds.Dataset:
        """Return the rows of one or more files of a table as a dataset that DuckDB can register. Raises StoreError if
        the first file cannot be read; the others are read during the scan."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        try:
            files = [self._file(url) for url in urls]
            first = files[0]
            return ds.FileSystemDataset(files, first.physical_schema, first.format, first.filesystem)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(str(error)) from error

    def _new_file(self, url: str) -> ds.ParquetFileFragment:
        import pyarrow.dataset as ds

        system, root = self._opened()
        path = root + unquote(url.removeprefix(self._url))
        return ds.ParquetFileFormat().make_fragment(path, system)

    def _opened(self) -> tuple[pafs.FileSystem, str]:
        with self._opening:
            if self._location is None:
                self._location = file_system(self._url)
            return self._location
