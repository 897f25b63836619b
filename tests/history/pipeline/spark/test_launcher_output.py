"""The usual lines of Spark's Java are left out; anything else comes through, also after it has started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from console.history.pipeline.spark.launcher_output import is_usual

CHILD = """
import sys
sys.stdin.readline()
print("Setting default log level to WARN", file=sys.stderr)
print("not usual", file=sys.stderr)
"""
PROGRAM = f"""
import subprocess, sys, threading
from console.history.pipeline.spark.launcher_output import without_the_usual
with without_the_usual():
    child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE)
print("ours", file=sys.stderr)
(output,) = (each for each in threading.enumerate() if each.name == "spark-output")
child.communicate(b"go on")
output.join(20)
"""


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "26/11/21 04:28:30 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...",
        'Setting Spark log level to "ERROR".',
    ],
)
def test_what_spark_always_says_is_usual(line: str) -> None:
    assert is_usual(line)


@pytest.mark.parametrize(
    "line", ["26/11/21 04:28:30 ERROR SparkContext: Error initializing", "Error: no memory", "a b c", ""]
)
def test_what_else_it_says_is_not(line: str) -> None:
    assert not is_usual(line)


def test_a_process_that_goes_on_after_the_block_is_still_heard() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stderr.splitlines()) == ["not usual", "ours"]
