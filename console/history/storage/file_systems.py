"""The file system that a history lies on, as pyarrow knows it: this machine's, or an object store's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.fs as pafs


def file_system(url: str) -> tuple[pafs.FileSystem, str]:
    """It and the path on it, without a slash at the end. `url`: a folder or a URL that pyarrow knows (s3://, gs://,
    abfss://, hdfs://). Raises OSError, ValueError."""
    import pyarrow.fs as pafs

    if "://" in url:
        files, root = pafs.FileSystem.from_uri(url)
    else:
        files, root = pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(url))
    return files, root.rstrip("/")


def of_table(url: str) -> pafs.FileSystem:
    """A Delta table's folder alone, for deltalake to read its files from. The one that it has by itself is of Python:
    pyarrow's threads call it, and one that still does when the process ends makes that an abort, though all is done."""
    import pyarrow.fs as pafs

    files, root = file_system(url)
    return pafs.SubTreeFileSystem(root, files)
