"""How the pipeline is: what runs, what ran, what waits, what failed, how large the tables are. Told without Spark.

Facts only; what they mean and what to do about it is `diagnosis.py`'s. Times are ms since the epoch.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from celery.schedules import crontab
from django.utils import timezone

from console.history.models import Held, HistoryRun, JobRequest
from console.history.pipeline import job_requests
from console.history.pipeline.runner import LEASE
from console.history.storage.backlog import Landed, find_backlog
from console.history.storage.durations import DAY
from console.history.storage.landing import Landing, LandingError, part
from console.history.storage.layout import LAYOUTS
from console.history.storage.reader import HistoryBroken, NothingRecorded, Reader, first_line

#: Runs that are told, newest first; and failures among those that are not.
MOST_RUNS, MOST_FAILURES = 25, 10
#: A recorder publishes at least every 20 s or so while it follows a broker.
FOLLOWS = dt.timedelta(seconds=60)
#: Gaps in the recording are told for so long.
_GAPS_MS = 7 * DAY

Facts = dict[str, Any]


@dataclass(slots=True)
class Status:
    """`running`: the run that goes on; `runs`: those that have ended, newest first; `first_run`: when the first that is
    still known began; `failures`: the newest of them that failed; `failed_in_a_row`: runs of the pipeline
    since the last that went well; `oldest`: when the oldest waiting file landed; `unreadable`: file -> reason;
    `trouble`: what of all this could not be found out, and why."""

    now: int
    running: Facts | None = None
    runs: list[Facts] = field(default_factory=list)
    failures: list[Facts] = field(default_factory=list)
    failed_in_a_row: int = 0
    first_run: int | None = None
    files: int = 0
    oldest: int | None = None
    unreadable: dict[str, str] = field(default_factory=dict)
    brokers: list[Facts] = field(default_factory=list)
    maintenance: list[Facts] = field(default_factory=list)
    tables: list[Facts] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def leave_reasons_out(self) -> None:
        """For those who do not see every broker: reasons and names of files tell of the others."""
        for run in (*([self.running] if self.running else []), *self.runs, *self.failures):
            run["error"] = run["error"] and run["error"].partition(":")[0]
        for job in self.maintenance:
            if job["request"] is not None:
                job["request"]["error"] = job["request"]["error"].partition(":")[0]
            if job["last"] is not None:
                job["last"]["error"] = job["last"]["error"] and job["last"]["error"].partition(":")[0]
        self.unreadable = {f"file {number}": "" for number, _ in enumerate(self.unreadable, start=1)}


def status(reader: Reader, brokers: Iterable[Mapping[str, Any]], schedule: Mapping[str, Mapping[str, Any]]) -> Status:
    """`reader`: the history as far as who asks sees it; `brokers`: those of the settings that they see, with `slug` and
    `title`; `schedule`: Celery beat's."""
    now = timezone.now()
    told = Status(_ms(now))
    _of_runs(told, now)
    landed: Landed = {}
    try:
        landed = Landing(reader.url).landed()
        backlog = find_backlog(reader.url, landed)
        told.files, told.oldest = backlog.files, None if backlog.oldest is None else _ms(backlog.oldest)
    except LandingError as error:
        told.trouble.append(str(error))
    except Exception as error:  # deltalake's have many types
        told.trouble.append(f"Which files were taken cannot be told: {first_line(error)}")
    told.tables = [_table(told, reader, name) for name in LAYOUTS]
    told.brokers = _following(told, reader, brokers, landed, now)
    told.maintenance = [_job(entry, now) for entry in schedule.values() if _work(entry) in HistoryRun.MAINTENANCE]
    return told


# -- runs -------------------------------------------------------------------------------------------------------


def _of_runs(told: Status, now: dt.datetime) -> None:
    rows = list(HistoryRun.objects.all()[: MOST_RUNS + 1])
    held = Held.objects.filter(name=LEASE, lease_until__gt=now).exists()
    for row in rows:
        if row.finished is None and held and told.running is None:
            told.running = _run(row)
        elif len(told.runs) < MOST_RUNS:
            told.runs.append(_run(row))
    oldest = HistoryRun.objects.last()
    told.first_run = None if oldest is None else _ms(oldest.started)
    told.failures = [_run(row) for row in HistoryRun.objects.exclude(error="")[:MOST_FAILURES]]
    of_pipeline = HistoryRun.objects.filter(work=HistoryRun.RUN).exclude(finished=None)
    newest = of_pipeline.first()
    if newest is None:
        return
    told.unreadable = dict(newest.unreadable)
    went_well = of_pipeline.filter(error="").first()
    failed = of_pipeline.exclude(error="").exclude(error__in=INTERRUPTED)
    if went_well is not None:
        failed = failed.filter(started__gt=went_well.started)
    told.failed_in_a_row = failed.count()


#: A run that was ended from outside is no failure: the next one does its work.
INTERRUPTED = ("it was stopped", "the process ended in the middle of it")


def _run(row: HistoryRun) -> Facts:
    state = "interrupted" if row.error in INTERRUPTED else row.state
    return {
        "id": row.pk,
        "work": row.work,
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


# -- what lies on the disk --------------------------------------------------------------------------------------


def _table(told: Status, reader: Reader, name: str) -> Facts:
    layout = LAYOUTS[name]
    facts = {"name": name, "files": 0, "rows": 0, "bytes": 0, "first": None, "last": None}
    try:
        extent = reader.extent(name)
    except NothingRecorded:
        return facts | {"keep_days": layout.keep_days}
    except HistoryBroken as error:
        told.trouble.append(str(error))
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


_LOOKED = """
SELECT broker, epoch_ms(max(until) FILTER (followed)) AS until,
    epoch_ms(max("at") FILTER (NOT followed)) AS gap_from,
    epoch_ms(arg_max(until, "at") FILTER (NOT followed)) AS gap_until,
    arg_max(reason, "at") FILTER (NOT followed) AS gap_reason
FROM {coverage} WHERE epoch_ms(until) > $begin GROUP BY broker ORDER BY broker
"""


def _following(
    told: Status, reader: Reader, brokers: Iterable[Mapping[str, Any]], landed: Landed, now: dt.datetime
) -> list[Facts]:
    """Every configured broker, then those that the history knows of the last days besides."""
    known: dict[str, Facts] = {}
    begin = _ms(now) - _GAPS_MS
    try:
        known = {row["broker"]: row for row in reader.rows(_LOOKED, {"begin": begin}, begin=begin)}
    except NothingRecorded:
        pass
    except HistoryBroken as error:
        if str(error) not in told.trouble:
            told.trouble.append(str(error))
    found = []
    for broker in brokers:
        slug = broker["slug"]
        prefix = f"recorder~{part(slug)}~"
        signs = [at for (kind, name), at in landed.items() if kind == "coverage" and name.startswith(prefix)]
        seen = max(signs, default=None)
        row = known.pop(slug, {})
        found.append(
            _broker(slug, broker["title"], row)
            | {
                "configured": True,
                "following": seen is not None and now - seen < FOLLOWS,
                "last_sign": row.get("until") if seen is None else _ms(seen),
            }
        )
    for slug, row in known.items():
        found.append(
            _broker(slug, slug, row) | {"configured": False, "following": None, "last_sign": row["until"]},
        )
    return found


def _broker(slug: str, title: str, row: Mapping[str, Any]) -> Facts:
    gap = None
    if row.get("gap_from") is not None:
        gap = {"from": row["gap_from"], "until": row["gap_until"], "reason": row["gap_reason"] or ""}
    return {"broker": slug, "title": title, "readable_until": row.get("until"), "gap": gap}


# -- by the clock -----------------------------------------------------------------------------------------------


def _work(entry: Mapping[str, Any]) -> str:
    return str(entry["task"]).removeprefix("history.")


def _job(entry: Mapping[str, Any], now: dt.datetime) -> Facts:
    """`last`: the newest run that has ended; `done`: when one last went well."""
    work, schedule = _work(entry), entry["schedule"]
    rows = HistoryRun.objects.filter(work=work).exclude(finished=None)
    last, done = rows.first(), rows.filter(error="").first()
    at = now + schedule.remaining_estimate(now) if isinstance(schedule, crontab) else None
    return {
        "work": work,
        "next": None if at is None else _ms(at),
        "last": None if last is None else _run(last),
        "request": job_requests.shown(JobRequest.objects.filter(work=work).first()),
        "done": None if done is None or done.finished is None else _ms(done.finished),
    }


def _ms(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 1000)
