"""For all tests: the console's settings, with a data folder that is thrown away."""

from __future__ import annotations

import os
import shutil
import tempfile

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


def pytest_unconfigure() -> None:
    if _folder:
        shutil.rmtree(_folder, ignore_errors=True)
