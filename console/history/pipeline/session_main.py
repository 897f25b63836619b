"""The process with the Spark session: it executes pieces of work that `session_process.py` sends, until that ends it.

It reads a JSON object per line from its standard input: `{"work", "broker", "others"}`. It writes one per line to its
standard output: `{"holder"}` at the start, `{"beat"}` every few seconds, `{"result", "error", "broken"}` after each
piece. A `beat` changes with every step and with every task that Spark finishes, and is absent while Java does not
respond.

It never outlives its parent: at the end of its input it kills its process group, to which Java belongs. On Linux the
kernel kills it, too, even if it hangs; then Java ends with its own input.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.conf import settings

from console.history.pipeline.pieces import OnStep, Piece, Pieces, Unusable
from console.history.pipeline.run_records import reason
from console.history.pipeline.spark import scratch
from console.leases.lease import Busy
from console.leases.process import this_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Interval of beats, s.
BEAT = 10.0
#: Time that a process has after a signal to record its end in the database, s.
_GRACE = 2.0

_PR_SET_PDEATHSIG = 1


def serve(pieces: Callable[[OnStep], Pieces]) -> None:
    """Execute pieces until the input ends. `pieces`: returns what executes them, given the function that it calls with
    each step. The process must be the leader of its group."""
    _die_with_parent()
    signal.signal(signal.SIGTERM, _on_signal)
    reports = _Reports()
    work: queue.Queue[Piece] = queue.Queue()
    threading.Thread(target=_read, args=(work,), name="input", daemon=True).start()
    executing = pieces(reports.step)
    reports.send(holder=this_process())
    threading.Thread(target=_beat, args=(reports, executing), name="beat", daemon=True).start()
    try:
        while True:
            piece = work.get()
            _execute(executing, piece, reports)
    finally:
        scratch.leave()
        executing.close()


def _execute(executing: Pieces, piece: Piece, reports: _Reports) -> None:
    try:
        executing.execute(piece)
    except Busy as busy:
        reports.send(result="busy", error=str(busy))
    except Unusable as error:
        reports.send(result="failed", error=reason(error), broken=True)
    except Exception as error:  # Spark and file systems raise many types
        reports.send(result="failed", error=reason(error))
    else:
        reports.send(result="done")
    finally:
        signal.signal(signal.SIGTERM, _on_signal)  # Spark replaces it


class _Reports:
    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)  # what libraries print belongs to the log
        os.set_inheritable(self._out, False)
        self._lock = threading.Lock()
        self._steps = 0

    def step(self, _name: str) -> None:
        self._steps += 1

    @property
    def steps(self) -> int:
        return self._steps

    def send(self, **report: Any) -> None:
        with self._lock:
            os.write(self._out, json.dumps(report).encode() + b"\n")


def _beat(reports: _Reports, executing: Pieces) -> None:
    waited = threading.Event()
    while not waited.wait(BEAT):
        spark = executing.spark
        tasks = 0 if spark is None else _finished_tasks(spark)
        reports.send(beat=f"{reports.steps}/{tasks}")


def _finished_tasks(spark: SparkSession) -> str:
    """Return a text that changes with every finished task. Does not return while Java does not respond."""
    tracker = spark.sparkContext.statusTracker()
    stages = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
    return ",".join(f"{number}:{info.numCompletedTasks}" for number, info in sorted(stages.items()) if info)


def _read(work: queue.Queue[Piece]) -> None:
    for line in sys.stdin.buffer:
        read = json.loads(line)
        work.put(Piece(read["work"], read["broker"], tuple(read["others"])))
    scratch.leave()
    os.killpg(0, signal.SIGKILL)


def _on_signal(*_: object) -> None:
    """End the process, also during a run: the next run continues from any state. A callback of Spark may swallow the
    exception, so a timer ends the process as well."""
    timer = threading.Timer(_GRACE, os._exit, (0,))
    timer.daemon = True
    timer.start()
    raise SystemExit(0)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def start_spark(on_step: OnStep) -> SparkSession:
    """Start Spark. Raises NoJava, SessionFailed."""
    from console.history.pipeline.spark.launcher_output import filtered_launcher_output
    from console.history.pipeline.spark.session import start_session

    on_step("starting Spark")
    with filtered_launcher_output():
        return start_session(scratch=settings.DATA / "spark")


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
