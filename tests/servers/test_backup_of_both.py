"""A backup where the console's database is in PostgreSQL: the folder by `headgate backup`, the database by pg_dump,
both while clients are at work. Restored into an empty folder and an empty database, they are one installation again."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.servers.servers import command_of_postgresql
from tests.up.running import wait_until
from tests.up.test_backup import Load, done, drain, refused
from tests.up.test_installed import Site
from tests.up.test_up import READY, READY_WITHIN, STOPPED, Up, password

pytestmark = pytest.mark.timeout(900)


def empty_database(server: str, name: str) -> str:
    """The URL of a new database of that server."""
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def run(*command: str | Path) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr


def audit(site: Site) -> list[Any]:
    """What the audit trail says of changes of the broker, the newest first."""
    rows = json.loads(site.get("/api/v1/audit/"))["results"]
    return [(row["at"], row["user_name"], row["operation"], row["object"]) for row in rows if row["object"]]


def test_folder_and_database_that_are_backed_up_under_load_are_restored_together(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, restored = tmp_path / "data", tmp_path / "restored"
    file, dump = tmp_path / "both.headgate", tmp_path / "both.dump"
    first, second = (empty_database(database_url, name) for name in ("backup_first", "backup_second"))
    monkeypatch.setenv("DATABASE_URL", first)
    with Up(tmp_path, "--demo", data=data) as up:
        up.wait_for(READY, within=READY_WITHIN)
        secret = password(up)
        site = Site(f"http://127.0.0.1:{up.port}", "admin", secret)
        site.create("type=Queue,virtualhost=default,name=dq", {"durable": True, "capacity_messages": 100_000})
        before = audit(site)
        assert before
        with Load(f"amqp://127.0.0.1:{up.amqp_port}") as load:
            wait_until(lambda: len(load.confirmed) > 100 and len(load.taken) > 30, "messages flow", within=120)
            began = time.monotonic()
            said = done("backup", str(file), "--data", str(data), DATABASE_URL=first)
            ended = time.monotonic()
            run(command_of_postgresql("pg_dump"), "--format=custom", f"--file={dump}", first)
            wait_until(lambda: max(load.taken.values()) > ended, "and go on", within=60)
        site.create("type=Queue,virtualhost=default,name=later", {})
        up.end(signal.SIGTERM, within=STOPPED)
    assert "Not in it: the console's database (postgresql)." in said
    assert not (data / "console" / "console.sqlite3").exists()

    monkeypatch.delenv("DATABASE_URL")
    assert "is not in the backup" in refused("restore", str(file), "--data", str(restored))
    run(command_of_postgresql("pg_restore"), "--exit-on-error", "--no-owner", f"--dbname={second}", str(dump))
    done("restore", str(file), "--data", str(restored), DATABASE_URL=second)
    shutil.rmtree(data)
    monkeypatch.setenv("DATABASE_URL", second)
    with Up(tmp_path, "--demo", data=restored) as up:
        up.wait_for(READY, within=READY_WITHIN)
        assert "password as before" in up.out
        site = Site(f"http://127.0.0.1:{up.port}", "admin", secret)
        names = {row["name"] for row in json.loads(site.get("/api/v1/queues/?search=dq"))["results"]}
        assert names == {"dq"}
        assert not json.loads(site.get("/api/v1/queues/?search=later"))["results"]
        assert [row for row in audit(site) if row in before] == before
        found = drain(f"amqp://127.0.0.1:{up.amqp_port}")
        up.end(signal.SIGTERM, within=STOPPED)
    assert not [body for body, count in Counter(found).items() if count > 1]
    there = {body for body, at in load.confirmed.items() if at < began and load.taken.get(body, ended) >= ended}
    assert there - set(found) == set()
    for name in "ab":
        own = [body for body in found if body[0] == name]
        assert own == sorted(own)
