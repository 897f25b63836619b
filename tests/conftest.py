"""For all tests: console settings with a temporary data folder, property tests, slow tests, and distribution to
processes."""

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
from hypothesis import HealthCheck
from hypothesis import settings as property_settings

# Property tests are about what is computed, not how soon: a busy machine exceeds any deadline. In CI the examples are
# the same on every run. Before test modules are imported, whose own settings start from these.
property_settings.register_profile(
    "local", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
property_settings.register_profile("ci", property_settings.get_profile("local"), derandomize=True)
property_settings.load_profile("ci" if os.environ.get("CI") else "local")

# Their failures are explained like those of test modules.
pytest.register_assert_rewrite("tests.adapters.contract", "tests.drivers.contract")

# Tests start hundreds of processes, and compiling Django for each would take half of their time. Where no bytecode is
# written beside the sources, it is written to pytest's cache.
if sys.dont_write_bytecode:
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".pytest_cache/bytecode")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Before pytest-django reads it, and inherited by processes that tests start.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
_folder = ""
if "HEADGATE_DATA" not in os.environ:
    _folder = os.environ["HEADGATE_DATA"] = tempfile.mkdtemp(prefix="headgate-tests-")

# Spark sessions of tests are too short for Java's second compiler to pay off.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

import django  # noqa: E402

django.setup()  # before the conftests of subfolders import models

from console.celery import app  # noqa: E402

# Tasks run eagerly in the test process; processes that tests start have real workers.
app.conf.task_always_eager = True

from django.conf import settings  # noqa: E402

# A fast hash, since hundreds of tests sign in. Processes that tests start use the production hash.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

#: Folders and files whose tests need Spark, Chromium, other programs or processes, wait for the timeouts of real
#: clients, or call every operation: `-m "not slow"` omits them, and single tests elsewhere with the mark.
SLOW = {
    "amqp/test_broker_command.py",
    "amqp/test_broker_limits.py",
    "amqp/test_connection_cleanup.py",
    "amqp/test_delivery_time.py",
    "amqp/test_frame_check.py",
    "amqp/test_sign_in_flood.py",
    "amqp/test_silent_peers.py",
    "amqp/test_starvation.py",
    "amqp/test_tls.py",
    "amqp/test_what_messages_ask.py",
    "browser",
    "adapters/test_rabbitmq.py",
    "cli",
    "client",
    "console/test_api_contract.py",
    "console/test_history_api.py",
    "console/test_history_simulation_api.py",
    "console/test_hostile_walk.py",
    "console/test_request_bodies.py",
    "console/test_web.py",
    "console/test_web_under_flood.py",
    "demo",
    "engine/test_delayed_model.py",
    "engine/test_durable_queue.py",
    "engine/test_transaction_model.py",
    "engine/test_waiting.py",
    "faults",
    "history",
    "interop",
    "javascript",
    "server/earlier_store/test_conversion.py",
    "server/test_bit_rot.py",
    "server/test_broker_process.py",
    "server/test_clock_steps.py",
    "server/test_delayed_messages.py",
    "server/test_read_only.py",
    "server/test_store_identity.py",
    "server/test_write_ahead_log.py",
    "servers",
    "up",
}

#: The longest files start first, so that the processes end at about the same time; spread evenly among those that
#: compute are those that mostly wait for other programs and their rounds, so that no processor waits too.
COMPUTING = ("up", "history", "servers", "browser")
WAITING = ("adapters", "faults", "interop")


from django.db import connection  # noqa: E402
from pytest_django.plugin import blocking_manager_key  # noqa: E402

from console.audit import triggers  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def _empty_tables_after_tests_with_transactions() -> Iterator[None]:
    """Remove the audit trail's triggers while Django empties all tables."""
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
    """Skip collecting whole folders that the fast tier omits, so that Spark and Playwright are not imported."""
    return True if config.option.markexpr == "not slow" and _is_slow(collection_path) else None


def _places(files: set[Path]) -> dict[Path, tuple[float, str]]:
    """Return the place of each file in the order in which they are handed out."""
    places = {}
    for folders in (COMPUTING, WAITING):
        long = [file for file in files if _relative(file).parts[0] in folders]
        long.sort(key=lambda file: (folders.index(_relative(file).parts[0]), file))
        places |= {file: (rank / len(long), str(file)) for rank, file in enumerate(long)}
    return {file: places.get(file, (1.0, str(file))) for file in files}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = _places({item.path for item in items})
    items.sort(key=lambda item: places[item.path])
    for item in items:
        if _is_slow(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of worker processes: three on two cores, since tests wait for clients and for other programs;
    none for named tests."""
    return 0 if config.option.file_or_dir else 3


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Restore the rows of migrations (groups and their roles) after a transactional test, which empties all tables.
    Tests of other files may follow in the same process."""
    yield
    marker = item.get_closest_marker("django_db")
    if marker and marker.kwargs.get("transaction"):
        assert marker.kwargs.get("serialized_rollback"), "without it the tables are not restored"
        with item.config.stash[blocking_manager_key].unblock():
            connection.creation.deserialize_db_from_string(connection._test_serialized_contents)


def pytest_unconfigure() -> None:
    if _folder:
        shutil.rmtree(_folder, ignore_errors=True)
