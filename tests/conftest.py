"""For all tests: the console's settings, with a data folder that is thrown away."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

# Before pytest-django looks, and inherited by the processes that tests start.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
_folder = ""
if "HEADGATE_DATA" not in os.environ:
    _folder = os.environ["HEADGATE_DATA"] = tempfile.mkdtemp(prefix="headgate-tests-")

import django  # noqa: E402

django.setup()  # before the conftests beneath import models

from console.celery import app  # noqa: E402

# Tasks are done where they are sent; processes that tests start have workers like anybody else.
app.conf.task_always_eager = True


from django.db import connection  # noqa: E402

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


def pytest_unconfigure() -> None:
    if _folder:
        shutil.rmtree(_folder, ignore_errors=True)
