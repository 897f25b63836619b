"""The supervisor, with stand-ins for its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.up.supervisor import KILL_AFTER, LONGEST_PAUSE, STEADY, Restarts
from tests.up.running import ROOT, Running, lives, wait_until

STUBBORN = ["sh", "-c", "trap '' TERM INT; echo stubborn >&2; while :; do sleep 1; done"]


def quiet(name: str, script: str = "", **options: Any) -> dict[str, Any]:
    return {"name": name, "command": ["sh", "-c", f"{script}\nexec sleep 600"], **options}


def chatty(lines: int, written: Path) -> str:
    """A script that writes lines of 100 characters, and then creates a file."""
    loop = f"i=0; while [ $i -lt {lines} ]; do echo $i {'x' * 100} >&2; i=$((i+1)); done"
    return f"{loop}; touch {written}; exec sleep 600"


@pytest.fixture(autouse=True)
def _terminal_ends_processes() -> Iterator[None]:
    """Also where the tests themselves run under nohup, which their processes inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def supervise(tmp_path: Path) -> Any:
    started: list[Running] = []

    def start(*services: dict[str, Any]) -> Running:
        running = Running(["-m", "tests.up.stand_in", json.dumps(services)], tmp_path)
        started.append(running)
        return running

    yield start
    for running in started:
        running.__exit__(None, None, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_by_a_signal_ends_every_process_at_once_and_succeeds(supervise: Any, number: int) -> None:
    running = supervise(quiet("one"), quiet("two"))
    running.wait_for("everything is ready")
    assert running.end(number, within=5) < 2
    assert running.process.returncode == 0
    assert len(running.seen) == 2


def test_a_process_that_ignores_term_is_killed_after_a_while(supervise: Any) -> None:
    running = supervise({"name": "stubborn", "command": STUBBORN})
    running.wait_for("stubborn| stubborn")
    assert running.end(signal.SIGTERM, within=KILL_AFTER + 30) > KILL_AFTER - 0.5
    assert "had to be killed" in running.out


def test_a_grandchild_in_the_group_does_not_outlive_its_parent(supervise: Any) -> None:
    running = supervise({"name": "parent", "command": ["sh", "-c", "sleep 600 & echo started >&2; wait"]})
    running.wait_for("started")
    wait_until(lambda: len(running.descendants()) == 2, "parent and grandchild are there")
    running.end(signal.SIGTERM, within=5)


def test_a_killed_supervisor_leaves_no_child(supervise: Any) -> None:
    running = supervise(quiet("one"), {"name": "stubborn", "command": STUBBORN})
    running.wait_for("stubborn| stubborn")
    running.end(signal.SIGKILL, within=5)
    assert len(running.seen) >= 2


def test_process_that_ends_is_restarted_and_the_restart_is_logged(supervise: Any) -> None:
    running = supervise(quiet("web"))
    running.wait_for("everything is ready")
    first = running.descendants()[0]
    first.send_signal(signal.SIGKILL)
    running.wait_for("web     | was ended by SIGKILL after")
    running.wait_for("web     | runs again")
    now = psutil.Process(running.process.pid).children()
    assert [child for child in now if lives(child) and child != first]
    running.end(signal.SIGTERM, within=5)


def test_a_process_that_keeps_failing_at_once_stops_everything_with_its_last_lines(supervise: Any) -> None:
    running = supervise(quiet("fine"), {"name": "broken", "command": ["sh", "-c", "echo no such thing; exit 3"]})
    wait_until(lambda: running.process.poll() is not None, "it ended")
    assert running.process.returncode == 1
    assert running.out.count("broken  | ended with exit code 3") == 3
    assert "  no such thing\n" in running.err
    assert "broken ended with exit code 3, at once 4 times in a row" in running.err


@pytest.mark.domain("8 a dying console")
def test_non_essential_process_is_restarted_however_often_it_ends_at_once(supervise: Any) -> None:
    running = supervise(quiet("broker"), {"name": "web", "command": ["false"], "essential": False})
    running.wait_for("web     | ended with exit code 1 after")
    running.wait_for("6 times in a row; the rest goes on; starting it again in 1.6 s")
    assert running.process.poll() is None
    assert [child for child in running.descendants() if lives(child)], "the broker"
    running.end(signal.SIGTERM, within=5)
    assert running.process.returncode == 0


def test_non_essential_process_that_ends_at_once_does_not_delay_the_next(supervise: Any) -> None:
    web = {"name": "web", "command": ["false"], "essential": False, "ready": "/nonexistent"}
    running = supervise(quiet("broker"), web, {"name": "after", "command": ["echo", "hello"], "once": True})
    running.wait_for("said hello")
    running.wait_for("starting it again in 0.8 s")
    running.end(signal.SIGTERM, within=5)


def test_non_essential_process_that_never_becomes_ready_stops_nothing(supervise: Any) -> None:
    running = supervise(quiet("web", essential=False, ready="/nonexistent", ready_within=0.2))
    running.wait_for("web     | is not ready after 0.2 s; the rest goes on without it")
    running.wait_for("everything is ready")
    running.end(signal.SIGTERM, within=5)
    assert running.process.returncode == 0


@pytest.mark.domain("8 a dying console")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_output_that_nothing_reads_delays_no_process(tmp_path: Path, log_format: str) -> None:
    """Such as in a terminal that is stopped, or of a collector of logs that hangs."""
    written = tmp_path / "written"
    script = chatty(60_000, written)
    services = json.dumps([{"name": "broker", "command": ["sh", "-c", script]}])
    command = [sys.executable, "-m", "tests.up.stand_in", services]
    environment = {**os.environ, "HEADGATE_LOG_FORMAT": log_format}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment) as process:
        try:
            wait_until(written.exists, "the process has written its lines", within=60)
            assert process.stdout is not None
            read = ""
            while "lines were not shown" not in read:  # said once the reader takes lines again
                read += os.read(process.stdout.fileno(), 1 << 16).decode()
            assert "0 xxx" in read
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read().decode()
            assert "stopped" in rest
            for line in (read + rest).splitlines() if log_format == "json" else ():
                assert json.loads(line)["process"] in ("broker", "up")
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_output_that_nothing_reads_does_not_delay_the_end(tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = chatty(5_000, written)
    services = json.dumps([{"name": "broker", "command": ["sh", "-c", script]}])
    command = [sys.executable, "-m", "tests.up.stand_in", services]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            wait_until(written.exists, "the process has written its lines", within=60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.domain("8 a dying console")
def test_process_that_cannot_be_started_again_stops_nothing_and_is_started_later(
    supervise: Any, tmp_path: Path
) -> None:
    program = tmp_path / "web"
    program.write_text('#!/bin/sh\nrm "$0"\n')
    program.chmod(0o700)
    running = supervise(quiet("broker"), {"name": "web", "command": [str(program)], "essential": False})
    running.wait_for("web     | could not be started (No such file or directory) after")
    assert running.process.poll() is None
    assert [child for child in running.descendants() if lives(child)], "the broker"
    whole = tmp_path / "whole"
    whole.write_text("#!/bin/sh\necho served >&2\nexec sleep 600\n")
    whole.chmod(0o700)
    whole.rename(program)
    running.wait_for("web     | served")
    running.end(signal.SIGTERM, within=5)
    assert running.process.returncode == 0


def test_essential_process_that_never_can_be_started_stops_everything_with_the_reason(supervise: Any) -> None:
    running = supervise(quiet("fine"), {"name": "broker", "command": ["/nonexistent/broker"]})
    wait_until(lambda: running.process.poll() is not None, "it ended")
    assert running.process.returncode == 1
    assert "broker could not be started (No such file or directory), at once 4 times in a row" in running.err


def test_end_of_the_terminal_stops_nothing_under_nohup(tmp_path: Path) -> None:
    services = json.dumps([quiet("broker")])
    stand_in = [sys.executable, "-m", "tests.up.stand_in", services]
    with Running(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *stand_in], tmp_path, python=False) as running:
        running.wait_for("everything is ready")
        running.process.send_signal(signal.SIGHUP)
        # A signal that is handled after it: the end is that of the second alone.
        running.descendants()[0].send_signal(signal.SIGKILL)
        running.wait_for("broker  | runs again")
        running.end(signal.SIGTERM, within=5)


def test_the_pause_doubles_up_to_a_limit_and_starts_again_after_a_steady_life() -> None:
    restarts = Restarts(0.5)
    assert [restarts.ended(0.1) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE]
    assert (restarts.ends, restarts.at_once) == (8, 8)
    # A life of some seconds is not at once, and no reason for a short pause: it may be killed repeatedly.
    assert restarts.ended(STEADY - 1) == LONGEST_PAUSE
    assert (restarts.ends, restarts.at_once) == (9, 0)
    assert all(restarts.ended(0.1) == LONGEST_PAUSE for _ in range(10_000))
    assert restarts.ended(STEADY) == 0.5


def test_the_next_process_waits_until_the_one_before_is_ready(supervise: Any, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    running = supervise(
        quiet("slow", "echo waiting >&2", ready=str(flag)),
        {"name": "after", "command": ["echo", "hello"], "once": True},
    )
    running.wait_for("slow    | waiting")
    assert "said hello" not in running.out
    flag.touch()
    running.wait_for("said hello")
    running.end(signal.SIGTERM, within=5)


def test_a_process_that_never_gets_ready_stops_everything(supervise: Any, tmp_path: Path) -> None:
    running = supervise(quiet("slow", ready=str(tmp_path / "never"), ready_within=0.2))
    wait_until(lambda: running.process.poll() is not None, "it ended")
    assert running.process.returncode == 1
    assert "slow is not ready after 0.2 s" in running.err


def test_a_failing_step_stops_everything_with_its_last_lines(supervise: Any) -> None:
    step = {"name": "migrate", "command": ["sh", "-c", "echo table is missing >&2; exit 2"], "once": True}
    running = supervise(quiet("fine"), step)
    wait_until(lambda: running.process.poll() is not None, "it ended")
    assert running.process.returncode == 1
    assert "migrate ended with exit code 2" in running.err
    assert "table is missing" in running.err


def test_standard_error_is_shown_and_standard_output_only_where_wanted(supervise: Any) -> None:
    both = "echo ordinary; echo trouble >&2"
    running = supervise(quiet("web", both), quiet("demo", both, show_stdout=True))
    running.wait_for("web     | trouble")
    running.wait_for("demo    | ordinary")
    running.end(signal.SIGTERM, within=5)
    assert "web     | ordinary" not in running.out


def test_a_line_too_long_to_keep_does_not_stop_the_output(supervise: Any) -> None:
    running = supervise(quiet("web", "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo after >&2"))
    running.wait_for("web     | after")
    running.end(signal.SIGTERM, within=5)


def test_step_that_is_run_before_a_service_shows_its_output_and_has_no_time_limit(supervise: Any) -> None:
    command = ["sh", "-c", "echo one of two; echo careful >&2; echo two of two"]
    step = {"name": "broker", "command": command, "first": 1, "show_stdout": True, "ready_within": 0}
    running = supervise(step, quiet("broker"))
    running.wait_for("everything is ready")
    for line in ("one of two", "careful", "two of two"):
        assert f"broker  | {line}" in running.out
    running.end(signal.SIGTERM, within=5)


def test_step_that_fails_stops_everything_with_its_last_lines(supervise: Any) -> None:
    step = {"name": "broker", "command": ["sh", "-c", "echo no room on the disk >&2; exit 1"], "first": 1}
    running = supervise(step, quiet("web"))
    wait_until(lambda: running.process.poll() is not None, "it ended")
    assert "no room on the disk" in running.err
    assert "broker ended with exit code 1" in running.err
    assert "everything is ready" not in running.out
