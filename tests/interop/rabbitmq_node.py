"""A node of RabbitMQ with its own folder, ports and Erlang port mapper, beside a node of the system's, if there is one;
and a publisher that sees its alarms."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import amqp

from tests.interop.peers import absent, need
from tests.up.running import free_port, wait_until

HOW = "install RabbitMQ, on Debian `apt-get install rabbitmq-server`"
#: The programs themselves: those on the PATH run as the system's user.
PROGRAMS = Path("/usr/lib/rabbitmq/bin")
WITHIN = 90.0  # s, also on a slow machine


@dataclass
class RabbitNode:
    folder: Path
    port: int
    env: dict[str, str]
    http_port: int = 0  # of the management plugin, if it is enabled
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    def control(self, *arguments: str) -> None:
        """Run `rabbitmqctl`."""
        command = [PROGRAMS / "rabbitmqctl", *arguments]
        subprocess.run(command, env=self.env, check=True, capture_output=True, timeout=WITHIN)

    def start(self) -> None:
        """Start the node. Returns when it is ready."""
        starts = self._starts()
        with (self.folder / "output.txt").open("wb") as output:
            self.process = process = subprocess.Popen(
                str(PROGRAMS / "rabbitmq-server"), env=self.env, stdout=output, stderr=output, process_group=0
            )

        def is_ready() -> bool:
            assert process.poll() is None, (self.folder / "output.txt").read_text()
            return self._starts() > starts

        wait_until(is_ready, "RabbitMQ has started", WITHIN)

    def _starts(self) -> int:
        return self.log.read_bytes().count(b"Server startup complete") if self.log.exists() else 0

    def kill(self) -> None:
        if self.process is not None:
            end(self.process)
            self.process = None


@contextmanager
def rabbitmq(folder: Path, *, plugins: Sequence[str] = ()) -> Iterator[RabbitNode]:
    """Run a node in `folder`, which exists, with plugins. It is ready."""
    if not (PROGRAMS / "rabbitmq-server").exists():
        absent("rabbitmq-server is not installed", HOW)
    mapper, port = free_port(), free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    env |= {"HOME": str(folder), "TZ": "UTC", "ERL_EPMD_PORT": str(mapper), "ERL_EPMD_ADDRESS": "127.0.0.1"}
    settings = {
        "NODENAME": "test@localhost",
        "NODE_IP_ADDRESS": "127.0.0.1",
        "NODE_PORT": str(port),
        "DIST_PORT": str(free_port()),
        "MNESIA_BASE": f"{folder}/mnesia",
        "LOG_BASE": str(folder),
        "LOGS": f"{folder}/broker.log",
        "ENABLED_PLUGINS_FILE": f"{folder}/plugins",
        "CONFIG_FILE": f"{folder}/rabbitmq",
        "CONF_ENV_FILE": f"{folder}/no-environment",
    }
    env |= {f"RABBITMQ_{name}": value for name, value in settings.items()}
    (folder / "plugins").write_text(f"[{','.join(plugins)}].")
    http_port = free_port() if "rabbitmq_management" in plugins else 0
    management = ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {http_port}"] if http_port else []
    (folder / "rabbitmq.conf").write_text("\n".join([*management, ""]))
    node = RabbitNode(folder, port, env, http_port)
    with running(need("epmd", HOW), "-port", str(mapper), env=env, out=folder / "epmd.txt"):
        # Without it the node would start one that goes on after the node.
        wait_until(lambda: listens(mapper), "Erlang's port mapper listens", WITHIN)
        try:
            node.start()
            yield node
        finally:
            node.kill()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def running(*command: str, env: dict[str, str], out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process and those that it starts in a group of their own, which is killed at the end."""
    with out.open("wb") as output:
        process = subprocess.Popen(command, env=env, stdout=output, stderr=output, process_group=0)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and those of its group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass
class Publisher:
    """Publishes all the time, and waits for the confirmation of each message. `blocks`: (from, to) for which
    RabbitMQ's notifications said that the connection was blocked, ms; `to` is 0 until then."""

    port: int
    blocks: list[list[float]] = field(default_factory=list)
    longest: float = 0.0  # of a publication, ms
    failures: list[BaseException] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def wait_until_blocked(self, blocked: bool) -> None:
        def is_so() -> bool:
            assert not self.failures, self.failures
            return bool(self.blocks) and (self.blocks[-1][1] == 0) is blocked

        wait_until(is_so, f"the client is {'' if blocked else 'un'}blocked", WITHIN)

    def publish(self) -> None:
        def blocked(_reason: str) -> None:
            self.blocks.append([time.time() * 1000, 0])

        def unblocked() -> None:
            self.blocks[-1][1] = time.time() * 1000

        try:
            address = f"127.0.0.1:{self.port}"
            with amqp.Connection(
                address, on_blocked=blocked, on_unblocked=unblocked, confirm_publish=True
            ) as connection:
                channel = connection.channel()
                while not self.ended.wait(0.01):
                    began = time.time() * 1000
                    channel.basic_publish(amqp.Message("x"), routing_key="nowhere", timeout=WITHIN)
                    self.longest = max(self.longest, time.time() * 1000 - began)
        except BaseException as error:
            self.failures.append(error)


@contextmanager
def publishing(port: int) -> Iterator[Publisher]:
    publisher = Publisher(port)
    thread = threading.Thread(target=publisher.publish)
    thread.start()
    try:
        yield publisher
    finally:
        publisher.ended.set()
        thread.join(WITHIN)
    assert not publisher.failures, publisher.failures
