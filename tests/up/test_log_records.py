"""Log records as JSON lines: nothing that others chose forges a line or a field, nothing is lost, every line parses."""

from __future__ import annotations

import io
import json
import logging
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers import log_records
from brokers.log_records import Formatter, Handler, Lines, RecordStream, fields, in_background, set_fields
from console.up.process_output import Records
from tests.up.running import Running
from tests.up.test_supervisor import supervise  # noqa: F401  (a fixture)

MARK = "0123456789abcdef"
HOSTILE = 'x", "level": "CRITICAL"}\n{"level": "CRITICAL", "message": "forged"}\r\u2028\x1b[2J\x00\ud800'


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(log_records.PROCESS, "web")
    before = log_records.replace_fields({})
    yield
    log_records.replace_fields(before)


def formatted(message: Any, *arguments: Any, error: BaseException | None = None, **extra: Any) -> dict[str, Any]:
    trace = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("console.x", logging.WARNING, "", 0, message, arguments, trace)
    record.__dict__.update(extra)
    return parsed(Formatter().format(record))


def parsed(line: str) -> dict[str, Any]:
    assert len(line.splitlines()) == 1
    assert line.isascii()
    found = json.loads(line, object_pairs_hook=unique)
    assert isinstance(found, dict)
    return found


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_is_one_line_with_its_own_fields(text: str, other: str) -> None:
    with fields(broker=other, request_id="r-1"):
        found = formatted("refused: %s", text, error=ValueError(text), object=other, user=text)
    assert (found["level"], found["logger"], found["process"]) == ("WARNING", "console.x", "web")
    assert set(found) == {
        "time", "level", "logger", "process", "pid", "message", "exception", "broker", "request_id", "object", "user",
    }  # fmt: skip
    assert found["message"].startswith("refused: ")
    found["message"].encode()  # no lone surrogates


def test_a_message_that_is_a_map_does_not_replace_fields() -> None:
    found = formatted({"level": "CRITICAL", "process": "broker", "message": "forged"})
    assert (found["level"], found["process"]) == ("WARNING", "web")


def test_only_known_fields_are_taken_from_a_record() -> None:
    found = formatted("x", request=object(), password="hush", status=404, event=5)
    assert (found["status"], found["event"]) == (404, 5)
    assert "hush" not in str(found)
    assert "request" not in found


def test_a_long_message_is_shortened_and_stays_a_line_that_is_read() -> None:
    line = Formatter().format(logging.LogRecord("x", 30, "", 0, "\x00" * 5_000_000, (), None))
    assert len(line) < 1 << 20
    assert "5,000,000 characters" in json.loads(line)["message"]


async def test_fields_of_a_task_do_not_reach_others() -> None:
    import asyncio

    set_fields(request_id="r-1")

    async def work() -> str:
        return log_records.field("request_id") + log_records.field("broker")

    assert await asyncio.ensure_future(work()) == "r-1"
    assert await asyncio.ensure_future(in_background(work(), broker="local")) == "local"
    assert await work() == "r-1"


# -- output that is no record -----------------------------------------------------------------------------------------

TRACEBACK = ["Traceback (most recent call last):", '  File "x.py", line 1, in x', "    x()", "ValueError: no"]


def test_a_traceback_is_one_group_and_other_lines_are_their_own() -> None:
    lines = Lines()
    groups = [group for line in ["a", "", *TRACEBACK, "  b", *TRACEBACK[:2]] for group in lines.add(line)]
    assert groups == ["a", "\n".join(TRACEBACK), "  b"]
    assert lines.end() == ["\n".join(TRACEBACK[:2])]
    assert lines.end() == []


def test_a_traceback_without_end_is_not_collected_for_ever() -> None:
    lines = Lines()
    groups = [group for line in [TRACEBACK[0], *["  x"] * 5000] for group in lines.add(line)]
    assert sum(group.count("\n") + 1 for group in [*groups, *lines.end()]) == 5001
    assert max(group.count("\n") for group in groups) < 1000


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=8))
def test_whatever_is_printed_becomes_records(texts: list[str]) -> None:
    raw = io.StringIO()
    stream = RecordStream(raw, "stdout")
    for text in texts:
        stream.write(text)
    stream.finish()
    records = [parsed(line) for line in raw.getvalue().split("\n")[:-1]]
    assert all((each["logger"], each["process"]) == ("stdout", "web") for each in records)
    written = "".join(texts).split("\n")
    assert [line for line in written if line.strip()] == [
        line for each in records for line in each["message"].split("\n") if line.strip()
    ]


def test_handler_writes_records_past_the_stream_that_stands_for_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.StringIO()
    monkeypatch.setattr(sys, "stderr", RecordStream(raw, "stderr"))
    handler = Handler()
    handler.emit(logging.LogRecord("console.x", logging.INFO, "", 0, "once", (), None))
    sys.stderr.write("printed\n")
    assert [parsed(line)["logger"] for line in raw.getvalue().splitlines()] == ["console.x", "stderr"]
    handler.emit(
        logging.LogRecord("console.x", logging.INFO, "", 0, "%d", ("no number",), None)
    )  # a fault of the caller
    assert all(parsed(line) for line in raw.getvalue().splitlines())


# -- the supervisor ---------------------------------------------------------------------------------------------------


def passed(*lines: str) -> list[dict[str, Any]]:
    shown: list[Any] = []
    records = Records(shown.append, "web", "stderr", MARK)
    for line in lines:
        records.line(line)
    records.end()
    return [parsed(log_records.line_of(each)) for each in shown]


def test_records_are_passed_on_with_the_process_and_without_the_mark() -> None:
    line = json.dumps({"level": "INFO", "message": "m", "mark": MARK, "process": "broker", "request_id": "r"})
    assert passed(line) == [{"level": "INFO", "message": "m", "process": "web", "request_id": "r"}]


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"level": "CRITICAL", "message": "forged", "process": "broker"}),
        json.dumps({"level": "CRITICAL", "message": MARK}),
        json.dumps({"level": "CRITICAL", "mark": "other"}),
        json.dumps([MARK]),
        f'{{"mark": "{MARK}"',
        '{"a": ' * 100_000 + MARK,
        HOSTILE.replace("\n", ""),
        "DeprecationWarning: use another",
    ],
)
def test_what_is_no_record_of_the_process_is_put_into_one(line: str) -> None:
    (found,) = passed(line)
    assert (found["logger"], found["process"], found["level"]) == ("stderr", "web", "WARNING")
    assert "request_id" not in found


def test_a_traceback_of_a_process_is_one_record() -> None:
    (found,) = passed(*TRACEBACK)
    assert (found["level"], found["message"].splitlines()) == ("ERROR", TRACEBACK)


def test_supervisor_writes_only_records(supervise: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv(log_records.VARIABLE, "json")
    script = "import sys; print('{\"level\": 1}', file=sys.stderr, flush=True); raise ValueError('a\\nb\"')"
    running: Running = supervise(
        {"name": "odd", "command": [sys.executable, "-c", script], "essential": False},
        {"name": "fine", "command": ["sh", "-c", "echo 'some text' >&2; exec sleep 600"]},
    )
    running.wait_for("runs again")
    running.wait_for("some text")
    running.end(signal.SIGTERM, within=10)
    records = [parsed(line) for line in running.out.splitlines()]
    assert running.err == ""
    assert {each["process"] for each in records} == {"odd", "fine", "up"}
    assert any(each["message"] == '{"level": 1}' and each["logger"] == "stderr" for each in records)
    traces = [each for each in records if each["message"].startswith("Traceback")]
    assert traces
    assert all(each["message"].splitlines()[-1] == "ValueError: a" for each in traces)
    assert records[-1]["message"] == "stopped"


def test_failure_that_stops_everything_is_a_record(supervise: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv(log_records.VARIABLE, "json")
    running: Running = supervise({"name": "broken", "command": ["sh", "-c", "echo no such thing >&2; exit 3"]})
    running.process.wait(60)
    last = [parsed(line) for line in running.out.splitlines()][-1]
    assert (last["level"], "broken ended with exit code 3" in last["message"]) == ("CRITICAL", True)
    assert "no such thing" in last["lines"]
    assert running.err == ""
