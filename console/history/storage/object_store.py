"""Files of an object store as DuckDB can scan them: through pyarrow, which has the store's credentials.

On a store each look at a file is a request. A table's file never changes, so its footer is kept once it was read; and
files are not asked for before they are scanned, but for the first one's columns.
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

#: Footers that are kept, of some ten KB each.
_KEPT = 2000


class StoreError(Exception):
    """A file cannot be read, or the store cannot be reached. The message is the reason."""


class ObjectStore:
    """`url`: the history's root, as pyarrow knows it. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._opening = threading.Lock()
        self._place: tuple[pafs.FileSystem, str] | None = None
        self._file = lru_cache(_KEPT)(self._new_file)

    def rows(self, urls: Sequence[str]) -> ds.Dataset:
        """The rows of a table's files, one at least, as what DuckDB can register. Raises StoreError when the first
        cannot be read; others are read when it comes to them."""
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
            if self._place is None:
                self._place = file_system(self._url)
            return self._place
