"""Java brokers from Maven's central repository: fetched once, and run with the same options."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.interop.peers import built, need, run

HOW = (
    "install a JDK (17 or later) and Maven, on Debian `apt-get install default-jdk-headless maven`, and be online once"
)
#: Options of the JVM: little memory, and a quick start.
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Duser.timezone=UTC")
WITHIN = 90.0  # s for a broker's start or end, also on a slow machine


def libraries(pom: Path, cache: pytest.Cache) -> Path:
    """Fetch the dependencies of a project with Maven, once; return the folder of their classes."""
    maven = need("mvn", HOW)

    def fetch(folder: Path) -> None:
        step = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        run(f"fetching {pom.stem} with Maven", HOW, maven, "--batch-mode", "--quiet", "--file", pom, *step)

    return built(cache.mkdir(f"interop-{pom.stem}"), [pom], fetch)


def jolokia_agent(classes: Path, port: int, user: str, password: str, policy: Path | None = None) -> str:
    """Return the option of the JVM that serves its management over HTTP. `policy`: the file of its access rules."""
    (jar,) = classes.glob("jolokia-agent-jvm-*.jar")
    rules = f",policyLocation={policy.as_uri()}" if policy is not None else ""
    return f"-javaagent:{jar}=host=127.0.0.1,port={port},user={user},password={password},discoveryEnabled=false{rules}"


def start_java(output: Path, classes: Path, *main: str | Path, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a broker in the folder of the file `output`, which it writes from its beginning. `options`: of the JVM."""
    with output.open("wb") as stream:
        return subprocess.Popen(
            [need("java", HOW), *JVM, *options, "-cp", f"{classes}/*", *main],
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=output.parent,
        )
