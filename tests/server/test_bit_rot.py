"""A byte that flips in any file of a broker: never a wrong body, never a failure that names no file, nothing lost
silently, and at most what it hit."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import shutil
from pathlib import Path

import pytest
from proton import Message

from brokers.model import object_name
from brokers.server import service
from brokers.server.event_journal import DAMAGED, EventJournal, Expired
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.reading import damaged_messages
from brokers.server.service import Service
from brokers.server.sqlite_file import StoreError
from brokers.server.store_folder import file_name
from brokers.server.store_survey import CONFIG, FOLDER
from brokers.server.virtualhost_stores import ReadableStore
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected

STORE = f"{FOLDER}/{file_name('default')}"
SIZES = (10, 300, 9_000, 40_000)
FLIPS = 40
#: Messages of a queue that are written together; size of the store's files.
GROUP, SEGMENT = 5, 256 << 10

Bodies = dict[tuple[int, int], bytes]


def message(queue: int, number: int) -> bytes:
    return random.Random(f"{queue} {number}").randbytes(SIZES[number % len(SIZES)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One that was stopped in order, and one that was killed with its last commits in the logs."""
    stopped, killed = tmp_path_factory.mktemp("stopped"), tmp_path_factory.mktemp("killed") / "data"
    with BrokerThread(stopped) as broker:
        for name in ("first", "second"):
            broker.do(lambda s, n=name: s.broker.create_queue(s.broker.virtualhost("default"), n, {}, durable=True))
        with connected(broker) as connection:
            connection.create_sender("first").send(Message(body="to be settled", durable=True))
            receiver = connection.create_receiver("first")
            receiver.receive(timeout=5)
            receiver.accept()
    for half in (0, 1):
        store = JournalStore(stopped / STORE, segment_bytes=SEGMENT)
        for number in range(20 * half, 20 * half + 20):
            for queue in (1, 2):
                store.put(queue, number, message(queue, number), 0)
            if number % GROUP == GROUP - 1:
                assert store.write(store.take()).fault is None
        if half:
            shutil.copytree(stopped, killed)
        store.close()
    for folder in (stopped, killed):
        assert read(folder, len_only=True)[0] == 80
    return {"stopped": stopped, "killed": killed}


def read(data: Path, *, len_only: bool = False) -> tuple[int, Bodies, list[object], list[object]]:
    """Messages in the index; bodies, records and events, as a broker that starts reads them. Raises StoreError."""
    if len_only:
        data = Path(shutil.copytree(data, data.with_name("looked-at"), dirs_exist_ok=True))
    config, _, journal = service._open(data)
    with contextlib.closing(config), contextlib.closing(journal):
        bodies: Bodies = {}
        store = ReadableStore(data / STORE, segment_bytes=SEGMENT)
        with contextlib.closing(store):
            places = [row[:2] for row in store.recover()]
            for queue, number in places:
                found = store.load(queue, [number])
                bodies.update({(queue, at): body for at, body in (found or {}).items()})
        records = [record for record in config.load() if record[0] not in ("identity", "store")]
        events: list[object] = []
        with contextlib.suppress(Expired):
            events = list(journal.read(journal.first - 1))
    if len_only:
        shutil.rmtree(data)
    return len(places), bodies, records, events


@pytest.mark.domain("9 bit rot")
@pytest.mark.parametrize("name", ["stopped", "killed"])
@pytest.mark.parametrize("what", [CONFIG, "events.sqlite3", STORE])
def test_a_byte_that_flips_anywhere_gives_no_wrong_answer_and_is_named(
    folders: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, what: str
) -> None:
    random_ = random.Random(f"{name} {what}")
    _, _, records, events = read(Path(shutil.copytree(folders[name], tmp_path / "sound")))
    caplog.set_level(logging.WARNING)
    lost_most, refusals = 0, list[tuple[str, str]]()
    for flip in range(FLIPS):
        data = tmp_path / f"flip-{flip}"
        shutil.copytree(folders[name], data)
        log = data / f"{what}-wal"
        file = log if log.exists() and log.stat().st_size and flip % 2 else data / what
        if file.is_dir():
            file = random_.choice([each for each in sorted(file.glob("*.*")) if any(each.read_bytes())])
        content = bytearray(file.read_bytes())
        at = random_.randrange(100 if flip % 10 == 0 else len(content.rstrip(b"\0")))
        content[at] ^= 1 << random_.randrange(8)
        file.write_bytes(content)
        caplog.clear()
        where = f"byte {at} of {file}"
        try:
            _, bodies, found_records, found_events = read(data)
        except StoreError as error:
            refusals.append((str(error), str(data / what)))
            continue
        for (queue, number), body in bodies.items():
            assert body == message(queue, number), where
        named = [text for text in caplog.messages if str(data / what) in text]
        lost = 80 - len(bodies)
        lost_most = max(lost_most, lost)
        assert not lost or named, f"{where}: {lost} messages are lost silently"
        assert found_records == records, where
        wrong = [event for event, right in zip(found_events, events, strict=False) if event != right]
        assert all(event.kind == DAMAGED for event in wrong), where  # type: ignore[attr-defined]
        assert (len(found_events) == len(events) and not wrong) or named, where
        shutil.rmtree(data)
    assert all(file in text for text, file in refusals), "a refusal names the file"
    assert len(refusals) < FLIPS / (1 if what == CONFIG else 3), "what can go on does"
    assert lost_most <= 24, "the messages of a page or a group, at most"


def flip_in(path: Path, what: bytes) -> None:
    """Flip a bit of this content of a file, or of one of the segments in a folder."""
    for file in sorted(path.glob("*.segment")) if path.is_dir() else [path]:
        content = file.read_bytes()
        at = content.find(what)
        if at >= 0:
            file.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
            return
    raise AssertionError(f"{what!r} is not in {path}")


def test_a_damaged_message_is_not_delivered_and_those_around_it_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), "q", {}, durable=True))
        with connected(broker) as connection:
            sender = connection.create_sender("q")
            for number in range(10):
                sender.send(Message(body=f"message number {number}", durable=True))
    flip_in(tmp_path / STORE, b"message number 4")
    assert list(damaged_messages(tmp_path / STORE)) == [
        f"{tmp_path / STORE}: message 5 of queue number 1 is not as it was written"
    ]
    with BrokerThread(tmp_path) as broker, connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=10)
        found = [receiver.receive(timeout=5).body for _ in range(9)]
        assert found == [f"message number {number}" for number in range(10) if number != 4]
        assert f"{tmp_path / STORE} is damaged: message 5 of queue q is not delivered" in caplog.text
        broker.until_queue("q", lambda q: q.lanes.dropped == 1, "it is counted")


def test_the_name_of_a_damaged_record_is_in_the_refusal(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.queue("orders", capacity_messages=100)
    flip_in(tmp_path / CONFIG, b'"capacity_messages":100')
    with pytest.raises(StoreError, match=r"record queue .*orders.* is not as it was written") as caught:
        Service(tmp_path)
    assert str(tmp_path / CONFIG) in str(caught.value)


def test_damaged_event_is_replaced_by_one_that_reports_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "events.sqlite3"
    name = object_name("Broker")
    journal = EventJournal(path)
    journal.append([(5, "policy-changed", name, f"said {number}", {}) for number in range(5)])
    journal.close()
    flip_in(path, b"said 2")
    with contextlib.closing(EventJournal(path)) as journal:
        for _ in range(2):
            events = journal.read(0)
            assert [event.number for event in events] == [1, 2, 3, 4, 5]
            assert [event.kind == DAMAGED for event in events] == [False, False, True, False, False]
    assert caplog.messages == [f"{path} is damaged: event 3 is not as it was written"]


def test_the_temp_store_hands_out_no_wrong_body(tmp_path: Path) -> None:
    store = JournalStore(tmp_path / "temp.journal", durable=False)
    with contextlib.closing(store):
        for number in range(3):
            store.put(1, number, b"spooled %d" % number)
        store.write(store.take())
        flip_in(tmp_path / "temp.journal", b"spooled 1")
        assert store.load(1, [0, 1, 2]) == {0: b"spooled 0", 2: b"spooled 2"}
        assert store.damaged == {(1, 1)}


@pytest.mark.parametrize("part", [0.5, 0.6])
def test_truncated_store_is_recovered_as_far_as_possible_and_losses_are_named(
    folders: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, part: float
) -> None:
    data = Path(shutil.copytree(folders["stopped"], tmp_path / "data"))
    for file in (data / STORE).glob("*.segment"):
        os.truncate(file, int(file.stat().st_size * part))
    caplog.set_level(logging.WARNING)
    _, bodies, _, _ = read(data)
    assert all(body == message(*place) for place, body in bodies.items())
    assert 0 < len(bodies) < 80
    assert [text for text in caplog.messages if str(data / STORE) in text and "messages may be lost" in text]


@pytest.mark.parametrize("what", [CONFIG, "events.sqlite3"])
@pytest.mark.parametrize("part", [2, 7])
def test_a_configuration_or_a_journal_that_is_cut_off_is_refused_by_name(
    folders: dict[str, Path], tmp_path: Path, what: str, part: int
) -> None:
    data = Path(shutil.copytree(folders["stopped"], tmp_path / "data"))
    content = (data / what).read_bytes()
    (data / what).write_bytes(content[: len(content) * (part - 1) // part])
    try:
        service = read(data)
    except StoreError as error:
        refusal = str(error)
        assert str(data / what) in refusal
        assert "\n" not in refusal
    else:
        assert what != CONFIG
        assert service[0] == 80, "a journal costs no message"
