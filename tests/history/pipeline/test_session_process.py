"""The process with Spark as its parent sees it. Its work is a stand-in without Spark; the processes are real."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from console.history.pipeline.pieces import Piece
from console.history.pipeline.session_process import Died, Message, SessionProcess
from tests.history.processes import ROOT, environment
from tests.up.running import wait_until

#: A process whose pieces are named by what they do: it starts a grandchild, as Spark starts Java.
STAND_IN = """
import os, subprocess, sys, time
sys.path.insert(0, {root!r})
os.environ["HEADGATE_DATA"] = {data!r}
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
import django
django.setup()
from console.history.pipeline import session_main
from console.leases.lease import Busy
session_main.BEAT = 0.05

class Work:
    spark = None
    def __init__(self, on_step):
        self.on_step = on_step
        self.java = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    def close(self):
        pass
    def execute(self, piece):
        print("printed by a library")
        print("pid of java:", self.java.pid, piece.broker)
        self.on_step("minutes")
        if piece.work == "hang":
            time.sleep(3600)
        if piece.work == "freeze":
            os.kill(os.getpid(), 19)
        if piece.work == "die":
            os._exit(7)
        if piece.work == "busy":
            raise Busy("x:1:1")
        if piece.work == "break":
            raise session_main.Unusable("Spark has ended")
        if piece.work == "fail":
            raise ValueError("no such column\\nat org.apache")

session_main.serve(Work)
"""


class Steady:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady() -> Steady:
    return Steady()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path / "stand_in.py"
    script.write_text(textwrap.dedent(STAND_IN).format(root=str(ROOT), data=str(tmp_path / "data")))
    return script


@pytest.fixture
def session(script: Path, steady: Steady) -> Iterator[SessionProcess]:
    made = SessionProcess([sys.executable, str(script)], steady=steady)
    yield made
    made.end()


def result(session: SessionProcess) -> Message:
    found: list[Message] = []

    def has_result() -> bool:
        message = session.result(0.05)
        found.extend([message] if message else [])
        return bool(found)

    wait_until(has_result, "a result", within=120)
    return found[0]


def family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_pieces_are_done_one_after_the_other_with_their_results(session: SessionProcess) -> None:
    for work, message in {
        "good": {"result": "done"},
        "fail": {"result": "failed", "error": "ValueError: no such column"},
        "busy": {"result": "busy", "error": "x:1:1 owns the lease"},
        "break": {"result": "failed", "error": "Unusable: Spark has ended", "broken": True},
    }.items():
        session.send(Piece(work, "a broker", ("another",)))
        assert result(session) == message
    assert f":{session.pid}:" in session.holder


def test_end_of_the_process_is_noticed_with_its_status_and_java_ends(session: SessionProcess) -> None:
    session.send(Piece("good"))
    result(session)
    (java,) = family(session.pid)
    session.send(Piece("die"))
    with pytest.raises(Died, match=r"ended in the middle of it \(exit status 7\)"):
        result(session)
    wait_until(lambda: not java.is_running(), "Java has ended")


@pytest.mark.parametrize(("work", "bound", "why"), [("freeze", 300, "did not respond"), ("hang", 7200, "no progress")])
def test_hung_process_is_ended_with_its_java(
    session: SessionProcess, steady: Steady, work: str, bound: float, why: str
) -> None:
    session.send(Piece("good"))
    result(session)
    process, (java,) = psutil.Process(session.pid), family(session.pid)
    session.send(Piece(work))
    if work == "freeze":
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "it is frozen")
    while session.result(0.2) is None and steady.now < bound - 100:
        steady.now += 100
        if work == "hang":  # its beats go on, and are equal
            wait_until(lambda: session.result(0.05) is None and session._heard == steady.now, "a beat")
    steady.now += 300
    with pytest.raises(Died, match=why):
        session.result(0 if work == "freeze" else 0.05)
    wait_until(lambda: not java.is_running() and not process.is_running(), "both have ended")


def test_ending_it_ends_java(session: SessionProcess) -> None:
    session.send(Piece("good"))
    result(session)
    both = [psutil.Process(session.pid), *family(session.pid)]
    session.send(Piece("hang"))
    session.end()
    wait_until(lambda: not any(process.is_running() for process in both), "both have ended")


@pytest.mark.parametrize("at_work", ["hang", "freeze"])
def test_killed_parent_leaves_no_orphan(script: Path, tmp_path: Path, at_work: str) -> None:
    code = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
import django
django.setup()
from console.history.pipeline.session_process import SessionProcess
from console.history.pipeline.pieces import Piece
session = SessionProcess([sys.executable, {str(script)!r}])
session.send(Piece("good"))
while session.result(1) is None:
    pass
session.send(Piece({at_work!r}))
print("at work", flush=True)
time.sleep(3600)
"""
    env = environment(tmp_path / "data", DJANGO_SETTINGS_MODULE="console.settings")
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"at work\n"
        both = family(parent.pid)
        assert len(both) == 2
        parent.kill()
    wait_until(lambda: not any(process.is_running() for process in both), "both have ended")
