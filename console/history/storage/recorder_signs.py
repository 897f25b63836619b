"""When a broker's recorder last published: a sign of life that is read without the libraries of the tables."""

from __future__ import annotations

import datetime as dt
import os

from console.history.storage.file_systems import file_system
from console.history.storage.fresh import CATALOG, folder


def last_sign(url: str, broker: str) -> dt.datetime | None:
    """Return when the recorder of the broker last replaced its catalog in the history `url`, which a running one does
    at least about every 20 s; None if there is none. Raises OSError."""
    if "://" not in url:
        try:
            return dt.datetime.fromtimestamp(
                os.stat(f"{os.path.expanduser(url)}/{folder(broker)}/{CATALOG}").st_mtime, dt.UTC
            )
        except FileNotFoundError:
            return None
    files, root = file_system(url)
    written: dt.datetime | None = files.get_file_info(f"{root}/{folder(broker)}/{CATALOG}").mtime
    return written
