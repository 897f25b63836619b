"""Which logs are imported, and which time they cover."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from console.history.importing.layouts import parse_layout
from console.history.importing.log_files import LogError
from console.history.importing.log_import import LogImport
from console.history.importing.log_reading import Options
from console.history.storage.landing import KEYS, Landing
from console.history.storage.landing_names import sequence_of

START = datetime(2024, 6, 2, 12, 0, tzinfo=UTC)
QUEUE = "[vh(/default)/qu({})] "
OVERFULL = QUEUE + "QUE-1003 : Overfull : Size : 12 bytes, Capacity : 10"
UNDERFULL = QUEUE + "QUE-1004 : Underfull : Size : 6 bytes, Resume Capacity : 8"
UNREAD = QUEUE + "QUE-1004 : Underfull : Size : six bytes"


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(str(tmp_path / "history"))


def line(minute: float, text: str, queue: str = "a") -> str:
    stamp = (START + timedelta(minutes=minute)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    return f"{stamp} INFO  [main] - {text.format(queue)}"


def import_lines(landing: Landing, lines: list[str], broker: str = "old", **options: Any) -> Any:
    path = Path(landing.root).parent / "broker.log"
    path.write_text("".join(f"{each}\n" for each in lines))
    return LogImport(landing, broker, Options(options.pop("zone", UTC), **options)).import_file(path)


def covered(landing: Landing) -> list[tuple[float, float]]:
    """Return the covered spans in minutes, adjacent ones as one."""
    rows = landing.read_all("coverage").to_pylist()
    spans: list[tuple[float, float]] = []
    for row in sorted(rows, key=lambda row: row["at"]):
        at, until = ((row[name] - START).total_seconds() / 60 for name in ("at", "until"))
        if spans and spans[-1][1] >= at:
            spans[-1] = (spans[-1][0], max(spans[-1][1], until))
        else:
            spans.append((at, until))
    return spans


def events(landing: Landing) -> list[tuple[float, str]]:
    rows = {row["number"]: row for row in landing.read_all("events").to_pylist()}
    return sorted(((row["at"] - START).total_seconds() / 60, row["kind"]) for row in rows.values())


def test_landing_files_have_one_broker_and_no_name_of_a_recorder(landing: Landing) -> None:
    for broker in ("one", "recorder~two~0000000000000000001"):
        import_lines(landing, [line(0, OVERFULL), line(1, UNDERFULL)], broker)
    for kind in ("events", "coverage"):
        names = landing.names(kind)
        assert len(names) == 2
        for name in names:
            assert name.startswith("log~")
            assert sequence_of(name) is None
            assert len(set(landing.read(kind, name)["broker"].to_pylist())) == 1


@pytest.mark.domain("imports understood time")
def test_time_about_an_unread_event_line_is_not_covered(landing: Landing) -> None:
    lines = [line(0, "BRK-1001 : Startup"), line(1, OVERFULL), line(2, "closing"), "	at a.b.C"]
    lines += [
        line(3, UNREAD),
        line(4, UNREAD),
        "	at a.b.C",
        line(6, "closing"),
        line(7, UNDERFULL),
        line(9, "closing"),
    ]
    report = import_lines(landing, lines, allow_unread=True)
    assert covered(landing) == [(0, 2), (6, 9)]
    assert (report.unread, report.covered) == (2, 5 * 60_000)


@pytest.mark.parametrize("seed", range(30))
def test_no_span_covers_an_unread_line(landing: Landing, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.history.importing.log_files._BLOCK", 300)
    monkeypatch.setattr("console.history.importing.log_import.BATCH", 3)
    dice = random.Random(seed)
    texts = dice.choices([OVERFULL, UNDERFULL, UNREAD, "closing"], [3, 3, 1, 4], k=60)
    import_lines(landing, [line(n, text) for n, text in enumerate(texts)], allow_unread=True)
    spans = covered(landing)
    for n, (one, two) in enumerate(pairwise(texts)):
        known = UNREAD not in (one, two)
        first = max((m for m in range(n + 1) if texts[m] == UNREAD), default=-1)
        behind = [m for m in range(first + 1, 60) if texts[m] != UNREAD]
        assert any(a <= n and n + 1 <= b for a, b in spans) == (known and bool(behind)), (n, spans)


@pytest.mark.domain("imports unread lines")
def test_log_with_too_many_unread_lines_is_refused_with_examples(landing: Landing) -> None:
    lines = [line(n, OVERFULL if n % 2 else UNDERFULL) for n in range(99)]
    import_lines(landing, [*lines, line(99, UNREAD)])
    assert len(events(landing)) == 99
    other = Landing(f"{landing.root}-other")
    with pytest.raises(LogError, match=r"broker.log: 2 of 101 event lines \(2%\).*--layout.*--allow-unread.*six bytes"):
        import_lines(other, [*lines, line(99, UNREAD), line(99, UNREAD)])
    assert not events(other)
    assert not covered(other)
    import_lines(other, [*lines, line(99, UNREAD), line(99, UNREAD)], allow_unread=True)
    assert len(events(other)) == 99


def json_lines(time: str, message: str) -> list[str]:
    return [
        json.dumps({time: (START + timedelta(minutes=n)).isoformat(), message: text.format("a")})
        for n, text in enumerate([OVERFULL, "closing", UNDERFULL] * 15)
    ]


def test_json_log_is_read_by_its_common_fields(landing: Landing) -> None:
    report = import_lines(landing, json_lines("@timestamp", "message"))
    assert (report.total, report.unread) == (30, 0)
    assert covered(landing) == [(0, 44)]


def test_json_log_with_other_fields_is_refused_unless_they_are_named(landing: Landing) -> None:
    with pytest.raises(LogError, match="30 of 30 event lines"):
        import_lines(landing, json_lines("when", "words"))
    import_lines(landing, json_lines("when", "words"), allow_unread=True)
    assert not events(landing)
    assert not covered(landing)
    report = import_lines(landing, json_lines("when", "words"), layout=parse_layout("json:time=when,message=words"))
    assert report.total == 30
    assert covered(landing) == [(0, 44)]


def test_log_with_a_named_date_layout_is_imported(landing: Landing) -> None:
    lines = [f"06/02/24 02:0{n} PM | {text.format('a')} | main" for n, text in enumerate([OVERFULL, "x", UNDERFULL])]
    with pytest.raises(LogError):
        import_lines(landing, lines)
    layout = parse_layout("%d{MM/dd/yy hh:mm a} | %m | %t%n")
    import_lines(landing, lines, layout=layout, zone=ZoneInfo("Europe/Paris"))
    assert events(landing) == [(0, "queue-overfull"), (2, "queue-underfull")]
    assert covered(landing) == [(0, 2)]


def test_log_of_something_else_covers_no_time(landing: Landing) -> None:
    report = import_lines(landing, [line(n, "GET /index.html 200") for n in range(50)])
    assert (report.lines, report.known) == (50, False)
    assert not covered(landing)


def test_channel_that_is_closed_on_the_configuration_thread_ends_its_block(landing: Landing) -> None:
    channel = "[con:0(guest@/127.0.0.1:60521/default)/ch:0]"
    lines = [
        f"2024-06-02 12:00:0{second},000 INFO  [Broker-Config] (q.m) - {text}"
        for second, text in enumerate(
            [
                f"{channel} CHN-1005 : Flow Control Enforced (Queue orders)",
                f"{channel} CHN-1003 : Close",
                "[con:0(guest@/127.0.0.1:60521/default)] CON-1002 : Close",
            ]
        )
    ]
    import_lines(landing, lines)
    rows = sorted(landing.read_all("events").to_pylist(), key=lambda row: row["at"])
    assert [row["kind"] for row in rows] == ["producer-blocked", "producer-detached", "connection-closed"]
    assert {row["connection"] for row in rows} == {"con:0(guest@/127.0.0.1:60521/default)"}
    assert [row["channel"] for row in rows] == ["ch:0", "ch:0", None]


def test_message_of_an_old_rabbitmq_has_the_time_of_the_line_before(landing: Landing) -> None:
    lines = ["=WARNING REPORT==== 2-Jun-2024::12:00:00 ===", "memory resource limit alarm set on node rabbit@a.", ""]
    lines += ["=WARNING REPORT==== 2-Jun-2024::12:05:00 ===", "memory resource limit alarm cleared on node rabbit@a"]
    import_lines(landing, lines)
    assert events(landing) == [(0, "producers-stopped"), (5, "producers-started")]


# -- the repeated hour in autumn --------------------------------------------------------------------------------------

PARIS = ZoneInfo("Europe/Paris")


def autumn(*lines: tuple[str, str]) -> list[str]:
    return [f"2024-10-27 {clock} INFO  [main] - {text.format('a')}" for clock, text in lines]


def duration(landing: Landing) -> float:
    (start, _), (end, kind) = events(landing)
    assert kind == "queue-underfull"
    return end - start


@pytest.mark.parametrize(
    ("lines", "options", "minutes"),
    [
        # A step back by 20 minutes only
        ([("02:50:00,000", OVERFULL), ("02:30:00,000", UNDERFULL)], {}, 40),
        # Only other lines show that the clock was set back
        ([("02:50:00,000", OVERFULL), ("02:59:00,000", ""), ("02:01:00,000", ""), ("02:52:00,000", UNDERFULL)], {}, 62),
        ([("02:10:00,000", OVERFULL), ("02:40:00,000", UNDERFULL)], {}, 30),
        ([("02:10:00,000", OVERFULL), ("02:40:00,000", UNDERFULL)], {"fold": "second"}, 30),
        ([("01:10:00,000", OVERFULL), ("02:40:00,000", UNDERFULL)], {"fold": "second"}, 150),
        ([("01:10:00,000", OVERFULL), ("02:40:00,000", UNDERFULL)], {"fold": "first"}, 90),
        # Lines of several threads are a little out of order.
        ([("02:10:00,000", OVERFULL), ("02:09:59,000", "x"), ("02:40:00,000", UNDERFULL)], {}, 30),
    ],
)  # fmt: skip
def test_sparse_episode_ends_after_the_clock_was_set_back(
    landing: Landing, lines: list[tuple[str, str]], options: dict[str, Any], minutes: float
) -> None:
    import_lines(landing, autumn(*lines), zone=PARIS, **options)
    assert duration(landing) == minutes


# -- repeated and interrupted imports ---------------------------------------------------------------------------------


def busy(count: int, seed: int = 5, *more: str) -> list[str]:
    dice = random.Random(seed)
    return [line(n // 3, dice.choice([OVERFULL, UNDERFULL, "x", *more]), dice.choice("ab")) for n in range(count)]


ACTIVEMQ = "Usage Manager Memory Limit (1000) reached on queue://{}, size 5. Producers will be throttled"
ALARMS = [f"memory resource limit alarm {what} on node rabbit@{node}" for what in ("set", "cleared") for node in "cd"]


def rows(landing: Landing) -> dict[tuple[Any, ...], Any]:
    found = landing.read_all("events").to_pylist()
    return {tuple(row[column] for column in KEYS["events"]): row for row in found}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("after", [1, 2, 3, 5, 8])
def test_interrupted_import_continues_without_doubled_or_lost_rows(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, packed: bool
) -> None:
    monkeypatch.setattr("console.history.importing.log_files._BLOCK", 3000)
    monkeypatch.setattr("console.history.importing.log_import.BATCH", 50)
    path = tmp_path / "broker.log"
    content = "".join(f"{each}\n" for each in busy(900, 5, ACTIVEMQ, *ALARMS)).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    whole = Landing(str(tmp_path / "whole"))
    LogImport(whole, "old", Options(UTC)).import_file(path)
    put, puts = landing.put, []

    def put_until_killed(name: str, content: bytes) -> None:
        if len(puts) == after:
            raise Killed
        puts.append(name)
        put(name, content)

    monkeypatch.setattr(landing, "put", put_until_killed)
    with pytest.raises(Killed):
        LogImport(landing, "old", Options(UTC)).import_file(path)
    monkeypatch.setattr(landing, "put", put)
    report = LogImport(landing, "old", Options(UTC)).import_file(path)
    assert (report.continued > 0) == any(name.startswith("imports/") for name in puts)
    assert rows(landing) == rows(whole)
    assert covered(landing) == covered(whole) == [(0, 299)]


@pytest.mark.domain("imports once")
def test_repeated_import_reads_only_what_was_added(landing: Landing, tmp_path: Path) -> None:
    lines = busy(600)
    text = "".join(f"{each}\n" for each in lines)
    cut = text.index(lines[400]) + 30  # in the middle of a line
    (tmp_path / "broker.log").write_text(text[:cut])
    assert LogImport(landing, "old", Options(UTC)).import_file(tmp_path / "broker.log").continued == 0
    (tmp_path / "broker.log.1").write_text(text)
    report = LogImport(landing, "old", Options(UTC)).import_file(tmp_path / "broker.log.1")
    assert (report.lines, report.continued) == (200, len("".join(f"{each}\n" for each in lines[:400])))
    (tmp_path / "broker.log.1.gz").write_bytes(gzip.compress(text.encode()))
    assert LogImport(landing, "old", Options(UTC)).import_file(tmp_path / "broker.log.1.gz").lines == 0
    whole = Landing(str(tmp_path / "whole"))
    LogImport(whole, "old", Options(UTC)).import_file(tmp_path / "broker.log.1")
    assert rows(landing) == rows(whole)
    assert covered(landing) == covered(whole)


def test_log_with_the_first_line_of_another_one_is_read_whole(landing: Landing, tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    for seed in (5, 6):
        path.write_text("".join(f"{each}\n" for each in [line(0, "same"), *busy(50, seed)]))
        assert LogImport(landing, "old", Options(UTC)).import_file(path).lines == 51


def test_import_with_other_options_reads_the_log_again(landing: Landing) -> None:
    read = [import_lines(landing, busy(30), zone=zone).lines for zone in (UTC, PARIS, UTC)]
    assert read == [30, 30, 0]


# -- logs of users ----------------------------------------------------------------------------------------------------

LOGS = Path(__file__).parents[1] / "logs"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "rabbitmq-3.6.log",
            [("2019-05-06T03:56:36", "producers-stopped"), ("2019-05-06T03:56:42", "producers-started")],
        ),
        ("rabbitmq-3.7.log", [("2019-04-17T19:46:29.300000", "producers-stopped")]),
        (
            "activemq-5.log",
            [("2020-01-24T09:36:04.213000", "queue-overfull"), ("2020-01-24T09:36:04.213000", "queue-underfull")],
        ),
    ],
)
def test_log_of_a_user_is_read(landing: Landing, name: str, expected: list[tuple[str, str]]) -> None:
    report = LogImport(landing, "old", Options(UTC)).import_file(LOGS / name)
    assert report.unread == 0
    rows = sorted(landing.read_all("events").to_pylist(), key=lambda row: (row["at"], row["sequence"]))
    assert [(row["at"].isoformat().removesuffix("+00:00"), row["kind"]) for row in rows] == expected
