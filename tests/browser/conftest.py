"""A console that serves a browser: in a thread, before a broker in memory, with a database of its own.

Everything asynchronous here lives in one event loop for each test module, so that Chromium is started once for it.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.db import connections
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from brokers.testing import InMemoryBroker
from tests.browser.chromium import ARGUMENTS, PATH
from tests.console.conftest import Broker, broker  # noqa: F401  (a fixture)

LIMIT = 30_000  # ms; how long a page may take to show what it should


async def until_in_page(page: Page, condition: str, argument: object = None) -> None:
    """Wait until a function of the page, JavaScript, returns true. (Playwright's `wait_for_function` calls eval later,
    which the CSP forbids: it works only where the first look finds the condition true.)"""
    waiting = f"""async (argument) => {{
        while (!({condition})(argument)) await new Promise((resume) => setTimeout(resume, 20));
    }}"""
    async with asyncio.timeout(LIMIT / 1000):
        await page.evaluate(waiting, argument)


class Console:
    """A running console. `stop` and `start` again keep its port."""

    def __init__(self) -> None:
        # Stays open, so that no other process gets the port before the server listens on it.
        self._listener: socket.socket | None = _bound(0)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server: uvicorn.Server | None = None

    def start(self) -> None:
        from console.asgi import application

        config = uvicorn.Config(
            application, host="127.0.0.1", port=self.port, log_level="error", lifespan="off", ws="websockets-sansio"
        )
        self._server = uvicorn.Server(config)
        listener, self._listener = self._listener or _bound(self.port), None  # the server closes it when it stops
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="console", daemon=True
        )
        self._thread.start()
        end = time.monotonic() + LIMIT / 1000
        while not self._server.started:
            assert time.monotonic() < end, "the console did not start"
            assert self._thread.is_alive(), "the console ended while starting"
            time.sleep(0.01)

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join(LIMIT / 1000)
            assert not self._thread.is_alive(), "the console did not stop"
            self._server = None


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


@contextmanager
def database_in(path: Path, blocker: Any) -> Iterator[None]:
    """Use an SQLite file as the default database, from every thread. (The one in memory that tests have elsewhere is
    one connection's to lock.)"""
    database = connections.settings["default"]
    before = database["NAME"], connections["default"]
    with blocker.unblock():
        database["NAME"] = str(path)
        connections["default"] = connections.create_connection("default")
        try:
            yield
        finally:
            connections["default"].close()
            database["NAME"], connections["default"] = before


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Path:
    path = tmp_path_factory.mktemp("console") / "console.sqlite3"
    with database_in(path, django_db_blocker):
        call_command("migrate", verbosity=0)
    return path


@pytest.fixture
def database(empty_database: Path, tmp_path: Path, django_db_blocker: Any) -> Iterator[None]:
    path = tmp_path / "console.sqlite3"
    shutil.copy(empty_database, path)
    with database_in(path, django_db_blocker):
        yield


@pytest.fixture
def console(database: None, broker: Broker) -> Iterator[Console]:  # noqa: F811
    # Pages show the broker's times beside the server's own: a minute ago, so that tests can let some time pass.
    broker.memory = InMemoryBroker(now=int(time.time() * 1000) - 60_000)
    running = Console()
    running.start()
    broker.connected()
    yield running
    running.stop()


def sign_in(name: str, group: str) -> str:
    """The key of a new session of a new user. For a thread of its own: closes the thread's connection."""
    user = User.objects.create_user(name)
    user.groups.add(Group.objects.get(name=group))
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = django_settings.AUTHENTICATION_BACKENDS[-1]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    connections.close_all()
    return str(session.session_key)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=PATH, args=ARGUMENTS)
        yield running
        await running.close()


class People:
    """Opens pages for people; remembers whatever a page complained of."""

    def __init__(self, browser: Browser, console: Console) -> None:
        self._browser = browser
        self._console = console
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []
        #: Complaints that a test brings about on purpose: parts of their text.
        self.expected: list[str] = []

    async def page(self, name: str = "", group: str = "operators", **options: Any) -> Page:
        """A page of a signed-in user; no name: signed out."""
        context = await self._browser.new_context(
            **{"base_url": self._console.url, "viewport": {"width": 1440, "height": 900}, **options}
        )
        context.set_default_timeout(LIMIT)
        self._contexts.append(context)
        if name:
            key = await asyncio.to_thread(sign_in, name, group)
            await context.add_cookies(
                [{"name": django_settings.SESSION_COOKIE_NAME, "value": key, "url": self._console.url}]
            )
        page = await context.new_page()
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return page

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()
        left = [text for text in self.complaints if not any(part in text for part in self.expected)]
        assert not left, f"the page complained: {left}"


@pytest_asyncio.fixture(loop_scope="module")
async def people(browser: Browser, console: Console) -> AsyncIterator[People]:
    made = People(browser, console)
    yield made
    await made.close()
