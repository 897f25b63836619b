"""The message stores of the release before become journals: the same messages, wherever the conversion is killed, and
nothing is lost, doubled or refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import random
import shutil
import sqlite3
import tarfile
import tempfile
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message

from brokers.engine.values.message import DELAYED, number_of
from brokers.server import config_store
from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store import conversion, salvage
from brokers.server.earlier_store.conversion import convert_all, needed_bytes
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.listing import read_listing
from brokers.server.journal.reading import JournalReader
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import CONTENT, SegmentFile, WriteFailed
from brokers.server.journal.stamp_file import Stamp, read_stamp
from brokers.server.lineage import Lineage
from brokers.server.message_groups import Entry
from brokers.server.opening import open_folder
from brokers.server.service import Service
from brokers.server.sqlite_file import DiskFull, StoreError
from brokers.server.store_adoption import adopt
from brokers.server.store_command import main
from brokers.server.store_folder import (
    earlier_of,
    file_name,
    journal_of,
    remove_converted,
    remove_unfinished,
    store_files,
)
from brokers.server.store_identity import StoreMismatch
from brokers.server.store_set_aside import set_aside
from brokers.server.store_survey import CONFIG, FOLDER, STORE, read_records, read_store
from tests.amqp.broker_thread import BrokerThread
from tests.server.earlier_writer import start_rule
from tests.server.earlier_writer.folders import RESERVE, as_of_the_release_before
from tests.server.earlier_writer.message_store import MessageStore
from tests.server.test_store_identity import contents, make_durable, names, receive, send

RECORDED = Path(__file__).parents[2] / "up" / "folders" / "release_sqlite.tar.xz"
NAME = file_name("default")

#: (queue, number) -> body, failed deliveries, expiry.
Stored = dict[tuple[int, int], tuple[bytes | None, int, int]]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JournalStore.__init__, "__kwdefaults__", JournalStore.__init__.__kwdefaults__ | SMALL)  # type: ignore[arg-type, operator]


SMALL = {"segment_bytes": 64 << 10, "group_bytes": 32 << 10}


def stored(journal: Path) -> Stored:
    with closing(JournalReader(journal)) as reader:
        entries = list(reader.recover())
        assert entries == sorted(entries)
        return {
            (queue, number): (reader.load(queue, [number]).get(number), failed, expires)
            for queue, number, _, failed, expires in entries
        }


def of_earlier(path: Path) -> Stored:
    with closing(MessageStore(path, reserve_bytes=RESERVE)) as store:
        found: list[Entry] = list(store.recover())
        return {
            (queue, number): (store.load(queue, [number]).get(number), failed, expires)
            for queue, number, _, failed, expires in found
        }


def files(data: Path) -> dict[Path, bytes]:
    """All files of the stores, but those with which SQLite lets several connections read one."""
    found = contents(data / FOLDER)
    return {path: content for path, content in found.items() if not path.name.endswith("-shm") and content}


# -- the same messages ------------------------------------------------------------------------------------------------

PLACES = st.tuples(st.integers(1, 4), st.sampled_from([0, 4, 4, 4, 9]))
ACTS = st.one_of(
    st.tuples(st.just("run"), PLACES, st.integers(1, 400), st.integers(0, 300)),
    st.tuples(st.just("row"), PLACES, st.sampled_from([0, 0, 1_900_000_000_000, 77 | DELAYED]), st.integers(0, 70_000)),
    st.tuples(st.just("transaction"), PLACES, st.integers(1, 5), st.integers(0, 50)),
    st.tuples(st.just("remove"), PLACES, st.integers(1, 60), st.integers(1, 3)),
    st.tuples(st.just("fail"), PLACES, st.integers(0, 30), st.integers(1, 9)),
    st.tuples(st.just("drop"), PLACES, st.just(0), st.just(0)),
    st.tuples(st.just("write"), PLACES, st.just(0), st.just(0)),
)


class Filling:
    """Random content of a store, by the calls that the engine makes."""

    def __init__(self, store: MessageStore, seed: int) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.next: dict[tuple[int, int], int] = {}
        self.there: dict[int, list[int]] = {}
        self.dropped: set[int] = set()
        self.transactions = itertools.count(1)

    def act(self, what: str, place: tuple[int, int], first: int, second: int) -> None:
        if place[0] not in self.dropped or what == "write":
            getattr(self, what)(place, first, second)

    def numbers(self, place: tuple[int, int], count: int) -> list[int]:
        queue, priority = place
        sequence = self.next.get((queue, 0), 1)
        self.next[queue, 0] = sequence + count
        found = [number_of(sequence + at, priority) for at in range(count)]
        self.there.setdefault(queue, []).extend(found)
        self.store.name_queue(queue, f"queue {queue} ü")
        return found

    def run(self, place: tuple[int, int], count: int, size: int) -> None:
        bodies = [self.chance.randbytes(self.chance.randint(0, size)) for _ in range(count)]
        self.store.put_run(place[0], self.numbers(place, count)[0], bodies, sum(map(len, bodies)))

    def row(self, place: tuple[int, int], expires: int, size: int) -> None:
        self.store.put(place[0], self.numbers(place, 1)[0], self.chance.randbytes(size), expires)

    def transaction(self, place: tuple[int, int], count: int, size: int) -> None:
        self.store.begin(next(self.transactions))
        for number in self.numbers(place, count):
            self.store.put(place[0], number, self.chance.randbytes(size))
        self.store.end()

    def remove(self, place: tuple[int, int], count: int, every: int) -> None:
        self.write(place, 0, 0)
        for number in sorted(self.there.get(place[0], []))[:count:every]:
            self.store.remove(place[0], number)
            self.there[place[0]].remove(number)

    def fail(self, place: tuple[int, int], at: int, count: int) -> None:
        self.write(place, 0, 0)
        if there := self.there.get(place[0]):
            self.store.fail(place[0], there[at % len(there)], count)

    def drop(self, place: tuple[int, int], *_: int) -> None:
        self.store.drop_queue(place[0])
        self.dropped.add(place[0])

    def write(self, *_: Any) -> None:
        while True:
            written = self.store.write(self.store.take())
            assert (written.fault, written.removed) == (None, True)
            if not (self.store.pending or written.unfinished):
                return


@settings(max_examples=40)
@given(acts=st.lists(ACTS, max_size=25), seed=st.integers(0, 99), generation=st.integers(1, 3))
def test_random_content_is_the_same_before_and_after(acts: list[Any], seed: int, generation: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        path = earlier_of(data / FOLDER / NAME)
        with closing(MessageStore(path, reserve_bytes=RESERVE)) as store:
            store.set_stamp(Stamp("me", "default", generation, 9))
            filling = Filling(store, seed)
            for act in acts:
                filling.act(*act)
            filling.write()
            queues = dict(store.names)
        before = of_earlier(path)
        with closing(ConfigStore(data / CONFIG)) as config:
            config.put(STORE, path.name, {"virtualhost": "default"})
            config.commit()
            assert convert_all(config, [read_store(path)], say=lambda _: None) == []
            assert [key for kind, key, _ in config.load() if kind == STORE] == [NAME]
        assert stored(data / FOLDER / NAME) == before
        assert read_stamp(data / FOLDER / NAME)[0] == Stamp("me", "default", generation, 9)
        found = read_store(data / FOLDER / NAME)
        assert {number: queue.name for number, queue in found.queues.items()} == {
            number: queues[number] for number in {queue for queue, _ in before}
        }
        assert of_earlier(path) == before, "the file is as it was"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The folder of a broker of the release before that was killed: with runs, rows, priorities, expiries, delayed
    messages, and some of a transaction."""
    with tarfile.open(RECORDED) as tar:
        tar.extractall(tmp_path, filter="data")
    return (tmp_path / "broker").rename(tmp_path / "data")


def dumped(data: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    capsys.readouterr()
    assert main(["dump", "--bodies", "--data", str(data)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_folder_of_a_killed_broker_of_the_release_before_has_all_it_had(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dumped(recorded, capsys)
    assert len(before) == 227
    assert main(["convert", "--data", str(recorded)]) == 0
    assert "is converted into a journal: 227 messages" in capsys.readouterr().out
    assert dumped(recorded, capsys) == before
    assert "was converted into a journal" in (recorded / "broker.log").read_text()
    with BrokerThread(recorded) as broker:
        assert [broker.depth(queue) for queue in ("runs", "rows", "urgent", "book", "failed")] == [187, 12, 12, 5, 3]
        assert len(receive(broker, "rows")) == 12
        assert receive(broker, "urgent")[:3] == ["urgent 3", "urgent 7", "urgent 11"]
    assert not list((recorded / FOLDER).glob("*sqlite3*")), "the files have gone when a start has succeeded"
    assert main(["check", "--data", str(recorded)]) == 0


# -- killed -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a broker of the release before, with a second virtual host: 30 messages in `dq`, 3 in `other`."""
    folder = tmp_path / "data"
    with BrokerThread(folder) as broker:
        make_durable(broker, "dq")
        send(broker, "dq", *names("m", 30))
        broker.do(lambda s: s.broker.create_virtualhost("second"))
        make_durable(broker, "other", virtualhost="second")
        broker.do(lambda s: [s.broker.queue("second", "other").enqueue(durable_message(n)) for n in range(3)])
        broker.until(lambda s: not s.broker.virtualhost("second").store.pending, "they are stored")
    as_of_the_release_before(folder)
    (folder / "broker.log").unlink(missing_ok=True)
    return folder


def durable_message(number: int) -> bytes:
    return bytes(Message(body=f"o{number}", durable=True).encode())


class Killed(BaseException):
    pass


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Ends the process, so to say, before the write, rename or deletion of this number, and returns all of them."""
    steps: list[str] = []
    limit = [0]

    def counted(call: Callable[..., Any], what: str) -> Callable[..., Any]:
        def called(*given: Any, **how: Any) -> Any:
            if limit[0] and len(steps) + 1 >= limit[0]:
                raise Killed
            steps.append(what)
            return call(*given, **how)

        return called

    transaction = config_store.transaction

    @contextlib.contextmanager
    def watched(db: sqlite3.Connection) -> Iterator[None]:
        if limit[0] and len(steps) + 1 >= limit[0]:
            raise Killed
        steps.append("commit")
        with transaction(db):
            yield

    monkeypatch.setattr(config_store, "transaction", watched)
    for owner, name in ((SegmentFile, "write"), (os, "replace"), (os, "rename"), (shutil, "rmtree")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name), name))

    def until(step: int) -> list[str]:
        steps.clear()
        limit[0] = step
        return steps

    return until


def test_a_conversion_that_is_killed_at_any_step_is_done_by_the_next_start(
    data: Path, tmp_path: Path, killing: Callable[[int], list[str]]
) -> None:
    expected = {path.name: of_earlier(path) for path in store_files(data / FOLDER)}
    assert sum(map(len, expected.values())) == 33
    before = tmp_path / "before"
    shutil.copytree(data, before)
    ended, found = False, set[str]()
    for step in range(1, 200):
        shutil.rmtree(data)
        shutil.copytree(before, data)
        done = killing(step)
        try:
            start(data)
            ended = True
        except Killed:
            found.add(" ".join(done[-1:]))
        killing(0)
        earlier_of_all = {path.name for path in (data / FOLDER).glob("*.sqlite3")}
        assert earlier_of_all == set(expected), "the files are there until a start has succeeded"
        start(data)
        for name, messages in expected.items():
            assert stored(journal_of(data / FOLDER / name)) == messages, f"step {step}"
        remove_converted(data / FOLDER)
        assert sorted(path.name for path in (data / FOLDER).iterdir()) == sorted(
            journal_of(Path(name)).name for name in expected
        )
        if ended:
            break
    assert ended
    assert found >= {"", "commit", "write", "replace", "rename"}


def start(data: Path) -> None:
    """What a start does with the files before it opens them."""
    with open_folder(data) as (config, stores, found), closing(config):
        assert found == []
        remove_unfinished(data / FOLDER)
        Lineage(config, stores)


def test_the_file_that_an_earlier_start_has_left_is_no_store(data: Path) -> None:
    """Also where messages were consumed since: they would be there again."""
    start(data)
    assert len(list((data / FOLDER).glob("*.sqlite3"))) == 2
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == names("m", 30)
    shutil.copytree(data, data.with_name("ended"))
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 0


def test_release_before_refuses_what_this_one_has_written(data: Path) -> None:
    """By its own rule, which takes what it has left itself: else it would start without the messages."""
    assert len(start_rule.check(data, read_records(data))) == 2
    start(data)
    with pytest.raises(start_rule.StoreMismatch) as caught:  # before and after the files have gone
        start_rule.check(data, read_records(data))
    assert f"{data / FOLDER / NAME}, the message store of virtual host default, is missing" in str(caught.value)
    remove_converted(data / FOLDER)
    with pytest.raises(start_rule.StoreMismatch, match="is missing"):
        start_rule.check(data, read_records(data))
    new = data.with_name("new")
    with BrokerThread(new) as broker:
        make_durable(broker, "dq")
    with pytest.raises(start_rule.StoreMismatch, match="is missing"):
        start_rule.check(new, read_records(new))


def test_release_before_starts_with_what_a_killed_conversion_has_left(
    data: Path, killing: Callable[[int], list[str]]
) -> None:
    """Until the configuration knows the first journal, nothing has changed for it; from then on it refuses."""
    refused = set[bool]()
    for step in range(1, 40):
        copy = Path(shutil.copytree(data, data.with_name(f"killed-{step}")))
        done = killing(step)
        with contextlib.suppress(Killed):
            start(copy)
        steps = list(done)
        killing(0)
        try:
            start_rule.check(copy, read_records(copy))
        except start_rule.StoreMismatch:
            assert "commit" in steps
            refused.add(True)
        else:
            assert "commit" not in steps
            refused.add(False)
    assert refused == {True, False}


# -- what is not converted ------------------------------------------------------------------------------------------


def test_stores_that_do_not_belong_to_the_configuration_are_refused_before_anything_is_changed(data: Path) -> None:
    (data / CONFIG).unlink()
    before = files(data)
    with pytest.raises(StoreMismatch, match=r"default-.*\.sqlite3 has 30 messages"):
        Service(data)
    assert files(data) == before
    assert "queue dq was created for the 30 messages" in " ".join(adopt(data))
    with BrokerThread(data) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "anonymous", True))
        assert receive(broker, "dq") == names("m", 30)


def test_stores_of_the_release_before_are_set_aside_with_their_logs(data: Path) -> None:
    (data / CONFIG).unlink()
    path = earlier_of(data / FOLDER / NAME)
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(b"the newest messages")
    set_aside(data)
    [aside] = data.glob("messages-set-aside-*")
    assert (aside / log.name).read_bytes() == b"the newest messages"
    assert (aside / path.name).exists()
    assert not store_files(data / FOLDER)


def test_file_that_has_become_a_journal_is_set_aside_with_it(data: Path) -> None:
    start(data)
    set_aside(data)
    [aside] = data.glob("messages-set-aside-*")
    assert len(list(aside.iterdir())) >= 4
    assert not store_files(data / FOLDER), "else its messages would be there again"


def test_store_of_a_virtual_host_that_was_just_deleted_is_not_converted(data: Path) -> None:
    with closing(ConfigStore(data / CONFIG)) as config:
        for kind, key, value in config.load():
            if (kind == "virtualhost" and value["name"] == "second") or (kind == STORE and "second" in key):
                config.remove(kind, key)
        config.commit()
    start(data)
    assert [path.name for path in store_files(data / FOLDER)] == [NAME]
    assert not list((data / FOLDER).glob("second*"))


def test_journal_beside_a_file_that_the_configuration_knows_is_refused(data: Path) -> None:
    """The folder of messages was restored over one that this release has written."""
    before = contents(data)
    start(data)
    for name, content in before.items():
        (data / name).write_bytes(content)
    with pytest.raises(StoreMismatch, match=r"\.journal is there beside .*\.sqlite3"):
        start(data)
    assert sum(read_store(path).messages for path in store_files(data / FOLDER)) == 33


# -- disk space -------------------------------------------------------------------------------------------------------


def test_without_room_the_broker_does_not_start_says_what_it_needs_and_leaves_the_files_as_they_are(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(data)
    needed = needed_bytes([read_store(path) for path in store_files(data / FOLDER)])
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 40, 0, needed - 1))
    with pytest.raises(DiskFull) as caught:
        Service(data)
    assert f"needs {needed:,}: free some" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files(data) == before
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 40, 0, needed))
    start(data)


@pytest.mark.parametrize("room", range(4))
def test_disk_that_gets_full_meanwhile_leaves_the_files_as_they_are(
    data: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    expected = {path.name: of_earlier(path) for path in store_files(data / FOLDER)}
    create, created = SegmentFile.create, itertools.count()

    def limited(path: Path, *given: Any, **how: Any) -> SegmentFile:
        if next(created) >= room:
            raise WriteFailed(path, OSError(28, "No space left on device"))
        return create(path, *given, **how)

    with monkeypatch.context() as patch:
        patch.setattr(SegmentFile, "create", limited)
        with pytest.raises(
            DiskFull, match=r"the disk is full: the conversion of .* needs [\d,]+ bytes. It is as it was"
        ):
            start(data)
    assert not list((data / FOLDER).glob("*.new"))
    assert {path.name for path in (data / FOLDER).glob("*.sqlite3")} == set(expected)
    start(data)
    for name, messages in expected.items():
        assert stored(journal_of(data / FOLDER / name)) == messages


# -- damage -----------------------------------------------------------------------------------------------------------


def test_damaged_messages_are_named_and_their_file_is_preserved(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(salvage, "READ_THROUGH_BYTES", 0)  # as of a large store, which is not read through before
    path = earlier_of(data / FOLDER / NAME)
    content = path.read_bytes()
    at = content.index(b"m17")
    path.write_bytes(content[:at] + b"M" + content[at + 1 :])
    damaged = path.read_bytes()
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == [name for name in names("m", 30) if name != "m17"]
    assert f"{path} was damaged: lost: 18 of queue number 1" in caplog.text
    [copy] = (data / FOLDER).glob("*-damaged-*")
    assert copy.read_bytes() == damaged
    assert not path.exists()
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 0
    assert copy.exists()


def test_conversion_that_does_not_give_the_same_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = conversion._put

    def wrong(journal: JournalStore, batch: Any, bodies: dict[int, bytes]) -> None:
        put(journal, [(*entry[:3], entry[3] + (entry[1] == 7), entry[4]) for entry in batch], bodies)

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_put", wrong)
        with pytest.raises(StoreError, match="could not be converted, and is as it was"):
            start(data)
    assert [path.suffix for path in store_files(data / FOLDER)] == [".sqlite3"] * 2
    start(data)


def test_conversion_that_gives_a_message_the_body_of_another_is_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same size, and with a checksum that is correct."""
    put = conversion._put

    def wrong(journal: JournalStore, batch: Any, bodies: dict[int, bytes]) -> None:
        assert len(bodies[2]) == len(bodies[3])
        put(journal, batch, bodies | {2: bodies[3], 3: bodies[2]})

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_put", wrong)
        with pytest.raises(StoreError, match="as it was: the body of message 2 of queue number 1 became another"):
            start(data)
    assert [path.suffix for path in store_files(data / FOLDER)] == [".sqlite3"] * 2
    start(data)


def test_conversion_whose_groups_are_not_as_in_their_listing_is_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that finds the listing damaged reads the groups."""
    copy = conversion._copy

    def damaged(path: Path, db: Any, store: Any, new: Path, *given: Any) -> Any:
        found = copy(path, db, store, new, *given)
        [(file, header)] = recover(new).headers.values()
        assert read_listing(file, header, None) is not None
        content = file.path.read_bytes()
        at = content.index(header.salt[:4], CONTENT) + 4
        file.path.write_bytes(content[:at] + bytes(each ^ 255 for each in content[at : at + 4]) + content[at + 4 :])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_copy", damaged)
        with pytest.raises(StoreError, match=r"could not be converted, and is as it was: .* became"):
            start(data)
    start(data)


def test_progress_is_reported(data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(conversion, "REPORT_SECONDS", 0.0)
    caplog.set_level(logging.INFO)
    start(data)
    assert [text for text in caplog.messages if "30 of 30 messages" in text]
