"""Files of an earlier release beside journals that are not made of what they have now.

A file stays beside the journal that it has become until a start has succeeded. An earlier release that is started in
between, after its own `store adopt`, accepts messages into the file; and a copy of before may be restored over the
folder. Then the file is a store of its own, not what is left of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from brokers.server.earlier_store.survey import earlier_files, read_earlier_stamp
from brokers.server.journal.stamp_file import read_stamp
from brokers.server.sqlite_file import StoreError
from brokers.server.store_folder import journal_of
from brokers.server.store_survey import FOLDER, Configuration


def not_become(folder: Path) -> list[Path]:
    """Return the files that were written to after they became the journal beside them, or never became it: later
    starts, of this broker or another, have stamped them. Also those whose stamp cannot be read."""
    return [path for path in earlier_files(folder) if journal_of(path).is_dir() and not _has_become(path)]


def _has_become(path: Path) -> bool:
    try:
        stamp, (made, _) = read_earlier_stamp(path), read_stamp(journal_of(path))
    except StoreError:
        return False
    if stamp is None:  # of before stamps
        return True
    return made is not None and made.identity == stamp.identity and made.generation >= stamp.generation


def in_doubt(config: Configuration) -> list[Path]:
    """Return the files of which the configuration does not say that the journal beside each is the store instead: no
    command or start may take the journal before one of both is set aside."""
    folder = config.path.parent / FOLDER
    known = [path for path in earlier_files(folder) if path.name in config.stores and journal_of(path).is_dir()]
    unknown = [path for path in not_become(folder) if journal_of(path).name not in config.stores]
    return sorted({*known, *unknown})


def reason(config: Configuration, path: Path) -> str:
    """Return why a file is in doubt."""
    if path.name in config.stores:
        return f"{journal_of(path)} is there beside {path}, which is the message store that {config.path} knows"
    return f"{journal_of(path)} is there beside {path}, and was not made of what that has now"


def advice(data: Path, doubtful: Sequence[Path]) -> str:
    """Return what to do about these files."""
    names = " ".join(f"--store {journal_of(path).name}" for path in doubtful)
    journals = "the journal" if len(doubtful) == 1 else "the journals"
    return (
        f"`headgate store set-aside --data {data} {names}` moves {journals} to a dated folder beside {data / FOLDER},"
        f" to stay there, and leaves {', '.join(map(str, doubtful))}: then start again"
    )
