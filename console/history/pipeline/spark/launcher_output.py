"""What Spark's Java says while it starts: the lines that it always says are left out, so that trouble can be seen."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

#: How its usual lines begin, without the time that some have before them.
_USUAL = (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "To adjust logging level use",
    "Setting Spark log level to",
    "WARN NativeCodeLoader:",
)


def is_usual(line: str) -> bool:
    words = line.split(" ", 2)
    timeless = words[2] if len(words) == 3 and words[0][:2].isdecimal() else line
    return timeless.startswith(_USUAL)


@contextlib.contextmanager
def without_the_usual() -> Iterator[None]:
    """Processes that are started within the block write to our standard error, as long as they live, through this."""
    sys.stderr.flush()
    ours = os.dup(2)
    reading, writing = os.pipe()

    def pass_on() -> None:
        with os.fdopen(reading, "rb") as lines, os.fdopen(ours, "wb", buffering=0) as out:
            for line in lines:
                if not is_usual(line.decode("utf-8", "replace")):
                    out.write(line)

    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=pass_on, name="spark-output", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
