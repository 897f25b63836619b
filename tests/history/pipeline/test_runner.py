"""The long-running process: what it has done, in which order, and what deaths and failures cause.

The process with Spark is a stand-in that does its pieces when the test says so."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from console.audit.models import AuditEntry
from console.history.models import HistoryRun, JobRequest
from console.history.pipeline import job_requests
from console.history.pipeline.due_work import HOUR_NS, QUIET
from console.history.pipeline.job_requests import MOST_ATTEMPTS, begin, fail, finish, request_facts, request_work
from console.history.pipeline.pieces import MOST_TOGETHER, Piece
from console.history.pipeline.pipeline_leases import (
    ALIVE_SECONDS,
    OLDER,
    alive,
    broker_lease,
    is_process_alive,
    is_working,
    job_lease,
    require_no_older_run,
)
from console.history.pipeline.processed_files import note_processed
from console.history.pipeline.runner import Runner, Timing
from console.history.pipeline.session_process import Died, Message
from console.history.storage.landing import Landing
from console.history.storage.landing_listing import LandedFile, LandingListing
from console.history.storage.landing_names import recorder_file
from console.leases.lease import Busy, lease
from console.leases.models import Lease
from tests.history.rows import Story, table

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

RUN = Piece(broker="b")


@dataclass
class FakeSession:
    """`answer`: what `result` returns or raises next; None: it is at work."""

    url: str
    holder: str = "here:7:1"
    pieces: list[Piece] = field(default_factory=list)
    answer: Message | Died | None = None
    is_ended: bool = False

    def send(self, piece: Piece) -> None:
        assert not self.is_ended
        self.pieces.append(piece)
        self.answer = None
        if piece.is_request:
            self._begun = begin(piece.work)

    def result(self, seconds: float) -> Message | None:
        answer, self.answer = self.answer, None
        if isinstance(answer, Died):
            raise answer
        return answer

    def end(self) -> None:
        self.is_ended = True

    # -- for tests ----------------------------------------------------------------------------------------------

    def do(self, **more: Any) -> None:
        """Finish the current piece."""
        self.answer = {"result": "done", **more}
        files = LandingListing(self.url).files()
        done = {each.broker for each in self.pieces[-1].alone}
        if not self.pieces[-1].is_request:
            mine = [file for file in files if file.broker in done]
            note_processed(mine, mine)
        if self.pieces[-1].is_request:
            finish(self._begun)

    def fail(self, error: str, **more: Any) -> None:
        self.answer = {"result": "failed", "error": error, **more}
        if self.pieces[-1].is_request:
            fail(self._begun, error)

    def die(self) -> None:
        self.answer = Died("the process ended in the middle of it (signal SIGKILL)")


class Scene:
    """A runner with its clocks, and the sessions that it has started."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.now, self.steady = time.time_ns() // HOUR_NS * HOUR_NS, 1000.0
        self.sessions: list[FakeSession] = []
        self.said: list[str] = []
        self.runner = self.restarted()

    def restarted(self) -> Runner:
        self.runner = Runner(
            self.url, self._start, say=self.said.append, clock=lambda: self.now, steady=lambda: self.steady
        )
        return self.runner

    def _start(self) -> FakeSession:
        self.sessions.append(FakeSession(self.url))
        return self.sessions[-1]

    @property
    def session(self) -> FakeSession:
        return self.sessions[-1]

    @property
    def pieces(self) -> list[Piece]:
        return [piece for session in self.sessions for piece in session.pieces]

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)
        self.steady += seconds

    def turn(self, after: float = 0.0) -> None:
        self.wait(after)
        self.runner.turn()

    def import_file(self, *brokers: str) -> None:
        """Land a file of each broker that is due."""
        for broker in brokers or ("b",):
            rows = Story(broker).watch(0, 1).rows["coverage"]
            Landing(self.url).publish("coverage", table("coverage", rows), f"log~{broker}~1")
        self.turn()
        self.wait(QUIET)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(str(tmp_path / "history"))


def states(work: str = "compact") -> list[str]:
    rows = JobRequest.objects.filter(work=work).order_by("id")
    return [str(facts["state"]) for row in rows if (facts := request_facts(row))]


def test_no_process_with_spark_is_started_without_work(scene: Scene) -> None:
    for _ in range(5):
        scene.turn(after=10)
    assert scene.sessions == []


def test_open_hour_of_a_recorder_starts_nothing(scene: Scene) -> None:
    rows = Story("b").watch(0, 1).rows["coverage"]
    Landing(scene.url).publish("coverage", table("coverage", rows), recorder_file("b", scene.now + 1))
    scene.turn(after=1800)
    assert scene.sessions == []
    scene.turn(after=1900)
    assert scene.pieces == [RUN]


def test_hour_that_a_recorder_left_open_by_its_end_is_run_once(scene: Scene) -> None:
    file = LandedFile("samples", "recorder~b~x.parquet", "b", True, scene.now + HOUR_NS // 2, scene.now, 9000)
    note_processed([file], [file], ["b"], active=["b"])
    scene.turn(after=3600)
    assert scene.pieces == []
    scene.turn(after=1800)
    assert scene.pieces == [RUN]
    note_processed([], [], ["b"])
    scene.session.do()
    scene.turn()
    scene.turn(after=3600)
    assert scene.pieces == [RUN]


def test_import_is_run_once_and_idle_process_is_ended(scene: Scene) -> None:
    scene.import_file()
    scene.turn()
    assert scene.pieces == [RUN]
    scene.turn(after=60)  # still at work
    scene.session.do()
    scene.turn()
    scene.turn(after=Timing().idle - 1)
    assert (scene.pieces, scene.session.is_ended) == ([RUN], False)
    scene.turn(after=1)
    assert scene.session.is_ended
    request_work("compact")
    scene.turn()
    assert [len(session.pieces) for session in scene.sessions] == [1, 1]


def test_request_during_a_run_waits_and_is_done_after_it_in_the_same_process(scene: Scene) -> None:
    scene.import_file()
    scene.turn()
    request, _ = request_work("advise", by="ada")
    scene.turn(after=3600)
    assert (scene.pieces, states("advise")) == ([RUN], ["queued"])
    scene.session.do()
    scene.turn()
    scene.turn()
    assert scene.pieces == [RUN, Piece("advise")]
    scene.session.do()
    scene.turn()
    assert (len(scene.sessions), states("advise")) == (1, ["done"])
    entry = AuditEntry.objects.get()
    assert (entry.user_name, entry.operation, entry.outcome) == ("ada", "advise", "done")
    assert f"request {request.pk}" in entry.detail


def test_repeated_requests_join_the_queued_one_and_two_jobs_run_one_after_the_other(scene: Scene) -> None:
    for work in ("compact", "advise", "compact", "advise"):
        request_work(work)
    assert JobRequest.objects.count() == 2
    scene.turn()
    scene.turn(after=1)
    assert scene.pieces == [Piece("compact")]
    scene.session.do()
    scene.turn()
    scene.turn()
    assert scene.pieces == [Piece("compact"), Piece("advise")]


def test_request_for_running_work_is_queued_after_it(scene: Scene) -> None:
    request_work("compact")
    scene.turn()
    with lease(job_lease("compact")):
        assert states() == ["running"]
        _request, is_new = request_work("compact")
        assert is_new
        assert states() == ["running", "queued"]
    scene.session.do()
    scene.turn()
    assert states() == ["done", "queued"]
    scene.turn()
    assert scene.pieces == [Piece("compact")] * 2


def test_runs_and_requests_alternate(scene: Scene) -> None:
    scene.import_file()
    for work in ("compact", "advise"):
        request_work(work)
    for _ in range(3):
        scene.turn()
        scene.session.do()
        scene.turn()
    assert scene.pieces == [Piece("compact"), RUN, Piece("advise")]


def test_restart_in_the_middle_repeats_the_job(scene: Scene) -> None:
    request_work("compact", by="ada")
    scene.turn()
    scene.restarted()
    assert states() == ["queued"]
    scene.turn()
    assert scene.pieces == [Piece("compact")] * 2
    scene.session.do()
    scene.turn()
    assert states() == ["done"]


def test_job_whose_process_dies_is_retried_and_then_fails_with_its_reason(scene: Scene) -> None:
    request_work("compact", by="ada")
    for attempt in range(1, MOST_ATTEMPTS + 1):
        scene.turn()
        HistoryRun.objects.create(work="compact", holder=scene.session.holder, started=timezone.now())
        scene.session.die()
        scene.turn()
        assert len(scene.sessions) == attempt
        assert HistoryRun.objects.first().error == "the process ended in the middle of it (signal SIGKILL)"  # type: ignore[union-attr]
        assert states() == ["failed"]
        scene.turn(after=1)  # it pauses
        assert len(scene.sessions) == attempt
        scene.wait(Timing().longest)
    request = JobRequest.objects.get()
    assert (request.error, request.finished is None) == (
        "the process ended in the middle of it (signal SIGKILL)",
        False,
    )
    assert AuditEntry.objects.get().outcome == "failed"
    scene.turn()
    assert len(scene.sessions) == MOST_ATTEMPTS


def test_job_that_kills_both_processes_each_time_fails_in_the_end(scene: Scene) -> None:
    request_work("compact")
    for _ in range(MOST_ATTEMPTS + 1):
        scene.restarted().turn()
    request = JobRequest.objects.get()
    assert (request.error, request.finished is None) == (job_requests.DIED, False)


def test_failed_job_delays_no_run_and_is_repeated(scene: Scene) -> None:
    request_work("advise")
    scene.turn()
    scene.session.fail("OSError: the disk is full")
    scene.turn()
    assert scene.said == ["failed, retrying in 5 s: OSError: the disk is full"]
    scene.import_file()
    scene.turn()
    assert RUN in scene.pieces
    scene.session.do()
    scene.turn()
    scene.turn(after=300)
    scene.session.do()
    scene.turn()
    assert states("advise") == ["done"]


def test_failed_run_is_repeated_with_longer_pauses_and_broken_spark_is_replaced(scene: Scene) -> None:
    scene.import_file()
    scene.turn()
    scene.session.fail("Unusable: Spark has ended", broken=True)
    scene.turn()
    assert scene.session.is_ended
    pauses = []
    for _ in range(8):
        before = scene.steady
        while not scene.runner.is_busy:
            scene.turn(after=1)
        pauses.append(round(scene.steady - before))
        scene.session.fail("x")
        scene.turn()
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    assert len(scene.sessions) == 2, "it has not been idle for five minutes"


def test_work_of_another_process_is_tried_again(scene: Scene) -> None:
    request_work("compact")
    scene.turn()
    scene.session.answer = {"result": "busy", "error": "x:1:1 owns the lease"}
    job_requests.put_back([JobRequest.objects.get().pk])
    scene.turn()
    scene.turn(after=Timing().busy - 1)
    assert len(scene.pieces) == 1
    scene.turn(after=1)
    assert len(scene.pieces) == 2
    assert JobRequest.objects.get().attempts == 1


def test_broker_that_another_process_runs_is_left_to_it(scene: Scene) -> None:
    scene.import_file()
    with lease(broker_lease("b")):
        scene.turn()
        assert scene.sessions == []
    scene.turn()
    assert scene.pieces == [RUN]


def test_brokers_that_are_due_are_run_together(scene: Scene) -> None:
    scene.import_file("a", "b", "c")
    with lease(broker_lease("b")):
        scene.turn()
        assert [sorted(each.broker for each in piece.alone) for piece in scene.pieces] == [["a", "c"]]
        scene.session.do()
        scene.turn()
        scene.turn()
    scene.turn()
    assert [len(piece.alone) for piece in scene.pieces] == [2, 1]
    scene.session.do()
    scene.turn()
    scene.turn(after=60)
    assert len(scene.pieces) == 2


def test_a_run_has_a_limited_number_of_brokers(scene: Scene) -> None:
    brokers = [f"b{number}" for number in range(MOST_TOGETHER + 3)]
    scene.import_file(*brokers)
    for _ in range(2):
        scene.turn()
        scene.session.do()
        scene.turn()
    assert [len(piece.alone) for piece in scene.pieces] == [MOST_TOGETHER, 3]
    assert sorted(each.broker for piece in scene.pieces for each in piece.alone) == sorted(brokers)


@pytest.mark.parametrize("ends", ["fails", "dies"])
def test_broker_whose_run_fails_delays_no_other(scene: Scene, ends: str) -> None:
    """What failed together is run one by one, at once, and together again once it has succeeded."""
    brokers = ("a", "bad", "c")
    scene.import_file(*brokers)
    began = scene.steady

    def work() -> None:
        scene.turn()
        if not scene.runner.is_busy:
            return
        if "bad" not in {each.broker for each in scene.session.pieces[-1].alone}:
            scene.session.do()
        elif ends == "fails":
            scene.session.fail("x")
        else:
            for each in scene.session.pieces[-1].alone:
                HistoryRun.objects.create(broker=each.broker, holder=scene.session.holder, started=timezone.now())
            scene.session.die()
        scene.turn()

    for _ in range(6):
        work()
    assert [len(piece.alone) for piece in scene.pieces] == [3, 1, 1, 1]
    assert {piece.broker for piece in scene.pieces[1:]} == set(brokers)
    assert scene.steady == began, "none of them has waited"
    assert "retrying its brokers one by one" in scene.said[0]
    assert "retrying in 5 s" in scene.said[1]
    if ends == "dies":
        assert [row.broker for row in HistoryRun.objects.exclude(error="")] == ["bad"]
    later = ("a", "c")
    for broker in later:
        rows = Story(broker).watch(1, 2).rows["coverage"]
        Landing(scene.url).publish("coverage", table("coverage", rows), f"log~{broker}~2")
    scene.turn()
    scene.wait(QUIET)
    for _ in range(3):
        work()
    assert sorted(len(piece.alone) for piece in scene.pieces[4:]) == [1, 2], "the bad one stays alone"


def test_clock_set_back_delays_no_request(scene: Scene) -> None:
    request_work("compact")
    request_work("advise")
    scene.now -= 24 * HOUR_NS
    scene.turn()
    scene.session.do()
    scene.turn()
    scene.turn()
    assert scene.pieces == [Piece("compact"), Piece("advise")]


def test_end_of_the_runner_ends_the_process_with_spark(scene: Scene) -> None:
    request_work("compact")
    scene.turn()
    ended = threading.Event()
    ended.set()
    scene.runner.run_until(ended, threading.Event())
    assert scene.session.is_ended


def test_process_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    def refuse() -> FakeSession:
        raise OSError("no memory")

    said: list[str] = []
    now = [0.0]
    runner = Runner(str(tmp_path), refuse, say=said.append, steady=lambda: now[0])
    request_work("compact")
    runner.turn()
    runner.turn()
    now[0] = 5
    runner.turn()
    assert said == ["the process with Spark cannot be started: OSError: no memory"] * 2


# -- leases -------------------------------------------------------------------------------------------------------


def test_waiting_process_is_known_to_be_alive_and_a_dead_one_is_forgotten() -> None:
    assert not is_process_alive()
    with alive():
        assert is_process_alive()
        Lease.objects.update(lease_holder=f"{Lease.objects.get().lease_holder.split(':')[0]}:1:1:{2**60}")
        assert not is_process_alive()
        Lease.objects.update(name="history-process-dead")
        with alive():
            assert not Lease.objects.filter(name="history-process-dead").exists()
    assert ALIVE_SECONDS > 60


def test_names_of_leases_fit_and_differ() -> None:
    long = ["x" * 200 + end for end in "ab"]
    names = {broker_lease(name) for name in [*long, "", "x"]} | {job_lease("compact"), OLDER}
    assert len(names) == 6
    assert max(map(len, names)) <= 40


def test_run_of_an_older_release_is_waited_for() -> None:
    require_no_older_run()
    with lease(OLDER):
        assert is_working(OLDER)
        with pytest.raises(Busy):
            require_no_older_run()


def test_rows_of_an_older_release_cannot_be_inserted() -> None:
    """An older process inserts no column `broker`."""
    from django.db import IntegrityError, connection

    insert = (
        "INSERT INTO history_historyrun (work, holder, started, step, files, rows, seconds, unreadable, error)"
        " VALUES ('run', 'x', '2026-01-01', '', 0, '{}', '{}', '{}', '')"
    )
    with connection.cursor() as cursor, pytest.raises(IntegrityError):
        cursor.execute(insert)
