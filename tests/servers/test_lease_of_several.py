"""The lease between processes that claim it at the same moment, on PostgreSQL: one owns it, the other sees the
owner."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.history.processes import ROOT, environment, manage, running
from tests.up.running import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def own_database(database_url: str) -> Iterator[str]:
    name = "lease_of_several"
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield urlsplit(database_url)._replace(path=f"/{name}").geturl()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _signed() -> datetime:
    """A minute, as a lease may last: of one that lasts longer it is known that the clock was set back since."""
    return datetime.now(UTC) + timedelta(minutes=1)


def test_of_two_processes_without_a_lease_owner_the_second_stands_by(
    own_database: str, redis_url: str, tmp_path: Path
) -> None:
    env = environment(tmp_path / "data", DATABASE_URL=own_database, REDIS_URL=redis_url)
    done = manage("migrate", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    log = tmp_path / "beat"
    with psycopg.connect(own_database) as first, psycopg.connect(own_database, autocommit=True) as looker:
        first.execute("INSERT INTO history_held (name, holder, until) VALUES ('beat', 'one:1:1', %s)", [_signed()])
        with running(sys.executable, str(ROOT / "manage.py"), "beat", env=env, log=log):

            def waits() -> bool:
                query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                return looker.execute(query).fetchone() is not None

            wait_until(waits, "it wants to write its row, too", 120)
            first.execute("UPDATE history_held SET until = %s", [_signed()])  # like a live holder
            first.commit()
            wait_until(lambda: "at work" in log.read_text(), "it says who is at work", 60)
            assert log.read_text().startswith("one:1:1 is at work: standing by")
        owner = looker.execute("SELECT holder FROM history_held WHERE name = 'beat'").fetchone()
        assert owner == ("one:1:1",)
