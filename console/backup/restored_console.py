"""What a restored database of the console must not go on with: work that has gone on since the backup, and sign-ins.

A job that was running has done more since: resumed unseen, a copy would send the same messages again. A session that
was ended since would be valid again. Plain SQL: the database may be of an earlier release.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from console.backup.archive import BackupError

_JOBS = ("message_jobs_messagejob", "bulk_bulkedit")
_SESSIONS = "django_session"


def settle(database: Path, moment: str) -> list[str]:
    """Interrupt running jobs and remove all sessions. Return lines for the operator. `moment`: that of the backup.
    Raises BackupError."""
    try:
        with closing(sqlite3.connect(database)) as db:
            interrupted = _settle(db, f"restored from a backup of {moment}: what it has done since is not known")
            db.commit()
    except sqlite3.Error as error:
        raise BackupError(f"the console's database cannot be changed: {error}") from error
    lines = [
        "All sessions have ended. Users, roles and API tokens are those of the backup: remove again what was removed"
        " since."
    ]
    if interrupted:
        lines.append(
            f"Message jobs and bulk edits that were running are interrupted ({interrupted:,}): what they have done"
            " since the backup is not known. Look at their queues before you resume them."
        )
    return lines


def _settle(db: sqlite3.Connection, why: str) -> int:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if _SESSIONS in tables:
        db.execute(f"DELETE FROM {_SESSIONS}")  # noqa: S608
    return sum(_interrupt(db, table, why) for table in _JOBS if table in tables)


def _interrupt(db: sqlite3.Connection, table: str, why: str) -> int:
    columns = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
    also = ", blocked = ''" if "blocked" in columns else ""
    changed = db.execute(f"UPDATE {table} SET state = 'interrupted', error = ?{also} WHERE state = 'running'", (why,))  # noqa: S608
    return changed.rowcount
