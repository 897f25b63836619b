"""What the console keeps in its database, and what goes through Celery, does the same on PostgreSQL and Redis: the
tests that show it for the defaults run once more with the two settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.up.running import ROOT

AGAIN = [
    "tests/console/alerts/test_alerts.py",
    "tests/console/schedules/test_schedules.py",
    "tests/console/test_tokens.py",
    "tests/console/test_selections.py",
    "tests/console/test_audit.py",
    "tests/console/test_bulk.py",
    "tests/console/test_sign_in.py",
    "tests/console/incident/test_timeline.py",
    "tests/console/test_lease.py",
    "tests/console/brokers/test_database_records.py",
    "tests/console/brokers/test_hosting.py",
    "tests/history/pipeline/test_runner.py",
    "tests/history/test_tasks.py",
    "tests/history/test_worker.py",
]


@pytest.mark.timeout(400)
def test_tests_of_the_database_and_of_tasks_pass_on_postgresql_and_redis(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    environment = os.environ | {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    environment.pop("HEADGATE_DATA", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'again'}", *AGAIN],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    (passed,) = re.findall(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert int(passed) > 60
    assert "skipped" not in done.stdout.splitlines()[-1]
