"""Processor time of a broker with its child processes (`bench/processor_time.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.scripts import script

processor_time = script("processor_time")

TICKS = os.sysconf("SC_CLK_TCK")


def stat(process: int, parent: int, times: tuple[int, int, int, int], name: str = "java") -> str:
    """The text of the file `stat` of proc(5): utime, stime, cutime and cstime are its fields 14 to 17."""
    before = f"{parent} {process} {process} 0 -1 4194560 901 902 903 904"
    return f"{process} ({name}) S {before} {' '.join(map(str, times))} 20 0 31 0 905 906 907\n"


@pytest.mark.parametrize("name", ["java", "beam.smp", "a b", ") 7 (", "x) R 1 2 3", "(", ""])
def test_the_name_of_a_program_does_not_shift_the_fields(name: str) -> None:
    assert processor_time.parse_stat(stat(71, 7, (1, 20, 300, 4000), name)) == (71, 7, 4321)


def test_descendants_count_and_other_processes_do_not(tmp_path: Path) -> None:
    for process, parent, ticks in (
        (1, 0, 10_000),
        (50, 1, 3),
        (51, 50, 20),
        (40, 51, 100),  # a grandchild whose number is less than its parent's
        (60, 1, 5_000),
    ):
        (tmp_path / str(process)).mkdir()
        (tmp_path / str(process) / "stat").write_text(stat(process, parent, (ticks, 0, 0, 0)))
    (tmp_path / "77").mkdir()  # has just ended
    (tmp_path / "self").mkdir()
    assert processor_time.family_seconds(50, tmp_path) == 123 / TICKS
    assert processor_time.family_seconds(60, tmp_path) == 5000 / TICKS


def test_a_process_that_is_gone_is_an_error_and_not_zero(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError):
        processor_time.family_seconds(50, tmp_path)


_WORK = """
import os, subprocess, sys, time
def burn(seconds):
    while time.process_time() < seconds: pass
if sys.argv[1:] == ["child"]:
    burn(0.3)
else:
    subprocess.run([sys.executable, __file__, "child"], check=True)
    print(os.times().children_user + os.times().children_system, flush=True)
    child = subprocess.Popen([sys.executable, __file__, "child"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    print(time.process_time(), flush=True)
    input()
"""


def test_the_time_of_children_that_ended_counts_waited_for_or_not(tmp_path: Path) -> None:
    program = tmp_path / "work.py"
    program.write_text(_WORK)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        waited_for, own = (float(process.stdout.readline()) for _ in range(2))
        family = processor_time.family_seconds(process.pid)
        process.communicate("\n")
    rounding = 10 / TICKS  # each of the six figures is cut to a tick; a child is 30
    assert waited_for >= 0.3 - rounding
    assert family >= waited_for + own + 0.3 - rounding
