"""PostgreSQL and Redis, started on loopback for tests, each in a folder of its own, and removed afterwards."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import redis

from tests.interop.peers import absent
from tests.up.running import free_port, wait_until


def command_of_postgresql(name: str) -> Path:
    """Where a command of the server's own version is; Debian has only those of clients in the search path."""
    found = max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=None) or shutil.which(name)
    if found is None:
        absent("PostgreSQL is not installed", "install Debian's package postgresql")
    return Path(found)


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty database of a superuser."""
    commands = command_of_postgresql("initdb").parent
    folder = Path(tempfile.mkdtemp(prefix="headgate-postgresql-"))
    user = _harmless_user()
    if user is not None:
        shutil.chown(folder, user)
    password = secrets.token_urlsafe()
    try:
        (folder / "password").write_text(password)
        (folder / "password").chmod(0o644)  # the folder itself is its user's alone
        _run(
            [
                *(commands / "initdb", "-D", folder / "data", "-U", "tests", "-A", "scram-sha-256", "-E", "UTF8"),
                *("--no-sync", f"--pwfile={folder / 'password'}"),
            ],
            user,
        )
        port = free_port()
        options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        given = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        server = _start([commands / "postgres", "-D", folder / "data", *given], folder / "log", user)
        url = f"postgresql://tests:{password}@127.0.0.1:{port}/postgres"
        try:
            wait_until(lambda: _answers(url, server), f"PostgreSQL answers: {(folder / 'log').read_text()}")
            yield url
        finally:
            server.terminate()
            server.wait(30)
    finally:
        shutil.rmtree(folder)


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of an empty Redis."""
    found = shutil.which("redis-server") or absent("Redis is not installed", "install Debian's package redis-server")
    folder = Path(tempfile.mkdtemp(prefix="headgate-redis-"))
    port, password = free_port(), secrets.token_urlsafe()
    lines = [f"port {port}", "bind 127.0.0.1", f"requirepass {password}", f"dir {folder}", 'save ""', "appendonly no"]
    (folder / "redis.conf").write_text("\n".join(lines))
    server = _start([found, folder / "redis.conf"], folder / "log", None)
    url = f"redis://:{password}@127.0.0.1:{port}/0"

    def answers() -> bool:
        assert server.poll() is None, (folder / "log").read_text()
        try:
            with redis.Redis.from_url(url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    try:
        wait_until(answers, "Redis answers")
        yield url
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder)


def _harmless_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    return next((user.pw_name for user in pwd.getpwall() if user.pw_name == "postgres"), "nobody")


def _run(command: list[str | Path], user: str | None) -> None:
    done = subprocess.run(command, user=user, cwd="/", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _start(command: list[str | Path], log: Path, user: str | None) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(command, user=user, cwd="/", stdout=out, stderr=subprocess.STDOUT)


def _answers(url: str, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "it has ended"
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
