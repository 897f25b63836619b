"""A running console with an in-memory broker, and the command line in the same process."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result
from django.contrib.auth.models import User
from django.db import connections

from console.access import administration
from console.access.actor import Actor
from console.access.models import RoleGrant
from console.cli.main import cli
from console.permissions.rights import Grant, Role
from tests.browser.conftest import Console, console, database, empty_database  # noqa: F401  (fixtures)
from tests.console.conftest import Broker, broker  # noqa: F401  (a fixture)

T = TypeVar("T")


@dataclass
class Terminal:
    """A terminal of a user with a token."""

    url: str
    token: str
    home: Path

    def run(self, *arguments: str, typed: str | None = None, **env: str) -> Result:
        given = {
            "HEADGATE_URL": self.url,
            "HEADGATE_TOKEN": self.token,
            "XDG_CONFIG_HOME": str(self.home),
            "NO_PROXY": "*",
            **env,
        }
        return CliRunner(env=given).invoke(cli, list(arguments), input=typed, prog_name="headgate")

    def mode(self) -> str:
        return stat.filemode((self.home / "headgate" / "credentials.json").stat().st_mode)


def in_thread(do: Callable[[], T]) -> T:
    """Call `do` in another thread and close its database connection afterwards."""

    def act() -> T:
        try:
            return do()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result()


@pytest.fixture
def terminal_of(console: Console, tmp_path: Path) -> Callable[..., Terminal]:  # noqa: F811
    def make(name: str, *grants: Grant) -> Terminal:
        def token() -> str:
            user = User.objects.create_user(name)
            for grant in grants:
                RoleGrant.objects.create(user=user, role=grant.role, broker=grant.broker, virtualhost=grant.virtualhost)
            return administration.create_token(Actor(user), "cli", list(grants), days=1)[1]

        home = tmp_path / name
        home.mkdir()
        return Terminal(console.url, in_thread(token), home)

    return make


@pytest.fixture
def olga(terminal_of: Callable[..., Terminal]) -> Terminal:
    return terminal_of("olga", Grant(Role.OPERATOR), Grant(Role.POLICY_EDITOR))


@pytest.fixture
def vera(terminal_of: Callable[..., Terminal]) -> Terminal:
    return terminal_of("vera", Grant(Role.VIEWER))


@pytest.fixture(autouse=True)
def _no_headgate_variables() -> Iterator[None]:
    saved = {name: os.environ.pop(name) for name in list(os.environ) if name in ("HEADGATE_TOKEN", "HEADGATE_URL")}
    yield
    os.environ.update(saved)


def ok(result: Any) -> str:
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.output)
