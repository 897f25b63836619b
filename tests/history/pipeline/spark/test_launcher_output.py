"""Routine lines of Spark's Java are filtered; all others are forwarded, also after its start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from console.history.pipeline.spark.launcher_output import is_routine

CHILD = """
import sys
sys.stdin.readline()
print("Setting default log level to WARN", file=sys.stderr)
print("not usual", file=sys.stderr)
"""
PROGRAM = f"""
import subprocess, sys, threading
from console.history.pipeline.spark.launcher_output import filtered_launcher_output
with filtered_launcher_output():
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
def test_known_line_of_spark_is_routine(line: str) -> None:
    assert is_routine(line)


@pytest.mark.parametrize(
    "line", ["26/11/21 04:28:30 ERROR SparkContext: Error initializing", "Error: no memory", "a b c", ""]
)
def test_other_line_is_not_routine(line: str) -> None:
    assert not is_routine(line)


def test_output_of_a_process_is_forwarded_after_the_block() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stderr.splitlines()) == ["not usual", "ours"]
