"""The condition that the history is not recorded: signs of life of the recorder, clocks, restarts, broken storage."""

from __future__ import annotations

import datetime as dt
import os
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from console.alerts.evaluator import Evaluator
from console.alerts.models import Alert, Notification, Rule
from console.alerts.recording import INTERVAL, NOT_RECORDING, SILENT, Recording
from console.history.storage.recorder_signs import last_sign
from tests.console.alerts.test_transitions import T0
from tests.console.conftest import Broker


class Inline(Executor):
    """Runs at once; `hangs`: never."""

    hangs = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        if not self.hangs:
            done.set_result(fn(*args))
        return done


class Clocked:
    """A recorder's signs and two clocks. `seconds` have passed; the wall clock is `ahead`."""

    def __init__(self) -> None:
        self.seconds = self.ahead = 0.0
        self.sign: dt.datetime | Exception | None = T0
        self.executor = Inline()
        self.recording = self.restarted()

    def restarted(self) -> Recording:
        self.recording = Recording(lambda slug: self.read(), lambda: self.seconds, self.now, self.executor)
        return self.recording

    def now(self) -> dt.datetime:
        return T0 + dt.timedelta(seconds=self.seconds + self.ahead)

    def read(self) -> dt.datetime | None:
        if isinstance(self.sign, Exception):
            raise self.sign
        return self.sign

    def saw(self, seconds: float) -> str | None:
        """Let seconds pass, and return the evidence of the condition; empty: not known."""
        self.seconds += seconds
        self.recording.look(["local"])
        if not self.recording.knows("local"):
            return ""
        found = self.recording.observation("local")
        return found.saw if found else None


def test_silence_of_a_minute_is_the_condition_and_the_next_sign_ends_it() -> None:
    world = Clocked()
    assert world.saw(0) is None
    assert world.saw(SILENT - 1) is None
    assert world.saw(1) == "The recorder has published nothing for 1 min."
    world.sign = world.now()
    assert world.saw(INTERVAL) is None


@pytest.mark.parametrize("by", [3600, -3600])
def test_setting_the_clock_neither_causes_nor_ends_the_condition(by: float) -> None:
    world = Clocked()
    world.saw(0)
    world.ahead = by
    assert world.saw(INTERVAL) is None
    assert world.saw(SILENT) is not None
    world.ahead = 0
    assert world.saw(INTERVAL) is not None


def test_restart_while_the_recorder_is_silent_finds_it_at_once() -> None:
    world = Clocked()
    world.seconds = 500
    world.restarted()
    assert world.saw(0) == "The recorder has published nothing for 8 min 20 s."


def test_broker_that_was_never_recorded_and_unreadable_storage_are_named() -> None:
    world = Clocked()
    world.sign = None
    assert world.saw(0) == "No recorder has recorded this broker."
    world.sign = world.now()
    assert world.saw(INTERVAL) is None
    world.sign = OSError("no route to host")
    assert world.saw(INTERVAL) is None, "one failed read is no silence"
    assert world.saw(SILENT) == "The storage of the history cannot be read: no route to host."


def test_hanging_storage_is_read_once_and_counts_as_silence_if_it_answered_before() -> None:
    world = Clocked()
    world.executor.hangs = True
    assert world.saw(0) == "", "not known"
    assert world.saw(3600) == ""
    world.executor.hangs = False
    world.restarted()
    world.sign = world.now()
    assert world.saw(0) is None
    world.executor.hangs = True
    assert world.saw(SILENT) is not None


def test_sign_of_a_recorder_is_the_time_of_its_catalog(tmp_path: Path) -> None:
    assert last_sign(str(tmp_path), "local") is None
    folder = tmp_path / "recorder" / "local"
    folder.mkdir(parents=True)
    (folder / "published.json").write_text("{}")
    os.utime(folder / "published.json", (T0.timestamp(), T0.timestamp()))
    assert last_sign(str(tmp_path), "local") == T0
    assert last_sign(f"file://{tmp_path}", "local") == T0


@pytest.mark.django_db
def test_alert_fires_resolves_and_survives_a_restart_and_a_lost_connection(broker: Broker) -> None:
    world = Clocked()
    Rule.objects.create(name="history", kinds=[NOT_RECORDING], holds=30, quiet=0)

    def evaluator() -> Evaluator:
        return Evaluator(
            lambda: [broker.link], lambda number: None, world.restarted(), lambda: world.seconds, world.now
        )

    def phases(made: Evaluator, seconds: float) -> list[str]:
        before = set(Notification.objects.values_list("pk", flat=True))
        for _ in range(round(seconds)):
            world.seconds += 1
            made.poll()
        return list(Notification.objects.exclude(pk__in=before).values_list("phase", flat=True))

    broker.connected()
    first = evaluator()
    assert phases(first, 89) == [], "silent for a minute, pending for half a minute"
    assert phases(first, 3) == ["firing"]
    again = evaluator()
    assert phases(again, SILENT + 30) == [], "neither resolved nor repeated by a restart"
    assert Alert.objects.get().state == "firing"
    broker.lose()
    assert phases(again, 5) == []
    broker.come_back()
    assert phases(again, SILENT + 30) == []
    world.sign = world.now()
    assert phases(again, INTERVAL + 2) == ["resolved"]
