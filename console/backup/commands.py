"""`headgate backup FILE` and `headgate restore FILE`. They read and write files alone, without Django."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from console.backup.archive import BackupError
from console.backup.console_files import MISSING, OWN
from console.backup.contents import strangers
from console.backup.restoration import restore
from console.backup.taking import take

_NOT_THERE = "which was not in the data folder, and DATABASE_URL did not name it."


def main_backup(argv: list[str]) -> int:
    options = _options("backup", "Copy everything in a data folder, which may be in use, into one file.", argv)
    data, file = options.data.resolve(), options.file.absolute()

    def work() -> list[str]:
        facts = take(data, file, os.environ)
        lines = [f"Backup of {data} as of {facts['moment']}: {file} ({_size(file.stat().st_size)})."]
        if facts["database"] == MISSING:
            lines.append(f"Not in it: the console's database, {_NOT_THERE} If it is elsewhere, back it up there.")
        elif facts["database"] != OWN:
            lines.append(f"Not in it: the console's database ({facts['database']}). Back it up with its own tools.")
        if facts["history"]:
            lines.append(f"Not in it: the history at {facts['history']}.")
        if left := strangers(data):
            lines.append(f"Not in it, since they are not Headgate's: {', '.join(left)}.")
        damaged.extend(_named(facts["damage"]))
        return [*lines, "It contains secrets and messages; only its owner can read it."]

    damaged: list[str] = []
    return _run("backup", work) or (_fail("backup", f"it was made, but {'; '.join(damaged)}") if damaged else 0)


def main_restore(argv: list[str]) -> int:
    options = _options("restore", "Restore a backup into an empty folder, with nothing running there.", argv)
    data, file = options.data.resolve(), options.file.absolute()

    def work() -> list[str]:
        facts = restore(file, data, os.environ)
        lines = [f"Restored {data} as of {facts['moment']}, from release {facts['release']}."]
        if facts["database"] == MISSING:
            lines.append(f"It is without the console's database, {_NOT_THERE} If it was elsewhere, set DATABASE_URL.")
        if facts["history"]:
            lines.append(f"The history was at {facts['history']}: set HEADGATE_HISTORY_URL.")
        lines += [f"{text}: the start repairs it, and names what is lost." for text in _named(facts["damaged"])]
        lines += facts["settled"]
        if (owner := data.parent.stat().st_uid) != os.geteuid():
            lines.append(
                f"It belongs to the user {os.geteuid()}, and the folder around it to {owner}: if that is the user of"
                f" the service, `chown -R {owner} {data}`."
            )
        lines.append(
            "Do not run it beside the original: both would deliver the same messages, send the same alerts and act on"
            " the same brokers."
        )
        return [*lines, f"Start it with `headgate up --data {data}`."]

    return _run("restore", work)


def _run(name: str, work: Callable[[], list[str]]) -> int:
    """Run a command; return its exit code: 1 after a line with the reason."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is unfinished is removed
    try:
        lines = work()
    except BackupError as error:
        return _fail(name, str(error))
    except OSError as error:
        return _fail(name, f"{error.filename or 'the disk'}: {error.strerror or error}")
    except KeyboardInterrupt:
        return _fail(name, "stopped; nothing was left behind")
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _named(damage: Mapping[str, str]) -> list[str]:
    return [f"{name} is damaged ({text})" for name, text in sorted(damage.items())]


def _fail(name: str, why: str) -> int:
    sys.stderr.write(f"headgate {name}: {why}\n")
    return 1


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _options(name: str, description: str, argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"headgate {name}", description=description)
    parser.add_argument("file", type=Path, metavar="FILE", help="the file of the backup")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("HEADGATE_DATA") or "data"),
        help="the data folder (default: $HEADGATE_DATA or ./data)",
    )
    return parser.parse_args(argv)
