"""The pyarrow file system of a history: local, or an object store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.fs as pafs


def file_system(url: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system and the path on it, without a trailing slash. `url`: a folder, or a URL that pyarrow
    supports (s3://, gs://, abfss://, hdfs://). Raises OSError, ValueError."""
    import pyarrow.fs as pafs

    if "://" in url:
        files, root = pafs.FileSystem.from_uri(url)
    else:
        files, root = pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(url))
    return files, root.rstrip("/")


def of_table(url: str) -> pafs.FileSystem:
    """Return the file system of a Delta table's folder, for deltalake. Its own one is implemented in Python: a thread
    of pyarrow that still calls it at exit aborts the process."""
    import pyarrow.fs as pafs

    files, root = file_system(url)
    return pafs.SubTreeFileSystem(root, files)
