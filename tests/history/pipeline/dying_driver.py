"""A process with a Spark session that is killed before it commits a table, whose name is its argument: the table's new
files are written, and the tables that a run commits before it have theirs."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

from console.history.storage.commits import DeltaFolder
from tests.history.processes import ROOT


def main(table: str) -> None:
    commit = DeltaFolder.commit

    def dying_commit(folder: DeltaFolder, *arguments: Any, **more: Any) -> None:
        if folder.name == table:
            os.killpg(0, signal.SIGKILL)
        commit(folder, *arguments, **more)

    DeltaFolder.commit = dying_commit  # type: ignore[method-assign]
    sys.argv = [str(ROOT / "manage.py"), "history", "--session"]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
