"""Artemis with a journal, its management over Jolokia, and clients of it. From Maven's central repository."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from proton import Message, ProtonException
from proton.utils import BlockingConnection

from tests.interop.maven import WITHIN, jolokia_agent, libraries, start_java
from tests.interop.rabbitmq_node import listens
from tests.up.running import free_port, wait_until

FILES = Path(__file__).parent / "artemis"
USER, PASSWORD = "ada", "secret"


def artemis_libraries(version: str, cache: pytest.Cache) -> Path:
    """Fetch a version and Jolokia's agent, once; return the folder."""
    return libraries(FILES / f"artemis-{version}.xml", cache)


@dataclass
class ArtemisNode:
    """`classes`: see `artemis_libraries`. It has the same folder and ports each time it is started."""

    classes: Path
    folder: Path
    port: int
    http_port: int
    process: subprocess.Popen[bytes] | None = None
    policy: Path | None = None  # access rules of its management
    version: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}/jolokia"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        configuration = self.folder / "broker.xml"
        configuration.write_text((FILES / "broker.xml").read_text().replace("PORT", str(self.port)))
        agent = jolokia_agent(self.classes, self.http_port, USER, PASSWORD, self.policy)
        output = self.folder / "output.txt"
        main = (FILES / "Artemis.java", configuration.as_uri())
        self.process = process = start_java(output, self.classes, *main, options=[agent])

        def ready() -> bool:
            assert process.poll() is None, output.read_text()
            return listens(self.port)

        wait_until(ready, "Artemis accepts connections", WITHIN)

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            if kill:
                self.process.kill()
            self.process.terminate()
            self.process.wait(WITHIN)
            self.process = None


@contextmanager
def artemis(classes: Path, folder: Path, policy: Path | None = None) -> Iterator[ArtemisNode]:
    """Run Artemis in `folder`, which exists. It is ready. `policy`: the file of access rules of its management."""
    node = ArtemisNode(classes, folder, free_port(), free_port(), policy=policy)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder / "data", ignore_errors=True)


class Publisher(threading.Thread):
    """Sends durable messages numbered from 0 until all are accepted, again after a failure. `size`: bytes of each."""

    def __init__(self, port: int, address: str, count: int, size: int = 1000) -> None:
        super().__init__(daemon=True)
        self.port, self.address, self.count, self.size = port, address, count, size
        self.accepted = 0

    def run(self) -> None:
        while self.accepted < self.count:
            with suppress(ProtonException, OSError), closing(connection(self.port)) as opened:
                sender = opened.create_sender(self.address)
                while self.accepted < self.count:
                    message = Message(id=str(self.accepted), body="x" * self.size, durable=True)
                    sender.send(message, timeout=10 * WITHIN)
                    self.accepted += 1


class Drain(threading.Thread):
    """Consumes messages until one with this id has come; `received` has the ids."""

    def __init__(self, port: int, queue: str, last: int) -> None:
        super().__init__(daemon=True)
        self.port, self.queue, self.last = port, queue, last
        self.received: set[int] = set()

    def run(self) -> None:
        with closing(connection(self.port)) as opened:
            receiver = opened.create_receiver(self.queue, credit=10)
            while self.last not in self.received:
                self.received.add(int(receiver.receive(timeout=10 * WITHIN).id))
                receiver.accept()


def connection(port: int) -> BlockingConnection:
    return BlockingConnection(f"127.0.0.1:{port}", timeout=WITHIN, allowed_mechs="ANONYMOUS")
