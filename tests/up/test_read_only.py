"""A console without write permission for its database: each process reports it in one line, and changes nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.history.processes import environment, manage
from tests.read_only import respecting_permissions
from tests.up.running import ROOT


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("migrated") / "data"
    done = manage("migrate", "--verbosity", "0", env=environment(data))
    assert done.returncode == 0, done.stderr
    return data


@pytest.mark.parametrize("what", ["console/console.sqlite3", "console"])
@pytest.mark.parametrize("command", ["migrate", "web", "worker", "beat", "history"])
def test_a_database_that_may_not_be_written_is_named_in_one_line(migrated: Path, command: str, what: str) -> None:
    path, file = migrated / what, migrated / "console" / "console.sqlite3"
    mode, before = path.stat().st_mode, file.read_bytes()
    path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        ended = subprocess.run(
            respecting_permissions("manage.py", command),
            cwd=ROOT, env=environment(migrated), capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    finally:
        path.chmod(mode)
    said = f"the console's database {file} cannot be written: {path} is read-only for this user\n"
    assert (ended.returncode, ended.stderr) == (1, said)
    assert file.read_bytes() == before
