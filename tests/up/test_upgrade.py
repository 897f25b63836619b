"""A data folder that an earlier release wrote: started by this one, it has everything that it had.

The folder was recorded from the processes of the earlier release. Its schemas: message stores 3 (in SQLite, which this
release converts into journals), the console's database without the migrations of other brokers. 20 messages were sent
to the queue `orders` (capacity 500), three consumed, its producers stopped by `admin`; the user `app` may publish and
consume.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from proton import Message, Timeout
from proton.utils import BlockingConnection

from brokers.server.earlier_store.tables import VERSION
from brokers.server.store_folder import earlier_of
from brokers.server.store_survey import read_store
from tests.up.test_backup import STORE, done
from tests.up.test_installed import Site
from tests.up.test_up import READY, READY_WITHIN, STOPPED, Up

pytestmark = pytest.mark.timeout(600)

RECORDED = Path(__file__).parent / "folders" / "release_before.tar.xz"
ADMIN, APP = "rmpHFWdB-KhHaDzn", "VIHs0t6zJvq6daZ_WTbe4dTVBi17QrIyLCFtVtLH-i8"
EARLIER = earlier_of(STORE)
ORDERS = "type=Queue,virtualhost=default,name=orders"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(RECORDED) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "data"


def schema(store: Path) -> int:
    with closing(sqlite3.connect(store)) as db:
        return int(db.execute("SELECT version FROM schema_version").fetchone()[0])


def migrations(data: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(data / "console" / "console.sqlite3")) as db:
        return set(db.execute("SELECT app, name FROM django_migrations"))


@pytest.mark.parametrize("through_a_backup", [False, True])
def test_folder_of_the_release_before_is_upgraded_with_all_it_has(
    data: Path, tmp_path: Path, *, through_a_backup: bool
) -> None:
    assert schema(data / EARLIER) == VERSION - 1
    before = migrations(data)
    if through_a_backup:
        file, recorded = tmp_path / "b.headgate", data
        done("backup", str(file), "--data", str(recorded))
        assert schema(recorded / EARLIER) == VERSION - 1, "a backup changes nothing"
        data = tmp_path / "restored"
        done("restore", str(file), "--data", str(data))
    with Up(tmp_path, data=data) as up:
        up.wait_for(READY, within=READY_WITHIN)
        site = Site(f"http://127.0.0.1:{up.port}", "admin", ADMIN)
        queue = json.loads(site.get(f"/api/v1/brokers/local/objects/{ORDERS}/"))["attributes"]
        assert (queue["depth_messages"], queue["capacity_messages"], queue["durable"]) == (17, 500, True)
        assert queue["state"] == "STOPPED"
        assert [stop["reason"] for stop in queue["stops"]] == ["before the upgrade"]
        audit = json.loads(site.get("/api/v1/audit/"))["results"]
        operations = [entry["operation"] for entry in audit[:4]]
        assert operations == ["sign-in", "stop-producers", "create", "create"]

        client = BlockingConnection(f"amqp://127.0.0.1:{up.amqp_port}", timeout=30, user="app", password=APP)
        with pytest.raises(Timeout):  # its producers are still stopped
            client.create_sender("orders").send(Message(body="new"), timeout=1)
        receiver = client.create_receiver("orders", credit=20)
        taken = []
        for _ in range(17):
            taken.append(str(receiver.receive(timeout=30).body))
            receiver.accept()
        client.close()
        first = [f"order {number}" for number in range(20) if number % 5 == 0]  # of a higher priority; three are gone
        rest = [f"order {number}" for number in range(20) if number % 5]
        assert taken == [*first[3:], *rest]
        up.end(signal.SIGTERM, within=STOPPED)
    assert f"{data / EARLIER} is converted into a journal: 17 messages" in up.out
    assert not (data / EARLIER).exists()
    assert read_store(data / STORE).messages == 0
    assert migrations(data) > before
