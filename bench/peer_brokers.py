"""Download and start of each peer: on loopback, in a folder of its own, with its default configuration; Artemis also
with the journal that its manual recommends.

RabbitMQ is Debian's, with its AMQP 1.0 plugin. Apache Artemis, ActiveMQ Classic and Qpid Broker-J are resolved by Maven
and started by a few lines of Java each (`java/`). Each keeps what it accepts as durable in a store that it syncs before
it says so (`Broker.durability`). A peer that cannot be had here raises `Failed` with the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from measured import ROOT, Broker, Failed, free_port, load, running
from rate_rows import IN_TRANSACTIONS

READY_SECONDS = 120  # a Java broker on a busy machine
RABBITMQ = Path("/usr/lib/rabbitmq")
EPMD = "epmd"


def ready(programs: Path, broker: Broker) -> Broker:
    """Wait until the broker delivers a message: it may listen before that."""
    limit = time.monotonic() + READY_SECONDS
    while True:
        with contextlib.suppress(Failed) if time.monotonic() < limit else contextlib.nullcontext():
            if load(programs, broker, "bench.ready", count=1, limit_seconds=30)["received"] == 1:
                return broker
        if time.monotonic() > limit:
            raise Failed(f"{broker.title} does not pass on a message after {READY_SECONDS} s")
        time.sleep(0.5)  # another product's broker does not report that it is ready


# -- RabbitMQ ---------------------------------------------------------------------------------------------------------

_RABBITMQ_CONF = """\
listeners.tcp.1 = 127.0.0.1:{port}
default_user = bench
default_pass = {password}
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
log.file = false
log.console = true
log.console.level = warning
"""


@contextlib.contextmanager
def rabbitmq(programs: Path, data: Path) -> Iterator[Broker]:
    server, epmd = RABBITMQ / "bin/rabbitmq-server", shutil.which(EPMD)
    if not server.exists() or not epmd:
        raise Failed("not installed: apt-get install rabbitmq-server")
    version = _rabbitmq_version()
    if not any(RABBITMQ.glob("lib/rabbitmq_server-*/plugins/rabbitmq_amqp1_0-*")):
        raise Failed(f"RabbitMQ {version} has no AMQP 1.0 plugin")
    port, names, nodes = free_port(), free_port(), free_port()
    password = secrets.token_urlsafe(16)
    (data / "rabbitmq.conf").write_text(_RABBITMQ_CONF.format(port=port, password=password))
    (data / "enabled_plugins").write_text("[rabbitmq_amqp1_0].\n")
    (data / "empty").touch()
    environment = {
        "HOME": str(data),  # for Erlang's cookie
        "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the server, whose process id we then know
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_DIST_PORT": str(nodes),
        "RABBITMQ_CONFIG_FILE": str(data / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(data / "enabled_plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(data / "empty"),
        "RABBITMQ_MNESIA_BASE": str(data / "mnesia"),
        "RABBITMQ_LOG_BASE": str(data / "log"),
        "RABBITMQ_PID_FILE": str(data / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
    }
    with (
        running([epmd, "-port", str(names), "-address", "127.0.0.1"], names, into=data / "epmd.log"),
        running([server], port, environment, into=data / "rabbitmq.log") as process,
    ):
        broker = Broker(
            "RabbitMQ",
            port,
            process.pid,
            options=("--user", "bench", "--password", password),
            prefix="/queue/",
            queue_options=("--durable-terminus",),
            topic_prefix="/topic/",
            lacks={IN_TRANSACTIONS: "no transactions"},
            durability="classic queues, confirmed after a sync of the store",
        )
        yield ready(programs, broker)


def _rabbitmq_version() -> str:
    found = sorted(RABBITMQ.glob("lib/rabbitmq_server-*"))
    return found[-1].name.split("-", 1)[1] if found else ""


# -- in Java ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JavaPeer:
    """`source`: its program in `java/`, with `arguments` after the port and the folder. `artifacts`:
    groupId:artifactId, all of `version`. `durability`: "" if the program prints it."""

    title: str
    source: str
    version: str
    artifacts: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    topic_prefix: str = "topic://"
    durability: str = ""

    @contextlib.contextmanager
    def __call__(self, programs: Path, data: Path) -> Iterator[Broker]:
        for tool, package in (("mvn", "maven"), ("javac", "default-jdk-headless")):
            if not shutil.which(tool):
                raise Failed(f"{tool} is not installed: apt-get install {package}")
        jars, classes, home = programs / self.source / "jars", programs / self.source / "classes", data / "data"
        path = f"{classes}{os.pathsep}{jars}/*"
        native = programs / self.source / "native"
        if not classes.exists():
            self._resolve(jars)
            _extract_native(jars, native)
            subprocess.run(
                ["javac", "-d", classes, "-cp", path, ROOT / "bench/java" / f"{self.source}.java"],
                check=True,
                capture_output=True,
            )
        home.mkdir()
        port, log = free_port(), data / "java.log"
        options = (*_JAVA_OPTIONS, f"-Djava.library.path={native}")
        command = ["java", *options, "-cp", path, self.source, str(port), str(home), *self.arguments]
        with running(command, port, into=log) as process:
            broker = Broker(
                self.title, port, process.pid, topic_prefix=self.topic_prefix, collect=_collector(process.pid)
            )
            ready(programs, broker)
            yield dataclasses.replace(broker, durability=self.durability or _said(log))

    def _resolve(self, jars: Path) -> None:
        project = jars.parent
        project.mkdir(exist_ok=True)
        (project / "pom.xml").write_text(self._pom())
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if "[ERROR]" in line] or ["no reason given"]
            why = re.sub(r"\(https?://[^)]*\)", "", said[0]).strip()  # not where it was looked for
            raise Failed(f"Maven cannot resolve version {self.version}: {why}")

    def _pom(self) -> str:
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{self.version}</version>"
            "</dependency>"
            for group, name in (artifact.split(":") for artifact in self.artifacts)
        )
        return (
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>bench</groupId><artifactId>peer</artifactId><version>1</version><packaging>pom</packaging>"
            f"<dependencies>{dependencies}</dependencies></project>"
        )


def _extract_native(jars: Path, into: Path) -> None:
    """Extract the libraries of this machine's kind, as a broker's distribution has them beside its jars: without that
    of Artemis, its journal cannot use asynchronous I/O."""
    into.mkdir()
    kind = f"lib/linux-{os.uname().machine}/"
    for jar in jars.glob("*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith(kind) and name.endswith(".so"):
                    (into / Path(name).name).write_bytes(archive.read(name))


def _said(log: Path) -> str:
    """Return what the program printed of its durability."""
    found = re.search(r"^durability: (.+)$", log.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else "not known"


_JAVA_OPTIONS = ("-Xmx2g", "-XX:MaxDirectMemorySize=2g", "-XX:+UseG1GC")

#: Before memory is measured: after a collection the heap shrinks to what is in use, so that the resident size is the
#: memory in use. Not from the start, since it makes for more collections while rates are measured.
_SHRINK = {"MinHeapFreeRatio": 5, "MaxHeapFreeRatio": 10}


def _collector(process: int) -> Callable[[], None]:
    def collect() -> None:
        for name, value in _SHRINK.items():
            command = ["jcmd", str(process), "VM.set_flag", name, str(value)]
            subprocess.run(command, capture_output=True, check=False)
        for _ in range(2):  # the second finds what the first one's finalizers let go of
            subprocess.run(["jcmd", str(process), "GC.run"], capture_output=True, check=False)

    return collect


def _artemis(title: str, journal: str) -> JavaPeer:
    artifacts = ("org.apache.artemis:artemis-server", "org.apache.artemis:artemis-amqp-protocol")
    return JavaPeer(title, "Artemis", "2.55.0", artifacts, (journal,), topic_prefix="")


#: By the name for the command line. The two of Artemis differ in their journal alone: see `java/Artemis.java`.
JAVA_PEERS = {
    "artemis": _artemis("Artemis", "defaults"),
    "artemis-documented": _artemis("Artemis with documented journal", "documented"),
    "activemq": JavaPeer(
        "ActiveMQ",
        "ActiveMq",
        "6.3.1",
        (
            "org.apache.activemq:activemq-broker",
            "org.apache.activemq:activemq-amqp",
            "org.apache.activemq:activemq-kahadb-store",
        ),
        durability="KahaDB, its journal synced always (the default)",
    ),
    "broker-j": JavaPeer(
        "Broker-J",
        "BrokerJ",
        "10.1.0",
        (
            "org.apache.qpid:qpid-broker-core",
            "org.apache.qpid:qpid-broker-plugins-amqp-1-0-protocol",
            "org.apache.qpid:qpid-broker-plugins-derby-store",
        ),
        topic_prefix="amq.topic/",
        durability="Derby, each commit synced (the default)",
    ),
}

#: By the name for the command line: (title with version, context manager that starts it).
Start = Callable[[Path, Path], contextlib.AbstractContextManager[Broker]]
PEERS: dict[str, tuple[str, Start]] = {
    "rabbitmq": (f"RabbitMQ {_rabbitmq_version()}".strip(), rabbitmq),
    **{name: (f"{peer.title} {peer.version}", peer) for name, peer in JAVA_PEERS.items()},
}
