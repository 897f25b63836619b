"""The broker log's file: its lines, and its size, also with odd texts, odd files and a disk that refuses."""

from __future__ import annotations

import logging
import os
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from brokers.server.log_file import LogFile

_TEXTS = ["plain", "größer", "日本語 ✓", "half a pair \ud800", "", "x" * 500]


def record(text: str, created: float = 1_800_000_000.25, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("headgate.broker.events", level, __file__, 1, "%s", (text,), None)
    made.created, made.msecs = created, (created - int(created)) * 1000
    return made


def sizes(path: Path) -> dict[str, int]:
    return {each.name: each.stat().st_size for each in path.parent.iterdir()}


def test_lines_are_those_of_the_standard_library(tmp_path: Path) -> None:
    ours = LogFile(tmp_path / "ours", 1 << 20, 2)
    theirs = RotatingFileHandler(tmp_path / "theirs", encoding="utf-8")
    theirs.setFormatter(logging.Formatter("%(asctime)s %(levelname)-5s %(message)s"))
    for created in (1_800_000_000.0, 1_800_000_000.0014, 1_800_000_000.999, 1_800_000_001.5, 1_799_999_999.25):
        for level in (logging.INFO, logging.WARNING, logging.ERROR):
            for handler in (ours, theirs):
                handler.emit(record("größer", created, level))
    for handler in (ours, theirs):
        handler.close()
    assert (tmp_path / "ours").read_text() == (tmp_path / "theirs").read_text()


def test_traceback_follows_its_line(tmp_path: Path) -> None:
    handler = LogFile(tmp_path / "log", 1 << 20, 2)
    try:
        raise RuntimeError("a fault")
    except RuntimeError as error:
        made = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", (), (RuntimeError, error, None))
    handler.emit(made)
    handler.close()
    assert (tmp_path / "log").read_text().endswith("ERROR failed\nRuntimeError: a fault\n")


@pytest.mark.parametrize("before", [0, 150])
def test_no_file_is_larger_than_its_limit_and_no_line_is_lost(tmp_path: Path, before: int) -> None:
    path = tmp_path / "log"
    path.write_text("b" * (before - 1) + "\n" if before else "")
    handler = LogFile(path, 200, 100)
    for number in range(100):
        handler.emit(record(f"größer {number}"))
    handler.close()
    assert max(sizes(path).values()) <= 200
    assert len(sizes(path)) > 20
    newest_last = sorted(path.parent.iterdir(), key=lambda each: -int(each.suffix[1:] or 0))
    lines = [line for each in newest_last for line in each.read_text().splitlines()][1 if before else 0 :]
    assert [line.rpartition(" ")[2] for line in lines] == [str(number) for number in range(100)]


def test_file_that_was_truncated_from_outside_is_not_renamed_too_early(tmp_path: Path) -> None:
    path = tmp_path / "log"
    handler = LogFile(path, 200, 5)
    for number in range(4):
        handler.emit(record(str(number)))
    os.truncate(path, 0)
    for number in range(4, 8):
        handler.emit(record(str(number)))
    handler.close()
    assert set(sizes(path)) == {"log"}
    assert [line.rpartition(" ")[2] for line in path.read_text().splitlines()] == ["4", "5", "6", "7"]


def test_oldest_files_are_removed(tmp_path: Path) -> None:
    handler = LogFile(tmp_path / "log", 100, 2)
    for number in range(50):
        handler.emit(record(str(number)))
    handler.close()
    assert set(sizes(tmp_path / "log")) == {"log", "log.1", "log.2"}


def test_line_longer_than_the_limit_is_written_whole(tmp_path: Path) -> None:
    handler = LogFile(tmp_path / "log", 100, 2)
    for text in ("a", "x" * 500, "b"):
        handler.emit(record(text))
    handler.close()
    assert "x" * 500 in (tmp_path / "log.1").read_text()
    assert (tmp_path / "log").read_text().endswith(" b\n")


@pytest.mark.parametrize("text", _TEXTS)
def test_text_that_cannot_be_written_costs_its_own_line_at_most(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogFile(tmp_path / "log", 1 << 20, 2)
    for each in ("before", text, "after"):
        handler.emit(record(each))
    handler.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0].endswith("before")
    assert lines[-1].endswith("after")
    assert len(lines) == (2 if "\ud800" in text else 3)


def test_pipe_is_written_and_never_renamed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    handler = LogFile(path, 50, 2)
    for number in range(5):
        handler.emit(record(str(number)))
    handler.close()
    assert len(os.read(reader, 1 << 16).splitlines()) == 5
    os.close(reader)
    assert set(sizes(path)) == {"pipe"}


def test_after_a_rename_that_failed_lines_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogFile(tmp_path / "log", 100, 2)
    handler.emit(record("x" * 60))

    def refuse(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        handler.emit(record("lost"))
    assert "No space left" in capsys.readouterr().err
    handler.emit(record("after"))
    handler.close()
    assert (tmp_path / "log").read_text().endswith(" after\n")


def test_time_zone_of_the_seconds_is_local(tmp_path: Path) -> None:
    handler = LogFile(tmp_path / "log", 1 << 20, 2)
    handler.emit(record("x"))
    handler.close()
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_800_000_000))
    assert (tmp_path / "log").read_text().startswith(f"{shown},250 INFO  x")
