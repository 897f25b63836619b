"""Filter the routine lines from the output of Spark's Java, so that problems are visible."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

#: Prefixes of routine lines, after the timestamp that some have.
_ROUTINE = (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "To adjust logging level use",
    "Setting Spark log level to",
    "WARN NativeCodeLoader:",
)


def is_routine(line: str) -> bool:
    words = line.split(" ", 2)
    timeless = words[2] if len(words) == 3 and words[0][:2].isdecimal() else line
    return timeless.startswith(_ROUTINE)


@contextlib.contextmanager
def filtered_launcher_output() -> Iterator[None]:
    """Filter the standard error of all processes that are started within the block, until they end."""
    sys.stderr.flush()
    ours = os.dup(2)
    reading, writing = os.pipe()

    def forward() -> None:
        with os.fdopen(reading, "rb") as lines, os.fdopen(ours, "wb", buffering=0) as out:
            for line in lines:
                if not is_routine(line.decode("utf-8", "replace")):
                    out.write(line)

    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=forward, name="spark-output", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
