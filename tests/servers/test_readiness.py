"""Probes while PostgreSQL hangs: with a session, with a token and without, each is answered."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil
import psycopg
import pytest

from tests.history.processes import ROOT, environment, manage, running
from tests.servers.person import Person
from tests.servers.servers import postgresql
from tests.up.running import free_port, wait_until

pytestmark = pytest.mark.timeout(300)


@dataclass
class Place:
    database: str
    admin: Person
    stranger: Person

    def probes(self) -> dict[str, tuple[int, int]]:
        """Return the statuses of `/healthz` and `/readyz`. A probe without an answer in 30 s raises TimeoutError."""
        users = {"admin": self.admin, "stranger": self.stranger}
        return {name: (user.status("/healthz"), user.status("/readyz")) for name, user in users.items()}


ALL_READY = {"admin": (200, 200), "stranger": (200, 200)}
NONE_READY = {"admin": (200, 503), "stranger": (200, 503)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("readiness")
    with postgresql() as url:
        env = environment(folder / "data", DATABASE_URL=url, HEADGATE_BROKER_PORT=str(free_port()))
        for command in ("migrate", "ensure_admin"):
            done = manage(command, env=env)
            assert done.returncode == 0, done.stdout + done.stderr
        log = folder / "web"
        with running(sys.executable, str(ROOT / "manage.py"), "web", "--port", "0", env=env, log=log):
            wait_until(lambda: "console on" in log.read_text(), "the web process listens", 60)
            found = re.search(r"console on (http://[\d.:]+)", log.read_text())
            assert found
            admin = Person(found[1])
            assert admin.sign_in("admin", done.stdout.split()[-1]) == 200
            yield Place(url, admin, Person(found[1]))


@contextmanager
def suspended(url: str) -> Iterator[None]:
    """Suspend every process of the server."""
    with psycopg.connect(url) as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    server.suspend()  # from now on it starts none
    processes = [server, *server.children(recursive=True)]
    try:
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # it was about to end
                process.suspend()
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def test_probes_are_answered_while_the_database_hangs(place: Place) -> None:
    assert place.probes() == ALL_READY
    assert '"parts"' in place.admin.text("/readyz")
    with suspended(place.database):
        assert place.probes() == NONE_READY
        assert place.admin.text("/readyz") == '{"status":"not ready"}'
    wait_until(lambda: place.probes() == ALL_READY, "it is ready again")


@pytest.mark.parametrize(
    ("table", "expected"), [("django_session", NONE_READY), ("auth_user", {**ALL_READY, "admin": (200, 503)})]
)
def test_probes_are_answered_while_a_table_is_locked(
    place: Place, table: str, expected: dict[str, tuple[int, int]]
) -> None:
    """As by a migration of another release."""
    with psycopg.connect(place.database) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        assert place.probes() == expected
        connection.rollback()
    wait_until(lambda: place.probes() == ALL_READY, "it is ready again")
