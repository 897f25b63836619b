"""Logs that real brokers write while their flow control blocks a client, against what the client has seen.

Broker-J, Artemis and ActiveMQ come from Maven's central repository and run without a store (`logs/`). RabbitMQ is
Debian's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from proton import Message, ProtonException
from proton.utils import BlockingConnection

from console.history.importing.log_import import LogImport
from console.history.importing.log_reading import Options
from console.history.rollups.broker import BrokerRollups
from console.history.storage.landing import Landing
from tests.interop.maven import WITHIN, libraries, start_java
from tests.interop.rabbitmq_node import publishing, rabbitmq
from tests.up.running import free_port, wait_until

FILES = Path(__file__).parent / "logs"
BLOCKED = 1.5  # s, how long the client is blocked at least
MESSAGES, SIZE = 12, 12_000


@dataclass(frozen=True)
class Kind:
    """A broker: its classes' file in `logs/`, and the lines that say that it blocks a producer."""

    name: str
    blocks: bytes
    layout: str = ""

    def __str__(self) -> str:
        return self.name


BROKER_J = [Kind("broker-j-7", b"CHN-1005"), Kind("broker-j-10", b"CHN-1005")]
ARTEMIS = Kind("artemis", b"AMQ222183", "%d %-5level [%logger] %msg%n")
ACTIVEMQ = Kind("activemq", b"Usage Manager Memory Limit", "%d | %-5p | %m | %c | %t%n%throwable{full}")


@dataclass
class Seen:
    """Times in ms: the client's longest send, when its block was in the log, when a consumer began to drain, and the
    end of the last send."""

    blocked: tuple[float, float]
    logged: float
    drained: float
    end: float
    log: Path


@contextmanager
def running(kind: Kind, classes: Path, folder: Path, port: int) -> Iterator[Path]:
    """Run the broker; return the path of its log."""
    log = folder / "broker.log"
    main: list[str | Path]
    if kind in BROKER_J:
        main = ["org.apache.qpid.server.Main", "-icp", FILES / "broker-j.json", "-st", "Memory"]
        main += ["-prop", f"qpid.work_dir={folder}", "-prop", f"amqp.port={port}"]
        options = []
    else:
        main = [FILES / ("Artemis.java" if kind is ARTEMIS else "ActiveMQ.java"), str(port)]
        options = [f"-Dlog.file={log}", f"-Dlog.layout={kind.layout}"]
        options.append(f"-Dlog4j2.configurationFile={FILES / 'log4j2.properties'}")
    process = start_java(folder / "output.txt", classes, *main, options=options)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


def connect(port: int) -> BlockingConnection:
    return BlockingConnection(f"127.0.0.1:{port}", timeout=WITHIN, virtual_host="default")


def accepts(port: int) -> bool:
    """Return whether the broker is ready; Broker-J listens before its virtual host is there."""
    try:
        connect(port).close()
    except ProtonException:
        return False
    return True


def blocked_client(kind: Kind, classes: Path, folder: Path) -> Seen:
    """Send until flow control blocks, hold that for a while, drain the queue; return what the client has seen."""
    port = free_port()
    sends: list[tuple[float, float]] = []
    failures: list[BaseException] = []

    def send() -> None:
        try:
            with closing(connect(port)) as connection:
                sender = connection.create_sender("orders")
                for _ in range(MESSAGES):
                    began = time.time() * 1000
                    sender.send(Message(body="x" * SIZE), timeout=WITHIN)
                    sends.append((began, time.time() * 1000))
        except BaseException as error:
            failures.append(error)

    with running(kind, classes, folder, port) as log:
        wait_until(lambda: accepts(port), "the broker accepts connections", WITHIN)
        client = threading.Thread(target=send)
        client.start()
        wait_until(lambda: kind.blocks in log.read_bytes() or failures, "flow control blocks the client", WITHIN)
        logged = time.time() * 1000
        time.sleep(BLOCKED)
        drained = time.time() * 1000
        with closing(connect(port)) as connection:
            receiver = connection.create_receiver("orders", credit=MESSAGES)
            for _ in range(MESSAGES if not failures else 0):
                receiver.receive(timeout=WITHIN)
                receiver.accept()
        client.join(WITHIN)
    assert not failures, failures
    assert len(sends) == MESSAGES
    return Seen(max(sends, key=lambda times: times[1] - times[0]), logged, drained, sends[-1][1], log)


@pytest.fixture
def classes(request: pytest.FixtureRequest) -> Path:
    """Fetch the broker with Maven, once."""
    assert request.config.cache is not None
    return libraries(FILES / f"{request.param.name}.xml", request.config.cache)


Rows = list[dict[str, Any]]


def imported(seen: Seen, tmp_path: Path) -> tuple[Rows, Rows, Rows]:
    """The same as `imported_log`, and the client's time is covered."""
    events, coverage, episodes, blocks = imported_log(seen.log, tmp_path)
    assert any(row["at"] <= seen.blocked[0] and seen.drained <= row["until"] for row in coverage)
    return events, episodes, blocks


def imported_log(log: Path, tmp_path: Path) -> tuple[Rows, Rows, Rows, Rows]:
    """Import the log; return its events, coverage, episodes and blocks, with times in ms. All event lines have been
    read."""
    landing = Landing(str(tmp_path / "history"))
    report = LogImport(landing, "real", Options(UTC)).import_file(log)
    assert not report.unread, report.examples
    events, coverage = (
        [{name: ms(value) for name, value in row.items()} for row in landing.read_all(kind).to_pylist()]
        for kind in ("events", "coverage")
    )
    rollups = BrokerRollups("real")
    # The same episodes as in the tables; the rollups of a recorder wait for its coverage.
    begin, end = (of(row["at"] for row in events) for of in (min, max))
    rollups.take(events=events, coverage=[{**coverage[0], "at": begin, "until": end + 1, "source": "recorder"}])
    return events, coverage, rollups.episodes(), rollups.holds()


def ms(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


@pytest.mark.domain("imports real logs")
@pytest.mark.parametrize(("kind", "classes"), [(kind, kind) for kind in BROKER_J], indirect=["classes"], ids=str)
def test_episodes_and_blocks_of_broker_j_are_those_of_its_client(kind: Kind, classes: Path, tmp_path: Path) -> None:
    seen = blocked_client(kind, classes, tmp_path)
    events, episodes, blocks = imported(seen, tmp_path)
    overfull = next(row for row in events if row["kind"] == "queue-overfull")
    underfull = next(row for row in events if row["kind"] == "queue-underfull")
    assert (overfull["depth_messages"], overfull["stop_messages"]) == (6, 5)
    assert (underfull["depth_messages"], underfull["resume_messages"]) == (2, 2)
    for row in (episodes[0], blocks[0]):
        assert (row["virtualhost"], row["queue"]) == ("default", "orders")
        assert row["start"] <= seen.logged
        assert seen.drained - 1 <= row["end"] <= seen.blocked[1] + 1
        assert row["end"] - row["start"] >= BLOCKED * 1000 - 1
    assert blocks[0]["ended_by"] in ("producer-released", "queue-underfull")
    assert not [row for row in (*episodes, *blocks) if row["end"] is None]
    # The connection is closed on the thread [Broker-Config].
    closed = {row["connection"] for row in events if row["kind"] == "connection-closed"}
    assert {row["connection"] for row in blocks} <= closed


@pytest.mark.domain("imports real logs")
@pytest.mark.parametrize("classes", [ARTEMIS], indirect=True, ids=str)
def test_overfull_address_of_artemis_is_that_of_its_client(classes: Path, tmp_path: Path) -> None:
    seen = blocked_client(ARTEMIS, classes, tmp_path)
    events, episodes, _ = imported(seen, tmp_path)
    overfull = next(row for row in events if row["kind"] == "queue-overfull")
    assert overfull["depth_bytes"] > overfull["stop_bytes"] == 50_000
    assert (episodes[0]["virtualhost"], episodes[0]["queue"]) == ("default", "orders")
    assert episodes[0]["start"] <= seen.logged
    assert seen.drained - 1 <= episodes[0]["end"] <= seen.blocked[1] + 1


@pytest.mark.domain("imports real logs")
@pytest.mark.parametrize("classes", [ACTIVEMQ], indirect=True, ids=str)
def test_overfull_destination_of_activemq_lies_within_the_blocks_of_its_client(classes: Path, tmp_path: Path) -> None:
    seen = blocked_client(ACTIVEMQ, classes, tmp_path)
    events, episodes, _ = imported(seen, tmp_path)
    assert next(row for row in events if row["kind"] == "queue-overfull")["stop_bytes"] == 50_000
    if episodes:  # one line alone says nothing about a duration
        assert {row["queue"] for row in episodes} == {"orders"}
        assert seen.blocked[0] - 1 <= episodes[0]["start"] <= seen.logged
        assert episodes[0]["start"] <= episodes[-1]["end"] <= seen.end + 1


@pytest.mark.domain("imports real logs")
def test_stops_by_alarms_of_rabbitmq_are_the_blocks_of_its_client(tmp_path: Path) -> None:
    folder = tmp_path / "rabbitmq"
    folder.mkdir()
    ordered: list[tuple[float, float]] = []  # when the first alarm was caused, and when the last one's cause ended
    with rabbitmq(folder) as node, publishing(node.port) as client:

        def hold(causes: list[tuple[str, str, str]]) -> None:
            """Cause alarms, `(command, value, value that ends it)`, one after the other, and end them in this order."""
            began = time.time() * 1000
            for command, value, _ in causes:
                node.control(command, value)
            client.wait_until_blocked(True)
            time.sleep(BLOCKED)
            for command, _, value in causes[:-1]:
                node.control(command, value)
            ordered.append((began, time.time() * 1000))
            command, _, value = causes[-1]
            node.control(command, value)
            client.wait_until_blocked(False)

        memory = ("set_vm_memory_high_watermark", "0", "0.9")
        disk = ("set_disk_free_limit", str(10**18), "1")
        hold([memory])
        hold([disk])
        hold([memory, disk])
        cleared = b"alarm cleared across the cluster"
        wait_until(lambda: node.log.read_bytes().count(cleared) == 4, "the log is written", WITHIN)
    assert client.longest >= BLOCKED * 1000
    events, _, episodes, _ = imported_log(node.log, tmp_path)
    episodes.sort(key=lambda row: int(row["start"]))
    assert [row["kind"] for row in episodes] == ["stopped"] * 3
    assert len(client.blocks) == 3
    for row, (began, ended), (blocked, unblocked) in zip(episodes, ordered, client.blocks, strict=True):
        assert began - 1 <= row["start"] <= blocked + 1
        assert ended - 1 <= row["end"] <= unblocked + 1
        assert row["end"] - row["start"] >= BLOCKED * 1000 - 1
    assert [row["kind"] for row in events].count("limit-cleared") == 1, "the memory's, while the disk's went on"
