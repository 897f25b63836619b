"""Status of the pipeline: current and past runs, backlog, failures, sizes of the tables. Collected without Spark.

Facts only: `diagnosis.py` derives problems and remedies. Times are ms since the epoch.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from celery.schedules import crontab
from django.utils import timezone

from console.history.models import HistoryRun, JobRequest
from console.history.pipeline import job_requests
from console.history.pipeline.due_work import LONGEST_WAIT, QUIET, BrokerWork, DueWork, Reason
from console.history.pipeline.pipeline_leases import (
    broker_lease,
    is_process_alive,
    is_session_up,
    is_working,
    job_lease,
)
from console.history.pipeline.processed_files import processed_files
from console.history.pipeline.recordings import recordings
from console.history.pipeline.retention_date import Retained, last_retention
from console.history.storage.landing_keys import LandingError
from console.history.storage.landing_listing import LandedFile, LandingListing
from console.history.storage.layout import LAYOUTS
from console.history.storage.reader import HistoryBroken, NothingRecorded, Reader
from console.history.storage.table_versions import first_line
from console.leases.process import is_dead

#: Maximum number of runs listed, and of failures.
MOST_RUNS, MOST_FAILURES = 25, 10
MS_NS = 1_000_000

Facts = dict[str, Any]


@dataclass(slots=True)
class Status:
    """`running`: the current run; `runs`: finished runs, newest first; `first_run`: start of the oldest recorded run;
    `failures`: the most recent failed runs; `failed_in_a_row`: failed runs of the pipeline since the last successful
    one; `files`, `oldest`: number of landing files in the backlog, and when the oldest landed; `next_runs`: brokers
    with a backlog, when they will be processed and why then, the earliest first; `requests`: unfinished ones;
    `is_process_alive`: a process waits for work; `is_session_up`: one with Spark runs; `unreadable`: file -> reason;
    `retained`: the last retention; `trouble`: errors while collecting this status."""

    now: int
    running: Facts | None = None
    runs: list[Facts] = field(default_factory=list)
    failures: list[Facts] = field(default_factory=list)
    failed_in_a_row: int = 0
    first_run: int | None = None
    files: int = 0
    oldest: int | None = None
    next_runs: list[Facts] = field(default_factory=list)
    requests: list[Facts] = field(default_factory=list)
    is_process_alive: bool = False
    is_session_up: bool = False
    unreadable: dict[str, str] = field(default_factory=dict)
    brokers: list[Facts] = field(default_factory=list)
    maintenance: list[Facts] = field(default_factory=list)
    retained: Retained | None = None
    tables: list[Facts] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def redact(self) -> None:
        """Remove error details and file names, which may name brokers that the user has no permission to view."""
        for run in (*([self.running] if self.running else []), *self.runs, *self.failures):
            run["error"] = run["error"] and run["error"].partition(":")[0]
            run["broker"] = ""
        for request in self.requests:
            request["error"] = request["error"].partition(":")[0]
        for job in self.maintenance:
            if job["request"] is not None:
                job["request"]["error"] = job["request"]["error"].partition(":")[0]
            if job["last"] is not None:
                job["last"]["error"] = job["last"]["error"] and job["last"]["error"].partition(":")[0]
        self.next_runs = []
        self.unreadable = {f"file {number}": "" for number, _ in enumerate(self.unreadable, start=1)}


def status(reader: Reader, brokers: Iterable[Mapping[str, Any]], schedule: Mapping[str, Mapping[str, Any]]) -> Status:
    """Collect the status. `reader`: the history visible to the user; `brokers`: the configured ones visible to the
    user, with `slug` and `title`; `schedule`: Celery beat's."""
    now = timezone.now()
    found = Status(_ms(now))
    _add_runs(found)
    found.is_process_alive, found.is_session_up = is_process_alive(), is_session_up()
    files: list[LandedFile] = []
    from console.history.storage.landing import Landing

    try:
        files = LandingListing(reader.url).files()
        landing = Landing(reader.url)
        found.unreadable, found.retained = landing.files_set_aside(), last_retention(landing)
    except (LandingError, OSError) as error:
        found.trouble.append(f"The landing folder cannot be read: {first_line(error)}")
    _add_backlog(found, files, now)
    unfinished = JobRequest.objects.filter(finished=None).order_by("id")
    found.requests = [facts for row in unfinished if (facts := job_requests.request_facts(row)) is not None]
    found.tables = [_table(found, reader, name) for name in LAYOUTS]
    found.brokers, trouble = recordings(reader, brokers, files, _ms(now))
    found.trouble += [text for text in trouble if text not in found.trouble]
    found.maintenance = [_job(entry, now) for entry in schedule.values() if _work(entry) in HistoryRun.MAINTENANCE]
    return found


# -- runs -------------------------------------------------------------------------------------------------------


def _add_runs(found: Status) -> None:
    rows = list(HistoryRun.objects.all()[: MOST_RUNS + 1])
    current = next((row for row in rows if row.finished is None and _is_running(row)), None)
    found.running = None if current is None else _run(current)
    for row in rows:
        if current is not None and row.finished is None and row.holder == current.holder:
            continue  # the brokers of one run have a row each
        if len(found.runs) < MOST_RUNS:
            found.runs.append(_run(row))
    oldest = HistoryRun.objects.last()
    found.first_run = None if oldest is None else _ms(oldest.started)
    found.failures = [_run(row) for row in HistoryRun.objects.exclude(error="")[:MOST_FAILURES]]
    of_pipeline = HistoryRun.objects.filter(work=HistoryRun.RUN).exclude(finished=None)
    newest = of_pipeline.first()
    if newest is None:
        return
    successful = of_pipeline.filter(error="").first()
    failed = of_pipeline.exclude(error="").exclude(error__in=INTERRUPTED)
    if successful is not None:
        failed = failed.filter(started__gt=successful.started)
    found.failed_in_a_row = failed.count()


#: Errors of runs terminated from outside, which are no failures: the next run does their work.
INTERRUPTED = ("it was stopped", job_requests.DIED)


def _is_running(row: HistoryRun) -> bool:
    if is_dead(row.holder):
        return False
    return is_working(broker_lease(row.broker) if row.work == HistoryRun.RUN else job_lease(row.work))


def _run(row: HistoryRun) -> Facts:
    state = "interrupted" if row.error in INTERRUPTED else row.state
    return {
        "id": row.pk,
        "work": row.work,
        "broker": row.broker,
        "state": state,
        "holder": row.holder.rpartition(":")[0],  # host and process
        "started": _ms(row.started),
        "finished": None if row.finished is None else _ms(row.finished),
        "step": row.step,
        "files": row.files,
        "rows": row.rows,
        "seconds": row.seconds,
        "newest": None if row.newest is None else _ms(row.newest),
        "lag_ms": row.lag_ms,
        "error": row.error,
    }


# -- backlog -----------------------------------------------------------------------------------------------------


def _add_backlog(found: Status, files: list[LandedFile], now: dt.datetime) -> None:
    works = DueWork(lambda: round(now.timestamp() * 1e9), time.monotonic).find(files, processed_files())
    found.files = sum(work.files for work in works)
    found.oldest = min((work.oldest // MS_NS for work in works if work.files), default=None)
    found.next_runs = [
        {
            "broker": work.broker,
            "files": work.files,
            "oldest": work.oldest // MS_NS,
            "at": _due_at(work),
            "reason": str(work.reason),
        }
        for work in sorted(works, key=_due_at)
    ]


def _due_at(work: BrokerWork) -> int:
    """Return when a run is or was due, in ms. `DueWork` knows only how long this process has known the files."""
    if work.reason == Reason.HOUR:
        return work.at // MS_NS
    if work.reason == Reason.WAIT:
        return work.oldest // MS_NS + int(LONGEST_WAIT * 1000)
    return work.newest // MS_NS + int(QUIET * 1000)


# -- tables ----------------------------------------------------------------------------------------------------


def _table(found: Status, reader: Reader, name: str) -> Facts:
    layout = LAYOUTS[name]
    facts = {"name": name, "files": 0, "rows": 0, "bytes": 0, "first": None, "last": None}
    try:
        extent = reader.extent(name)
    except NothingRecorded:
        return facts | {"keep_days": layout.keep_days}
    except HistoryBroken as error:
        found.trouble.append(str(error))
        return facts | {"keep_days": layout.keep_days}
    return {
        "name": name,
        "files": extent.files,
        "rows": extent.rows,
        "bytes": extent.size,
        "first": None if extent.first is None else extent.first.isoformat(),
        "last": None if extent.last is None else extent.last.isoformat(),
        "keep_days": layout.keep_days,
    }


# -- maintenance jobs --------------------------------------------------------------------------------------------


def _work(entry: Mapping[str, Any]) -> str:
    return str(entry["task"]).removeprefix("history.")


def _job(entry: Mapping[str, Any], now: dt.datetime) -> Facts:
    """`last`: the most recent finished run; `done`: end of the last successful one."""
    work, schedule = _work(entry), entry["schedule"]
    rows = HistoryRun.objects.filter(work=work).exclude(finished=None)
    last, done = rows.first(), rows.filter(error="").first()
    at = now + schedule.remaining_estimate(now) if isinstance(schedule, crontab) else None
    return {
        "work": work,
        "next": None if at is None else _ms(at),
        "last": None if last is None else _run(last),
        "request": job_requests.request_facts(JobRequest.objects.filter(work=work).first()),
        "done": None if done is None or done.finished is None else _ms(done.finished),
    }


def _ms(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 1000)
