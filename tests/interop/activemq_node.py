"""ActiveMQ Classic with a store, its management over Jolokia, and AMQP. From Maven's central repository."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.maven import WITHIN, jolokia_agent, libraries, start_java
from tests.interop.rabbitmq_node import listens
from tests.up.running import free_port, wait_until

FILES = Path(__file__).parent / "activemq"
USER, PASSWORD = "ada", "secret"


def activemq_libraries(version: str, cache: pytest.Cache) -> Path:
    """Fetch a version and Jolokia's agent, once; return the folder."""
    return libraries(FILES / f"activemq-{version}.xml", cache)


@dataclass
class ActiveMqNode:
    """`classes`: see `activemq_libraries`. It has the same folder and ports each time it is started."""

    classes: Path
    folder: Path
    port: int
    http_port: int
    process: subprocess.Popen[bytes] | None = None
    policy: Path | None = None  # access rules of its management

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}/jolokia"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        agent = jolokia_agent(self.classes, self.http_port, USER, PASSWORD, self.policy)
        output = self.folder / "output.txt"
        main = (FILES / "ActiveMQ.java", self.folder / "data", str(self.port))
        self.process = process = start_java(output, self.classes, *main, options=[agent])

        def ready() -> bool:
            assert process.poll() is None, output.read_text()
            return "ready" in output.read_text().splitlines() and listens(self.port)

        wait_until(ready, "ActiveMQ accepts connections", WITHIN)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(WITHIN)
            self.process = None


@contextmanager
def activemq(classes: Path, folder: Path, policy: Path | None = None) -> Iterator[ActiveMqNode]:
    """Run ActiveMQ in `folder`, which exists. It is ready. `policy`: the file of access rules of its management."""
    node = ActiveMqNode(classes, folder, free_port(), free_port(), policy=policy)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder / "data", ignore_errors=True)
