"""`manage.py history` as a process: without an installed Java, killed during its work, stopped."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.history.pipeline.run import Run
from console.history.storage.backlog import find_backlog
from console.history.storage.tables import Tables
from tests.history.processes import ROOT, contents, environment, kill, manage, running
from tests.history.rows import Story, land
from tests.up.running import wait_until

pytestmark = pytest.mark.timeout(600)

HISTORY = (sys.executable, str(ROOT / "manage.py"), "history")


def without_java(folder: Path) -> dict[str, str]:
    """Return an environment without an installed Java."""
    tools = folder / "bin"
    tools.mkdir()
    for name in (
        "sh",
        "bash",
        "chmod",
        "env",
        "dirname",
        "basename",
        "ps",
        "uname",
        "head",
        "cat",
        "ls",
        "grep",
        "sed",
        "nice",
    ):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    inherited = {"PATH": str(tools)}
    return {key: value for key, value in (environment(folder / "data") | inherited).items() if key != "JAVA_HOME"}


def first() -> Story:
    story = Story().watch(0, 600).sample(0, 1, whole=True, enqueued_messages=0, dequeued_messages=0)
    return story.overfull(60).blocked(60).sample(80, 20, state="OVERFULL").underfull(90).released(90)


def later() -> Story:
    return Story().watch(600, 1200).sample(700, 4).sample(1100, 9)


def step(data: Path) -> str:
    """Return the step of the newest run."""
    with sqlite3.connect(f"file:{data}/console/console.sqlite3?mode=ro", uri=True) as database:
        row = database.execute("SELECT step FROM history_historyrun ORDER BY id DESC LIMIT 1").fetchone()
    return row[0] if row else ""


def states(data: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(f"file:{data}/console/console.sqlite3?mode=ro", uri=True) as database:
        return database.execute("SELECT finished IS NOT NULL, error FROM history_historyrun ORDER BY id").fetchall()


def test_waiting_process_loads_no_library_of_the_pipeline(tmp_path: Path) -> None:
    """It waits for an hour at a time: 500 MB of libraries belong to the process that it starts for the work."""
    code = """
import sys, threading
from console.history.models import JobRequest
from console.management.commands.history import Command, settings
from console.history.pipeline.runner import Runner
Runner(settings.HEADGATE_HISTORY_URL, lambda: None).turn()
print(sorted({"pyspark", "pyarrow", "duckdb", "numpy", "pandas", "deltalake"} & set(sys.modules)))
"""
    env = environment(tmp_path / "data")
    land(str(tmp_path / "data" / "history"), first().rows)
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    done = manage("shell", "--verbosity", "0", "--command", code, env=env)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_process_runs_with_the_bundled_java_and_stops_on_a_signal(tmp_path: Path) -> None:
    env = without_java(tmp_path)
    data = tmp_path / "data"
    url = str(data / "history")
    assert shutil.which("java", path=env["PATH"]) is None
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    land(url, first().rows)
    log = tmp_path / "history.log"
    with running(*HISTORY, env=env, log=log) as process:
        wait_until(lambda: find_backlog(url).files == 0 or process.poll() is not None, "it took the files", within=240)
        assert process.poll() is None, log.read_text()
        assert len(contents(url)["episodes"]) == 1
        # Spark is started: later files are processed soon.
        land(url, later().rows)
        wait_until(lambda: find_backlog(url).files == 0, "it took later files", within=120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert {error for _, error in states(data)} <= {"", "it was stopped"}
    assert len(contents(url)["minutes"]) >= 40, "20 minutes of a queue and of its virtual host"


def test_kills_during_each_step_do_not_change_the_tables(tmp_path: Path, spark: Any) -> None:
    data = tmp_path / "data"
    env = environment(data)
    url, undisturbed = str(data / "history"), str(tmp_path / "undisturbed")
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    land(url, first().rows)
    shutil.copytree(url, undisturbed)
    killed_at = ("store", "minutes", "days")
    left: set[Path] = set()
    log = tmp_path / "killed.log"
    for name in killed_at:
        with running(*HISTORY, env=env, log=log) as process:

            def at_step(wanted: str = name, it: subprocess.Popen[bytes] = process) -> bool:
                return step(data) == wanted or it.poll() is not None

            wait_until(at_step, f"it is at {name}", within=240)
            assert process.poll() is None, log.read_text()
            family = psutil.Process(process.pid).children(recursive=True)
            kill(process)
            wait_until(lambda its=family: not any(map(psutil.Process.is_running, its)), "its Java has ended")  # type: ignore[misc]
        assert find_backlog(url).files == 3
        left |= {each for each in (data / "spark").iterdir() if each.is_dir()}
    for each in (url, undisturbed):
        land(each, later().rows)
    again = manage("history", "--once", "run", env=env)
    assert again.returncode == 0, again.stderr
    Run(Tables(spark, undisturbed)).run()
    assert find_backlog(url).files == 0
    assert contents(url) == contents(undisturbed)
    assert [error for _, error in states(data)] == ["the process ended in the middle of it"] * len(killed_at) + [""]
    assert len(left) == len(killed_at), "what Spark needs while it runs lies in the data folder"
    assert not [each for each in left if each.exists()], "and the next process removes what a killed one has left"
