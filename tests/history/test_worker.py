"""`manage.py worker` as a process: it executes a task sent through the data folder."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import deltalake
import pyarrow as pa

from console.history.storage.landing import Landing
from console.history.storage.layout import table_url
from tests.history.processes import ROOT, environment, manage, running
from tests.history.rows import Story, land
from tests.up.running import wait_until


def test_worker_executes_a_task_and_stops_on_a_signal(tmp_path: Path) -> None:
    data = tmp_path / "data"
    env = environment(data)
    url = str(data / "history")
    land(url, Story().watch(0, 1).rows)
    landing = Landing(url)
    (name,) = landing.names("coverage")
    deltalake.write_deltalake(table_url(url, "taken"), pa.table({"kind": ["coverage"], "file": [name]}))
    long_ago = time.time() - 7200
    os.utime(Path(landing.folder("coverage")) / name, (long_ago, long_ago))
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    log = tmp_path / "worker.log"
    with running(sys.executable, str(ROOT / "manage.py"), "worker", env=env, log=log) as process:
        send = "from console.history.tasks import sweep_landing; sweep_landing.delay()"
        sent = manage("shell", "--command", send, env=env)
        assert sent.returncode == 0, sent.stderr
        wait_until(lambda: not landing.names("coverage") or process.poll() is not None, "the file is swept", within=60)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
