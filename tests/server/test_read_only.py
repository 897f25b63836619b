"""A folder or file that the broker may not write: one clear line that names it, and nothing is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from brokers.server.store_identity import CONFIG, FOLDER
from tests.amqp.broker_thread import BrokerThread
from tests.read_only import respecting_permissions
from tests.server.test_store_identity import ROOT, STORE, data, make_durable, names, receive, send  # noqa: F401

EVENTS = "events.sqlite3"


def started(data: Path) -> subprocess.CompletedProcess[str]:  # noqa: F811
    command = respecting_permissions("manage.py", "broker", "--port", "0", "--data", str(data))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.domain("9 read-only")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (".", "broker: cannot write to the data folder {data}: Permission denied\n"),
        ("broker.lock", "broker: cannot write to the data folder {data}: Permission denied\n"),
        (CONFIG, "broker: cannot write {data}/" + CONFIG + ": Permission denied\n"),
        (EVENTS, "broker: cannot write {data}/" + EVENTS + ": Permission denied\n"),
        (FOLDER, f"broker: cannot write {{data}}/{FOLDER}: give write permission to the user that runs the broker\n"),
        (f"{FOLDER}/{STORE}", f"broker: cannot write {{data}}/{FOLDER}/{STORE}/stamp.json: Permission denied\n"),
    ],
)
def test_file_that_cannot_be_written_is_named_in_one_line_and_nothing_is_lost(
    data: Path,  # noqa: F811
    what: str,
    said: str,
) -> None:
    (data / "broker.log").touch()  # of the last time: it can be written, also in a folder that cannot
    path = data / what
    mode = path.stat().st_mode
    path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        ended = started(data)
    finally:
        path.chmod(mode)
    assert (ended.returncode, ended.stderr) == (1, said.format(data=data))
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == names("m", 30)
        assert broker.depth("second") == 10
