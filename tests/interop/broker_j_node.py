"""A Broker-J with its management over HTTP and a store, so that it can be restarted, and its clients."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from proton import Delivery, Message, Timeout
from proton.utils import BlockingConnection

from tests.interop.maven import WITHIN, libraries, start_java
from tests.up.running import free_port, wait_until

FILES = Path(__file__).parent / "logs"


def broker_j_libraries(version: str, cache: pytest.Cache) -> Path:
    """Fetch a version (7 or 10), once; return the folder."""
    return libraries(FILES / f"broker-j-{version}.xml", cache)


@dataclass
class BrokerJNode:
    version: str
    classes: Path
    folder: Path
    port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    configuration: Path = FILES / "broker-j-http.json"
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        main: list[str | Path] = ["org.apache.qpid.server.Main", "-icp", self.configuration, "-st", "JSON"]
        for name, value in (
            ("qpid.work_dir", self.folder),
            ("amqp.port", self.port),
            ("http.port", self.http_port),
        ):
            main += ["-prop", f"{name}={value}"]
        output = self.folder / "output.txt"
        self.process = process = start_java(output, self.classes, *main)

        def is_ready() -> bool:
            assert process.poll() is None, output.read_text()
            return b"BRK-1004" in output.read_bytes()

        wait_until(is_ready, "Broker-J has started", WITHIN)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(WITHIN)
            self.process = None

    def connect(self) -> BlockingConnection:
        return BlockingConnection(f"127.0.0.1:{self.port}", timeout=WITHIN, virtual_host="default")

    def send(self, queue: str, count: int) -> None:
        """Send durable messages; all are accepted."""
        connection = self.connect()
        sender = connection.create_sender(queue)
        for number in range(count):
            sender.send(Message(id=f"{queue}-{number}", body="x" * 100, durable=True))
        connection.close()

    def blocks(self, queue: str) -> bool:
        """Whether the queue blocks producers, as the broker itself says."""
        url = f"http://127.0.0.1:{self.http_port}/api/latest/queue/default/default/{queue}"
        credentials = base64.b64encode(b"admin:secret").decode()
        request = urllib.request.Request(url, headers={"Authorization": f"Basic {credentials}"})
        with urllib.request.urlopen(request, timeout=WITHIN) as answer:
            found = json.load(answer)
        return bool((found[0] if isinstance(found, list) else found)["queueFlowStopped"])

    def drain(self, queue: str, count: int) -> list[str]:
        """Take messages, and return their ids."""
        connection = self.connect()
        receiver = connection.create_receiver(queue, credit=count)
        found = []
        for _ in range(count):
            found.append(str(receiver.receive(timeout=WITHIN).id))
            receiver.accept()
        receiver.close()  # sends the acknowledgements; without, Broker-J has the messages acquired still
        connection.close()
        return found


class Sender:
    """A producer that sends a message at a time, and can be blocked."""

    def __init__(self, node: BrokerJNode, queue: str) -> None:
        self.connection = node.connect()
        self._node, self._queue = node, queue
        self._sender = self.connection.create_sender(queue)
        self.accepted = 0

    def send_until_blocked(self, most: int) -> None:
        """Send until a message has no credit and the queue blocks producers. That message is not in the queue."""
        for _ in range(most):
            delivery = self._sender.link.send(Message(body="x" * 100, durable=True))
            if not self._settled(delivery):
                return
            self.accepted += 1
        raise AssertionError(f"none of {most} messages was blocked")

    def _settled(self, delivery: Delivery) -> bool:
        end = time.monotonic() + WITHIN
        while time.monotonic() < end:
            try:
                self.connection.wait(lambda: delivery.settled, timeout=0.3)
                return True
            except Timeout:
                # A credit below 0 counts the messages that wait for it.
                if self._sender.link.credit < 0 and self._node.blocks(self._queue):
                    return False
        raise AssertionError(f"a message was neither accepted nor blocked within {WITHIN:g} s")


@contextmanager
def broker_j(version: str, classes: Path, folder: Path, configuration: Path | None = None) -> Iterator[BrokerJNode]:
    """`configuration`: the initial one, if it is another one than that of the tests."""
    node = BrokerJNode(version, classes, folder)
    if configuration is not None:
        node.configuration = configuration
    try:
        node.start()
        yield node
    finally:
        node.stop()
