"""Remove what the vacuum of a table leaves: empty folders, and the temporary files of Spark jobs that were killed.

Every commit has a folder of its own, and removing its files leaves it empty.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os

import pyarrow.fs as pafs

from console.history.storage.file_systems import file_system

_LOG, _TEMPORARY = "_delta_log", "_temporary"


def remove_unused_folders(url: str, before: dt.datetime) -> None:
    """Remove temporary files and, on a local file system, empty folders of the table at `url` that were last changed
    before that time. An object store has no folders. Raises OSError."""
    files, root = file_system(url)
    found = files.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
    entries = [entry for entry in found if entry.mtime is not None and entry.mtime < before]
    for entry in entries:
        if entry.is_file and _TEMPORARY in _parts(entry.path, root):
            files.delete_file(entry.path)
    if not isinstance(files, pafs.LocalFileSystem):
        return
    folders = [entry.path for entry in entries if not entry.is_file and _parts(entry.path, root)[0] != _LOG]
    for folder in sorted(folders, key=len, reverse=True):  # inner folders first
        with contextlib.suppress(OSError):  # not empty
            os.rmdir(folder)


def _parts(path: str, root: str) -> list[str]:
    return path.removeprefix(f"{root}/").split("/")
