"""ActiveMQ Classic with a store, its management over Jolokia, and AMQP. From Maven's central repository."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.peers import built, need, run
from tests.interop.rabbitmq_node import listens
from tests.up.running import free_port, wait_until

HOW = (
    "install a JDK (17 or later) and Maven, on Debian `apt-get install default-jdk-headless maven`, and be online once"
)
FILES = Path(__file__).parent / "activemq"
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Duser.timezone=UTC")
WITHIN = 90.0  # s, also on a slow machine
USER, PASSWORD = "ada", "secret"


def libraries(version: str, cache: pytest.Cache) -> Path:
    """Fetch a version and Jolokia's agent with Maven, once; return the folder."""
    maven, pom = need("mvn", HOW), FILES / f"activemq-{version}.xml"

    def fetch(folder: Path) -> None:
        step = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        run(f"fetching ActiveMQ {version} with Maven", HOW, maven, "--batch-mode", "--quiet", "--file", pom, *step)

    return built(cache.mkdir(f"interop-activemq-{version}"), [pom], fetch)


@dataclass
class ActiveMqNode:
    """`classes`: see `libraries`. It has the same folder and ports each time it is started."""

    classes: Path
    folder: Path
    port: int
    http_port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}/jolokia"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        (agent,) = self.classes.glob("jolokia-agent-jvm-*.jar")
        options = f"host=127.0.0.1,port={self.http_port},user={USER},password={PASSWORD},discoveryEnabled=false"
        with (self.folder / "output.txt").open("ab") as output:
            self.process = process = subprocess.Popen(
                [need("java", HOW), *JVM, f"-javaagent:{agent}={options}", "-cp", f"{self.classes}/*",
                 FILES / "ActiveMQ.java", self.folder / "data", str(self.port)],
                stdout=output, stderr=subprocess.STDOUT, cwd=self.folder,
            )  # fmt: skip

        def ready() -> bool:
            assert process.poll() is None, (self.folder / "output.txt").read_text()
            return listens(self.port)

        wait_until(ready, "ActiveMQ accepts connections", WITHIN)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(WITHIN)
            self.process = None


@contextmanager
def activemq(classes: Path, folder: Path) -> Iterator[ActiveMqNode]:
    """Run ActiveMQ in `folder`, which exists. It is ready."""
    node = ActiveMqNode(classes, folder, free_port(), free_port())
    try:
        node.start()
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder / "data", ignore_errors=True)
