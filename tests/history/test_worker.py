"""`manage.py worker` as a process: it executes a task sent through the data folder."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.history.processes import ROOT, environment, manage, running
from tests.up.running import wait_until

#: The history's process is alive on another host, so the task only queues its job.
_SEND = """
import datetime as dt
from django.utils import timezone
from console.history.models import Lease
from console.history.tasks import retain

until = timezone.now() + dt.timedelta(seconds=120)
Lease.objects.create(name="history-process-x", lease_holder="elsewhere:1:1:1", lease_until=until)
retain.delay()
"""
_QUEUED = "from console.history.models import JobRequest; print([row.work for row in JobRequest.objects.all()])"


def test_worker_executes_a_task_and_stops_on_a_signal(tmp_path: Path) -> None:
    env = environment(tmp_path / "data")
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    log = tmp_path / "worker.log"
    with running(sys.executable, str(ROOT / "manage.py"), "worker", env=env, log=log) as process:
        sent = manage("shell", "--command", _SEND, env=env)
        assert sent.returncode == 0, sent.stderr

        def queued() -> str:
            return manage("shell", "--command", _QUEUED, env=env).stdout

        wait_until(lambda: "['retain']" in queued() or process.poll() is not None, "the job is queued", within=120)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
