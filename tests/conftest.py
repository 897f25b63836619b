"""For all tests: the console's settings with a temporary data folder, which tests are slow, and who runs which."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

# Hundreds of processes are started, and to compile Django for each would take half of the time of their tests. Where
# nothing is to be written beside the sources, it goes into pytest's cache.
if sys.dont_write_bytecode:
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache/bytecode")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Before pytest-django looks, and inherited by the processes that tests start.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
_folder = ""
if "HEADGATE_DATA" not in os.environ:
    _folder = os.environ["HEADGATE_DATA"] = tempfile.mkdtemp(prefix="headgate-tests-")

# Sessions of Spark that live for some tests are not worth what its Java's second compiler takes.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

import django  # noqa: E402

django.setup()  # before the conftests beneath import models

from console.celery import app  # noqa: E402

# Tasks are done where they are sent; processes that tests start have workers like anybody else.
app.conf.task_always_eager = True

from django.conf import settings  # noqa: E402

# Hundreds of tests sign in. Processes that tests start check passwords as slowly as in production.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

#: Folders and files whose tests need Spark, Chromium, other programs or processes of their own, or walk through every
#: call: `-m "not slow"` leaves them out, and single tests elsewhere that are marked so.
SLOW = {
    "amqp/test_broker_command.py",
    "amqp/test_sign_in_flood.py",
    "browser",
    "cli",
    "console/test_api_contract.py",
    "console/test_history_api.py",
    "console/test_hostile_walk.py",
    "console/test_request_bodies.py",
    "demo",
    "faults",
    "history",
    "interop",
    "javascript",
    "server/test_bit_rot.py",
    "server/test_broker_process.py",
    "server/test_read_only.py",
    "server/test_store_identity.py",
    "servers",
    "up",
}

#: What takes longest begins first, or one process would still be at it when the other has ended.
FIRST = ("up", "history", "servers", "browser", "interop", "faults")


from django.db import connection  # noqa: E402
from pytest_django.plugin import blocking_manager_key  # noqa: E402

from console.audit import triggers  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def _empty_tables_after_tests_with_transactions() -> Iterator[None]:
    """Django empties all tables then, and the audit trail's lets nobody delete a row: its guard is lifted for that."""
    operations = type(connection.ops)
    flush = operations.sql_flush

    def lifted(self: Any, *args: Any, **kwargs: Any) -> list[str]:
        statements = flush(self, *args, **kwargs)
        guarded = any(triggers.TABLE in statement for statement in statements)
        guard, unguard = triggers.GUARD[connection.vendor], triggers.UNGUARD[connection.vendor]
        return [*unguard, *statements, *guard] if guarded else statements

    with mock.patch.object(operations, "sql_flush", lifted):
        yield


def _relative(path: Path) -> Path:
    here = Path(__file__).parent
    return path.relative_to(here) if path.is_relative_to(here) else Path()


def _is_slow(path: Path) -> bool:
    inside = _relative(path)
    return inside.as_posix() in SLOW or (bool(inside.parts) and inside.parts[0] in SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What the fast tier leaves out as a whole is not imported for it: Spark, Playwright."""
    return True if config.option.markexpr == "not slow" and _is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {folder: place for place, folder in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(_relative(item.path).parts[0], len(FIRST)))
    for item in items:
        if _is_slow(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes that share the tests: two for all of them, none besides this one for what was named."""
    return 0 if config.option.file_or_dir else 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """After a test with transactions of its own the tables are empty, also of what migrations had put there (the groups
    and their roles). Tests of other files may come after it where several processes share them."""
    yield
    marker = item.get_closest_marker("django_db")
    if marker and marker.kwargs.get("transaction"):
        assert marker.kwargs.get("serialized_rollback"), "or the tables are not left empty"
        with item.config.stash[blocking_manager_key].unblock():
            connection.creation.deserialize_db_from_string(connection._test_serialized_contents)


def pytest_unconfigure() -> None:
    if _folder:
        shutil.rmtree(_folder, ignore_errors=True)
