"""Stores of releases before the last one, and stores that were never used: a start takes them, and so does the next."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from proton import Message

from brokers.server.store_adoption import adopt
from brokers.server.store_command import main
from brokers.server.store_folder import earlier_of, file_name, store_files
from brokers.server.store_survey import FOLDER, read_store
from tests.amqp.broker_thread import BrokerThread
from tests.server.earlier_store.test_conversion import RESERVE, durable_message
from tests.server.earlier_writer.folders import as_of_before_identities, as_of_the_release_before
from tests.server.earlier_writer.message_store import MessageStore
from tests.server.test_store_identity import make_durable, names, receive, send

DEFAULT, SECOND = file_name("default"), file_name("second")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Of a broker with a queue `dq` without messages, and an empty virtual host `second`."""
    data = tmp_path / "data"
    with BrokerThread(data) as broker:
        make_durable(broker, "dq")
        broker.do(lambda s: s.broker.create_virtualhost("second"))
        make_durable(broker, "other", virtualhost="second")
    return data


def with_messages(data: Path, *texts: str) -> None:
    with BrokerThread(data) as broker:
        send(broker, "dq", *texts)


def as_of_the_first_release(data: Path) -> None:
    """Make the files what the first release left: without expiries, too."""
    as_of_before_identities(data)
    for store in (data / FOLDER).glob("*.sqlite3"):
        with closing(sqlite3.connect(store)) as db:
            db.executescript(
                "DROP INDEX message_place; ALTER TABLE message DROP COLUMN expires;"
                "CREATE UNIQUE INDEX message_place ON message (queue, number, size, failed);"
                "UPDATE schema_version SET version = 1;"
            )


@pytest.mark.parametrize("made", [as_of_the_release_before, as_of_before_identities, as_of_the_first_release])
def test_empty_stores_of_every_release_become_journals_that_every_start_takes(stopped: Path, made) -> None:
    made(stopped)
    assert [path.suffix for path in store_files(stopped / FOLDER)] == [".sqlite3"] * 2
    for number in range(3):
        with BrokerThread(stopped) as broker:
            assert broker.depth("dq") == number
            send(broker, "dq", f"{number}")
    assert [path.name for path in store_files(stopped / FOLDER)] == [DEFAULT, SECOND]
    assert not list((stopped / FOLDER).glob("*.sqlite3*"))
    assert main(["check", "--data", str(stopped)]) == 0


def test_messages_of_the_first_release_are_converted_with_their_failed_deliveries(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_messages(stopped, *names("m", 30))
    as_of_the_first_release(stopped)
    path = earlier_of(stopped / FOLDER / DEFAULT)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE message SET failed = 2 WHERE number = 7")
        db.commit()
    found = read_store(path)
    assert (found.error, found.damage, found.messages, found.stamp) == ("", [], 30, None)
    assert main(["check", "--data", str(stopped)]) == 0
    assert main(["convert", "--data", str(stopped)]) == 0
    assert "30 messages" in capsys.readouterr().out
    for _ in range(2):
        with BrokerThread(stopped) as broker:
            assert broker.depth("dq") == 30
    assert [entry[1:] for entry in read_store(stopped / FOLDER / DEFAULT).found.index.entries(1) if entry[3]] == [
        (7, len(Message(body="m6", durable=True).encode()), 2, 0)
    ]
    with BrokerThread(stopped) as broker:
        assert receive(broker, "dq") == names("m", 30)


@pytest.mark.parametrize("known", [True, False])
def test_store_that_a_killed_process_had_just_created_does_not_prevent_any_start(stopped: Path, known: bool) -> None:
    """It has its tables, and no stamp yet: also where the configuration has the virtual host."""
    if known:
        with BrokerThread(stopped) as broker:
            broker.do(lambda s: s.broker.create_virtualhost("third"))
    as_of_the_release_before(stopped)
    made = earlier_of(stopped / FOLDER / file_name("third"))
    MessageStore(made, reserve_bytes=RESERVE).close()
    for start in range(3):
        with BrokerThread(stopped) as broker:
            assert ("third" in broker.look(lambda s: set(s.broker.virtualhosts))) == known
            if known and not start:
                make_durable(broker, "q", virtualhost="third")
                broker.do(lambda s: s.broker.queue("third", "q").enqueue(durable_message(1)))
            if known:
                assert broker.look(lambda s: s.broker.queue("third", "q").gate.depth_messages) == 1
    assert made.exists() != known
    assert "no queue had to be recreated" in adopt(stopped)[0]
    with BrokerThread(stopped) as broker:
        assert broker.depth("dq") == 0


def test_store_of_which_all_is_lost_becomes_a_journal_that_every_start_takes(stopped: Path) -> None:
    """One without a stamp, of a configuration without an identity."""
    as_of_before_identities(stopped)
    path = earlier_of(stopped / FOLDER / DEFAULT)
    with closing(MessageStore(path, reserve_bytes=RESERVE)) as store:
        store.put(1, 1, b"lost" * 10_000)
        assert store.write(store.take()).fault is None
    content = path.read_bytes()
    at = content.index(b"lostlost")
    path.write_bytes(content[:at] + b"L" + content[at + 1 :])
    for start in range(3):
        with BrokerThread(stopped) as broker:
            assert broker.depth("dq") == start
            send(broker, "dq", "new")


def test_store_without_a_stamp_of_which_no_run_can_be_read_is_not_taken_for_an_unused_one(
    stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    as_of_before_identities(stopped)
    path = earlier_of(stopped / FOLDER / DEFAULT)
    with closing(MessageStore(path, reserve_bytes=RESERVE)) as store:
        store.put_run(1, 1, [b"x"] * 10, 10)
        assert store.write(store.take()).fault is None
        store._db.execute("UPDATE run SET parts = zeroblob(length(parts))")
    for _ in range(2):
        with BrokerThread(stopped) as broker:
            assert broker.depth("dq") == 0
    assert f"{path} was damaged: lost: 1 of queue number 1, 2 of queue number 1" in caplog.text
    assert list((stopped / FOLDER).glob("*-damaged-*"))
