"""`manage.py worker` as a process: it executes a task sent through the data folder."""

from __future__ import annotations

import datetime as dt
import signal
import sqlite3
import sys
from pathlib import Path

from tests.history.processes import ROOT, environment, manage, running
from tests.up.running import wait_until


def test_worker_executes_a_task_and_stops_on_a_signal(tmp_path: Path) -> None:
    data = tmp_path / "data"
    env = environment(data)
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    log = tmp_path / "worker.log"
    with (
        sqlite3.connect(data / "console/console.sqlite3") as database,
        running(sys.executable, str(ROOT / "manage.py"), "worker", env=env, log=log) as process,
    ):
        # The history's process is alive on another host, so the task only queues its job.
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=120)
        lease = ("history-process-x", "elsewhere:1:1:1", until.strftime("%Y-%m-%d %H:%M:%S.%f"))
        database.execute("INSERT INTO history_held (name, holder, until) VALUES (?, ?, ?)", lease)
        database.commit()
        sent = manage("shell", "--command", "from console.history.tasks import retain; retain.delay()", env=env)
        assert sent.returncode == 0, sent.stderr

        def queued() -> list[tuple[str]]:
            return database.execute("SELECT work FROM history_jobrequest").fetchall()

        wait_until(lambda: queued() or process.poll() is not None, "the job is queued", within=60)
        assert process.poll() is None, log.read_text()
        assert queued() == [("retain",)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
