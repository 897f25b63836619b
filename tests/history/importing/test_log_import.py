"""Import of whole logs: events, repeated imports, unreadable content."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command

from console.history.importing.log_files import LogError
from console.history.importing.log_import import LogImport
from console.history.importing.log_reading import Options
from console.history.storage.landing import KEYS, Landing
from tests.up.running import ROOT

LOGS = Path(__file__).parents[1] / "logs"
Stored = dict[tuple[Any, ...], dict[str, Any]]


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(str(tmp_path / "history"))


def importing(landing: Landing, zone: str = "UTC", **options: Any) -> LogImport:
    return LogImport(landing, "old", Options(ZoneInfo(zone), **options))


def stored(landing: Landing) -> Stored:
    """Return the distinct rows in order."""
    rows = landing.read_all("events").to_pylist()
    found = {tuple(row[column] for column in KEYS["events"]): row for row in rows}
    return dict(sorted(found.items(), key=lambda item: (item[1]["at"], item[1]["sequence"])))


def kinds(landing: Landing) -> list[str]:
    return [row["kind"] for row in stored(landing).values()]


def test_log_of_an_old_java_broker_is_imported(landing: Landing) -> None:
    report = importing(landing, "Europe/Paris", allow_unread=True).import_file(LOGS / "broker-j-old.log")
    assert kinds(landing) == [
        "broker-ready",
        "connection-opened",
        "queue-created",
        "queue-overfull",
        "producer-blocked",
        "queue-underfull",
        "producer-released",
    ]
    assert (report.lines, report.total, report.other_lines) == (12, 7, 2)
    assert dict(report.other_messages) == {"CHN-1001": 1}
    assert report.unread == 2
    assert sorted(shape.partition(":")[0] for shape in report.examples) == ["no timestamp", "unknown form"]
    overfull, underfull = (row for row in stored(landing).values() if row["kind"].endswith("full"))
    # Daylight saving time began in between: 5 seconds, not an hour.
    assert (underfull["at"] - overfull["at"]).total_seconds() == 4.607
    assert overfull["at"] == datetime(2012, 3, 25, 0, 59, 58, 400_000, UTC)
    coverage = landing.read_all("coverage").to_pylist()[0]
    assert (coverage["broker"], coverage["source"]) == ("old", "log")
    assert coverage["at"] == datetime(2012, 3, 25, 0, 58, 59, 120_000, UTC)


def test_log_of_a_current_java_broker_is_imported(landing: Landing) -> None:
    report = importing(landing).import_file(LOGS / "broker-j-new.log")
    assert report.unread == 0
    assert kinds(landing)[3:] == [
        "queue-overfull",
        "producer-blocked",
        "producer-blocked",
        "queue-underfull",
        "producer-released",
        "queue-dropped",
        "store-overfull",
        "store-underfull",
        "store-overfull",
    ]
    overfull = next(row for row in stored(landing).values() if row["kind"] == "queue-overfull")
    assert (overfull["queue"], overfull["depth_bytes"], overfull["stop_bytes"]) == ("orders.eu", 1_310_720, 1_048_576)
    assert overfull["connection"] == "con:0(guest@/127.0.0.1:60521/default)"


def test_log_of_a_cpp_broker_is_imported_with_and_without_syslog(landing: Landing, tmp_path: Path) -> None:
    importing(landing).import_file(LOGS / "qpidd.log")
    assert kinds(landing) == ["queue-overfull", "queue-underfull", "queue-overfull"]
    syslog = tmp_path / "syslog"
    syslog.write_bytes((LOGS / "qpidd-syslog.log").read_bytes())
    written = datetime(2026, 1, 1, 6, tzinfo=UTC).timestamp()
    os.utime(syslog, (written, written))
    importing(landing).import_file(syslog)
    assert [row["at"].isoformat() for row in stored(landing).values()][-2:] == [
        "2025-12-31T23:59:59+00:00",
        "2026-01-01T00:00:07+00:00",
    ]


def test_warnings_of_a_client_are_imported(landing: Landing) -> None:
    importing(landing).import_file(LOGS / "client.log")
    assert [row["lasted_ms"] for row in stored(landing).values()] == [5000, 10000, None]
    assert set(kinds(landing)) == {"client-warning"}


def log(count: int, seed: int = 3) -> list[str]:
    """Return lines of a busy log, many of which have equal times and texts."""
    dice = random.Random(seed)
    at, lines = 1_700_000_000, []
    for _ in range(count):
        at += dice.random() < 0.3
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        queue = dice.choice("ab")
        words = dice.choice(
            [
                f"[vh(/default)/qu({queue})] QUE-1003 : Overfull : Size : 12 bytes, Capacity : 10",
                f"[vh(/default)/qu({queue})] QUE-1004 : Underfull : Size : 6 bytes, Resume Capacity : 8",
                "nothing of interest",
            ]
        )
        lines.append(f"{stamp} INFO {words}\n")
    return lines


def events_of(lines: list[str]) -> int:
    return sum("QUE-" in line for line in lines)


@pytest.mark.parametrize("name", ["again", "renamed", "packed", "longer", "carriage returns"])
def test_repeated_import_of_lines_adds_nothing(landing: Landing, tmp_path: Path, name: str) -> None:
    lines = log(3000)
    first, second = tmp_path / "broker.log", tmp_path / "broker.log.1"
    first.write_text("".join(lines))
    importing(landing).import_file(first)
    assert len(stored(landing)) == events_of(lines) > 1500
    files = len(landing.names("events"))
    added = 0
    match name:
        case "again":
            second = first
        case "renamed":
            second.write_text("".join(lines))
        case "packed":
            second.write_bytes(gzip.compress("".join(lines).encode()))
        case "longer":
            more = ["2030-01-01 00:00:00 INFO [vh(/default)/qu(c)] QUE-1001 : Create : x\n"]
            second.write_text("".join(lines + more))
            added = 1
        case "carriage returns":
            second.write_bytes("".join(lines).replace("\n", "\r\n").encode())
    report = importing(landing, resume=False).import_file(second)
    assert report.total == events_of(lines) + added
    assert len(stored(landing)) == events_of(lines) + added
    assert len(landing.names("events")) == files + added  # the same file, unless it is longer


def test_log_in_two_parts_equals_the_whole_log(landing: Landing, tmp_path: Path) -> None:
    lines = log(2000)
    cut = next(n for n in range(1000, 2000) if lines[n][:19] != lines[n - 1][:19])
    for name, part in (("broker.log.1", lines[:cut]), ("broker.log", lines[cut:]), ("whole", lines)):
        (tmp_path / name).write_text("".join(part))
        importing(landing).import_file(tmp_path / name)
    assert len(stored(landing)) == events_of(lines)


def test_same_lines_of_another_broker_are_different_events(landing: Landing, tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    path.write_text("".join(log(100)))
    for broker in ("one", "two"):
        LogImport(landing, broker, Options(UTC)).import_file(path)
    assert len(stored(landing)) == 2 * events_of(log(100))


def test_lines_across_blocks_are_read_whole(landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.history.importing.log_files._BLOCK", 64)
    monkeypatch.setattr("console.history.importing.log_import.BATCH", 7)
    lines = log(300)
    for name, content in (("plain", "".join(lines).encode()), ("packed", gzip.compress("".join(lines).encode()))):
        (tmp_path / name).write_bytes(content)
        assert importing(landing, resume=False).import_file(tmp_path / name).total == events_of(lines)
    assert len(stored(landing)) == events_of(lines)


def test_truncated_compressed_log_is_imported_up_to_its_end(landing: Landing, tmp_path: Path) -> None:
    lines = log(5000)
    path = tmp_path / "broker.log.gz"
    path.write_bytes(gzip.compress("".join(lines).encode())[:-2000])
    report = importing(landing).import_file(path)
    assert "truncated" in report.damage
    assert 1000 < report.total < events_of(lines)


def test_two_compressed_logs_in_one_file_are_both_imported(landing: Landing, tmp_path: Path) -> None:
    lines = log(1000)
    path = tmp_path / "broker.log.gz"
    path.write_bytes(b"".join(gzip.compress("".join(part).encode()) for part in (lines[:400], lines[400:])))
    report = importing(landing).import_file(path)
    assert (report.total, report.damage) == (events_of(lines), "")


def test_unreadable_content_is_counted_and_never_fatal(landing: Landing, tmp_path: Path) -> None:
    dice = random.Random(7)
    good = [line.encode() for line in log(200)]
    bad = [dice.randbytes(dice.randrange(200)).replace(b"\n", b"") + b"\n" for _ in range(200)]
    bad += [b"\xff\xfe QUE-1003 : Overfull\n", b"[vh(/\xff)/qu(\xfe)] QUE-1003 : Overfull : Size : \xff bytes\n"]
    mixed = good + bad
    dice.shuffle(mixed)
    path = tmp_path / "log"
    path.write_bytes(b"first line\n" + b"".join(mixed))
    report = importing(landing, allow_unread=True).import_file(path)
    assert report.total == events_of([line.decode() for line in good])
    assert report.lines == len(mixed) + 1
    assert report.unread == 2


@pytest.mark.parametrize("what", ["missing", "folder", "utf-16"])
def test_unreadable_file_is_named_in_the_error(landing: Landing, tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    elif what == "utf-16":
        path.write_text("x", encoding="utf-16")
    with pytest.raises(LogError, match=str(path)):
        importing(landing).import_file(path)


def test_events_after_a_given_time_are_skipped(landing: Landing, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(log(1000)))
    middle = 1_700_000_100_000
    report = importing(landing, before=middle).import_file(path)
    assert report.skipped > 0
    assert all(row["at"].timestamp() * 1000 < middle for row in stored(landing).values())
    assert report.total + report.skipped == events_of(log(1000))


def command(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "import-log", *arguments],
        cwd=ROOT,
        env={**os.environ, "HEADGATE_DATA": str(data)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_command_reports_each_file_and_continues_after_an_unreadable_one(tmp_path: Path) -> None:
    old, missing = LOGS / "broker-j-old.log", tmp_path / "missing.log"
    done = command(
        tmp_path, "--broker", "qpid-1", "--timezone", "Europe/Paris", "--allow-unread", str(missing), str(old)
    )
    assert done.returncode == 1
    assert f"{missing} cannot be read: No such file or directory" in done.stderr
    assert f"{old}: 12 lines, 7 events" in done.stdout
    assert "unknown form: 2012-03-25 03:10:00,000" in done.stdout
    assert "Europe/Paris" in done.stdout
    assert len(stored(Landing(str(tmp_path / "history")))) == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--broker", "x", "--timezone", "Mars/Olympus"], "'Mars/Olympus' is not a time zone"),
        (["--broker", "x", "--before", "yesterday"], "'yesterday' is not a time"),
        (["--broker", "local"], "the recorder records a broker of that name"),
        ([], "--broker"),
    ],
)
def test_invalid_option_is_refused_by_name(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = command(tmp_path, *arguments, str(LOGS / "client.log"))
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.django_db
def test_command_that_is_interrupted_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")

    def interrupted(importing: LogImport, path: Path, progress: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogImport, "import_file", interrupted)
    with pytest.raises(SystemExit) as ended:
        call_command("import_log", str(LOGS / "client.log"), broker="old")
    assert ended.value.code == 130
    assert "repeat the command to continue" in capsys.readouterr().err


def test_command_refuses_a_log_with_too_many_unread_lines(tmp_path: Path) -> None:
    done = command(tmp_path, "--broker", "qpid-1", str(LOGS / "broker-j-old.log"))
    assert done.returncode == 1
    assert "2 of 9 event lines (22%) could not be read" in done.stderr
    assert "many bytes" in done.stderr
    assert not Landing(str(tmp_path / "history")).names("events")


OVERFULL = "[Broker] [vh(/default)/qu({})] QUE-1003 : Overfull : Size : 1,000 bytes, Capacity : 900"
HEAD = "INFO  [IO-1] (q.m.queue.overfull) - "


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"timestamp": 1_401_711_066_123, "message": OVERFULL.format("\ud800")}).encode(),
        json.dumps({"timestamp": 10**400, "message": OVERFULL.format("q")}).encode(),
        json.dumps({"instant": {"epochSecond": 10**30}, "message": OVERFULL.format("q")}).encode(),
        f"2014-06-02 12:14:06,123 +9900 {HEAD}{OVERFULL.format('q')}".encode(),
        f"9999-12-31 12:14:06,123 {HEAD}{OVERFULL.format('q')}".encode(),
        b"\0\xff\xfe QUE-1003 : Overfull\r",
        f"2014-06-02 12:14:06,123 {HEAD}{OVERFULL.format('q')}{'0' * 20}".encode(),
        f"2014-06-02 12:14:06,123 {HEAD}{OVERFULL.format('q')}{'0' * 5000}".encode(),
        b"2014-06-02 12:14:06,123 | INFO | Usage Manager Memory Limit (1) reached on queue://q, size 0. Producers will"
        b" be throttled. (blocking for: 99999999999s)",
        b"2014-06-02 12:14:06,123 " + b"x" * (9 << 20),
    ],
    ids=["surrogate", "integer", "instant", "zone", "year", "bytes", "64 bits", "digits", "duration", "long"],
)
def test_hostile_line_costs_only_itself(landing: Landing, tmp_path: Path, line: bytes) -> None:
    log = tmp_path / "broker.log"
    lines = [f"2014-06-02 12:{n:02}:05,123 {HEAD}{OVERFULL.format(n)}".encode() for n in range(10, 14)]
    log.write_bytes(b"\n".join([*lines[:2], line, *lines[2:], b""]))
    report = importing(landing, allow_unread=True).import_file(log)
    found = [row["queue"] for row in stored(landing).values()]
    assert [name for name in found if name in {"10", "11", "12", "13"}] == ["10", "11", "12", "13"]
    assert (report.unread, report.total) in {(1, 4), (0, 5)}
    covered = landing.read_all("coverage").to_pylist()
    assert all(row["until"].year == 2014 for row in covered)
    assert sum((row["until"] - row["at"]).total_seconds() for row in covered) <= 180


@pytest.mark.parametrize("packed", [False, True])
def test_line_that_is_being_written_is_imported_when_it_is_finished(
    landing: Landing, tmp_path: Path, packed: bool
) -> None:
    log = tmp_path / "broker.log"
    whole = "".join(f"2014-06-02 12:{n:02}:05,123 {HEAD}{OVERFULL.format('q')}\n" for n in range(10, 14)).encode()
    cut = whole[:-2]  # its capacity would be 90
    log.write_bytes(gzip.compress(cut)[:-8] if packed else cut)  # without the end of the compressed log
    report = importing(landing).import_file(log)
    assert report.total == len(stored(landing)) == 3
    assert "not finished" in report.damage or packed
    log.write_bytes(gzip.compress(whole) if packed else whole)
    assert importing(landing).import_file(log).total == 1
    assert len(stored(landing)) == 4


def test_last_line_without_an_end_is_imported_from_a_log_that_is_not_written_any_more(
    landing: Landing, tmp_path: Path
) -> None:
    log = tmp_path / "broker.log"
    log.write_text(f"2014-06-02 12:10:05,123 {HEAD}{OVERFULL.format('q')}")
    os.utime(log, (1_401_711_245, 1_401_711_245))
    assert importing(landing).import_file(log).total == 1
    log.write_text(f"{log.read_text()}\n")
    importing(landing).import_file(log)
    assert len(stored(landing)) == 1
