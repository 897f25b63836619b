"""`headgate backup` and `headgate restore`: with a broker under load, killed in the middle, and with files that do not
fit."""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from google_crc32c import value
from proton import Message, Timeout
from proton.utils import BlockingConnection

from brokers.server.journal.segment_file import MAGIC, SegmentFile
from brokers.server.store_folder import file_name
from brokers.server.store_survey import FOLDER, read_store
from tests.amqp.broker_thread import BrokerThread
from tests.server.test_store_identity import make_durable
from tests.up.running import ROOT, wait_until
from tests.up.test_installed import Site
from tests.up.test_up import READY, READY_WITHIN, STOPPED, Up, password

pytestmark = pytest.mark.timeout(900)

STORE = Path("broker", FOLDER, file_name("default"))


def headgate(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    env = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "HEADGATE_HISTORY_URL")}
    return subprocess.run(
        command, cwd=ROOT, env=env | environment, capture_output=True, text=True, timeout=300, check=False
    )


def done(*arguments: str, **environment: str) -> str:
    ended = headgate(*arguments, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(*arguments: str, **environment: str) -> str:
    """The one line of a command that does nothing."""
    ended = headgate(*arguments, **environment)
    assert ended.returncode == 1, ended.stdout
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    return line


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of a broker with a durable queue `dq` and one message."""
    folder = tmp_path / "data"
    with BrokerThread(folder / "broker") as broker:
        make_durable(broker, "dq")
        client = BlockingConnection(broker.url, allowed_mechs="ANONYMOUS")
        client.create_sender("dq").send(Message(body="first", durable=True))
        client.close()
    return folder


@contextmanager
def broker_process(data: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "manage.py", "broker", "--data", str(data / "broker"), "--port", "0", "--demo"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("broker ready on "), line
        yield process, f"amqp://{line.split()[3]}"
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def connect(url: str) -> BlockingConnection:
    return BlockingConnection(url, timeout=60, allowed_mechs="ANONYMOUS")


def drain(url: str) -> list[str]:
    client = connect(url)
    receiver, found = client.create_receiver("dq", credit=100), []
    try:
        while True:
            found.append(str(receiver.receive(timeout=3).body))
            receiver.accept()
    except Timeout:
        return found
    finally:
        client.close()


# -- under load -------------------------------------------------------------------------------------------------


class Load:
    """Two producers and a consumer of `dq`. `confirmed`, `taken`: message -> when, in seconds."""

    def __init__(self, url: str) -> None:
        self.confirmed: dict[str, float] = {}
        self.taken: dict[str, float] = {}
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(url, "a")),
            threading.Thread(target=self._produce, args=(url, "b")),
            threading.Thread(target=self._consume, args=(url,)),
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _produce(self, url: str, name: str) -> None:
        client = connect(url)
        sender, number = client.create_sender("dq"), 0
        while not self._stopping.is_set():
            sender.send(Message(body=f"{name}-{number:06}", durable=True))
            self.confirmed[f"{name}-{number:06}"] = time.monotonic()
            number += 1
        client.close()

    def _consume(self, url: str) -> None:
        client = connect(url)
        receiver = client.create_receiver("dq", credit=10)
        while not self._stopping.is_set():
            body = str(receiver.receive(timeout=60).body)
            receiver.accept()
            self.taken[body] = time.monotonic()
        client.close()


def test_backup_under_load_has_every_confirmed_message_and_none_that_was_consumed(data: Path, tmp_path: Path) -> None:
    file, restored = tmp_path / "b.headgate", tmp_path / "restored"
    consumed = [f"early-{number:04}" for number in range(300)]
    with broker_process(data) as (process, url):
        client = connect(url)
        sender = client.create_sender("dq")
        for body in consumed:
            sender.send(Message(body=body, durable=True))
        receiver = client.create_receiver("dq", credit=50)
        for body in ["first", *consumed]:
            assert receiver.receive(timeout=30).body == body
            receiver.accept()
        client.close()
        wait_until(lambda: read_store(data / STORE).messages == 0, "the removals are on the disk")
        with Load(url) as load:
            wait_until(lambda: len(load.confirmed) > 400 and len(load.taken) > 100, "messages flow", within=120)
            began = time.monotonic()
            done("backup", str(file), "--data", str(data))
            ended = time.monotonic()
            wait_until(lambda: max(load.taken.values()) > ended, "and go on", within=60)
        process.kill()
    assert (file.stat().st_mode & 0o777) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

    done("restore", str(file), "--data", str(restored))
    with broker_process(restored) as (_, url):
        found = drain(url)
    assert not [body for body, count in Counter(found).items() if count > 1]
    assert not set(found) & {"first", *consumed}
    there = {body for body, at in load.confirmed.items() if at < began and load.taken.get(body, ended) >= ended}
    assert there - set(found) == set()
    # What was confirmed after the command had ended was sent after it, but for the one in flight of each producer.
    later = sorted(body for body in found if load.confirmed.get(body, ended) > ended)
    assert len(later) <= 2
    for name in "ab":
        own = [body for body in found if body[0] == name]
        assert own == sorted(own)


# -- everything -------------------------------------------------------------------------------------------------


def test_whole_installation_is_backed_up_while_it_runs_and_runs_again_as_it_was(tmp_path: Path) -> None:
    data, file, restored = tmp_path / "data", tmp_path / "all.headgate", tmp_path / "restored"
    recorded = data / "history" / "recorder" / "local"
    with Up(tmp_path, "--demo", data=data) as up:
        up.wait_for(READY, within=READY_WITHIN)
        secret = password(up)
        site = Site(f"http://127.0.0.1:{up.port}", "admin", secret)
        site.create("type=Queue,virtualhost=default,name=parcels", {"capacity_messages": 77})
        wait_until(lambda: list(recorded.glob("events~*")) and list(recorded.glob("samples~*")), "it records", 60)
        said = done("backup", str(file), "--data", str(data))
        assert "only its owner can read it" in said
        site.create("type=Queue,virtualhost=default,name=later", {})
        up.end(signal.SIGTERM, within=STOPPED)
    done("restore", str(file), "--data", str(restored))
    assert (restored.stat().st_mode & 0o777) == 0o700
    assert (restored / "console" / "django.secret").read_bytes() == (data / "console" / "django.secret").read_bytes()
    assert list((restored / "history" / "recorder" / "local").glob("events~*"))
    with Up(tmp_path, data=restored) as up:
        up.wait_for(READY, within=READY_WITHIN)
        assert "password as before" in up.out
        site = Site(f"http://127.0.0.1:{up.port}", "admin", secret)
        queue = site.get("/api/v1/brokers/local/objects/type=Queue,virtualhost=default,name=parcels/")
        assert '"capacity_messages":77' in queue.replace(" ", "")
        with pytest.raises(urllib.error.HTTPError):
            site.get("/api/v1/brokers/local/objects/type=Queue,virtualhost=default,name=later/")
        up.end(signal.SIGTERM, within=STOPPED)


# -- killed -----------------------------------------------------------------------------------------------------


@pytest.fixture
def large(data: Path) -> Path:
    """The folder with 60 MB of history that cannot be compressed."""
    landing = data / "history" / "landing" / "events"
    landing.mkdir(parents=True)
    for number in range(30):
        (landing / f"{number}.parquet").write_bytes(random.Random(number).randbytes(2_000_000))
    return data


def killed_at(arguments: list[str], reached: Path, size: int) -> None:
    """Run a command, and kill it when the files below a folder have a size. It must not have ended before."""
    process = subprocess.Popen([sys.executable, "manage.py", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)

    def is_reached() -> bool:
        assert process.poll() is None, "it ended before it was killed"
        found = 0
        for folder, _, names in os.walk(reached):
            for name in names:
                try:
                    found += Path(folder, name).stat().st_size
                except FileNotFoundError:
                    continue
        return found >= size

    try:
        wait_until(is_reached, f"{size:,} bytes", within=60)
    finally:
        process.kill()
        process.wait()


def test_killed_backup_leaves_no_file_and_the_next_one_is_whole(large: Path, tmp_path: Path) -> None:
    file, partial = tmp_path / "b.headgate", tmp_path / ".b.headgate.partial"
    for size in (1, 10_000_000, 40_000_000):
        killed_at(["backup", str(file), "--data", str(large)], partial, size)
        assert partial.exists()
        assert not file.exists()
    done("backup", str(file), "--data", str(large))
    assert not partial.exists()
    done("restore", str(file), "--data", str(tmp_path / "restored"))
    for path in (large / "history").rglob("*.parquet"):
        assert (tmp_path / "restored" / path.relative_to(large)).read_bytes() == path.read_bytes()


def test_killed_restoration_leaves_no_folder_and_the_next_one_is_whole(large: Path, tmp_path: Path) -> None:
    file, restored, partial = tmp_path / "b.headgate", tmp_path / "restored", tmp_path / ".restored.restoring"
    done("backup", str(file), "--data", str(large))
    restored.mkdir()
    for size in (1, 10_000_000, 50_000_000):
        killed_at(["restore", str(file), "--data", str(restored)], partial, size)
        assert list(restored.iterdir()) == []
    done("restore", str(file), "--data", str(restored))
    assert not partial.exists()
    with broker_process(restored) as (_, url):
        assert drain(url) == ["first"]


# -- files that do not fit --------------------------------------------------------------------------------------


def test_damaged_or_incomplete_file_is_refused_and_restores_nothing(data: Path, tmp_path: Path) -> None:
    file, broken, restored = tmp_path / "b.headgate", tmp_path / "broken", tmp_path / "restored"
    done("backup", str(file), "--data", str(data))
    content = file.read_bytes()
    chance = random.Random(1)
    wrong = [content[:size] for size in (0, 5, len(content) // 3, len(content) - 9, len(content) - 1)]
    while len(wrong) < 12:
        changed = bytearray(content)
        changed[chance.randrange(12, len(changed))] ^= 1 << chance.randrange(8)
        if is_changed(bytes(changed), content):  # some bits of a compressed file mean nothing
            wrong.append(bytes(changed))
    wrong.append(b"not a backup at all")
    for each in wrong:
        broken.write_bytes(each)
        line = refused("restore", str(broken), "--data", str(restored))
        assert line.startswith(f"headgate restore: {broken}: it is ")
        assert not restored.exists()


def is_changed(packed: bytes, original: bytes) -> bool:
    try:
        return gzip.decompress(packed) != gzip.decompress(original)
    except (OSError, EOFError, zlib.error):
        return True


def test_name_that_leads_out_of_the_folder_is_refused(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.headgate"
    with tarfile.open(file, "w:gz") as tar:
        for name, content in (("headgate-backup.json", b'{"format": 1}'), ("../escaped", b"x")):
            (tmp_path / "content").write_bytes(content)
            tar.add(tmp_path / "content", arcname=name, filter=None)
    line = refused("restore", str(file), "--data", str(tmp_path / "below" / "restored"))
    assert "'../escaped' is not a name in a data folder" in line
    assert not list(tmp_path.rglob("escaped"))


def test_folder_that_is_not_empty_is_refused(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.headgate"
    done("backup", str(file), "--data", str(data))
    line = refused("restore", str(file), "--data", str(data))
    assert line == (f"headgate restore: {data} is not an empty folder: move it away, or choose another with --data")


def test_places_where_no_backup_can_be_made_are_named(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.headgate"
    line = refused("backup", str(file), "--data", str(tmp_path / "none"))
    assert line == f"headgate backup: {tmp_path}/none is not a data folder of Headgate: choose it with --data"
    inside = data / "broker" / "b.headgate"
    assert refused("backup", str(inside), "--data", str(data)).endswith("choose another folder")
    file.write_text("something else")
    assert refused("backup", str(file), "--data", str(data)) == (f"headgate backup: {file} exists: choose another name")
    assert file.read_text() == "something else"


def test_backup_of_a_later_release_is_refused(data: Path, tmp_path: Path) -> None:
    file, restored = tmp_path / "b.headgate", tmp_path / "restored"
    (data / "console").mkdir()
    with closing(sqlite3.connect(data / "console" / "console.sqlite3")) as db:
        db.execute("CREATE TABLE django_migrations (app, name)")
        db.execute("INSERT INTO django_migrations VALUES ('auth', 'of_another_package'), ('audit', '9999_later')")
        db.commit()
    done("backup", str(file), "--data", str(data))
    assert refused("restore", str(file), "--data", str(restored)).endswith(
        "the backup was made by a later release: audit.9999_later of its database is not known here"
    )
    assert not restored.exists()


def test_stores_of_a_later_release_are_refused(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.headgate"
    segment = max((data / STORE).glob("*.segment"))
    header = SegmentFile(segment, segment.stat().st_size).read_header()
    assert header is not None
    packed = struct.pack("<8sIIqqq8s", MAGIC, 99, 1, *header[1:])
    content = segment.read_bytes()
    copies = (packed + struct.pack("<I", value(packed))).ljust(4096, b"\0") * 2
    segment.write_bytes(copies + content[len(copies) :])
    assert "was written by a later release: version 99" in refused("backup", str(file), "--data", str(data))
    assert not file.exists()


def test_stores_that_do_not_belong_together_are_refused(data: Path, tmp_path: Path) -> None:
    shutil.rmtree(data / "broker" / FOLDER)
    line = refused("backup", str(tmp_path / "b.headgate"), "--data", str(data))
    assert "is missing, and" in line
    assert re.search(r"says that it was there$", line)


def test_database_and_history_elsewhere_are_named_and_required(data: Path, tmp_path: Path) -> None:
    file, restored = tmp_path / "b.headgate", tmp_path / "restored"
    elsewhere = {"DATABASE_URL": "postgresql://db/headgate", "HEADGATE_HISTORY_URL": "s3://bucket/history"}
    ended = headgate("backup", str(file), "--data", str(data), **elsewhere)
    assert ended.returncode == 0, ended.stderr
    assert "Not in it: the console's database (postgresql)." in ended.stdout
    assert "Not in it: the history at s3://bucket/history." in ended.stdout
    assert "the console's database was postgresql and is not in the backup" in refused(
        "restore", str(file), "--data", str(restored)
    )
    assert not restored.exists()
    ended = headgate("restore", str(file), "--data", str(restored), **elsewhere)
    assert ended.returncode == 0, ended.stderr
    assert "set HEADGATE_HISTORY_URL" in ended.stdout
    second = tmp_path / "c.headgate"
    done("backup", str(second), "--data", str(data))
    assert refused("restore", str(second), "--data", str(tmp_path / "r2"), **elsewhere).endswith("unset DATABASE_URL")
