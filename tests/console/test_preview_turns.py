"""Previews run one at a time and leave the broker most of its time."""

from __future__ import annotations

import threading

import pytest

from console.operations.preview_turns import Turns


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def preview(turns: Turns, clock: Clock, took: float) -> None:
    with turns.turn():
        clock.now += took


def test_long_preview_is_followed_by_a_pause_of_four_times_its_duration() -> None:
    clock = Clock()
    turns = Turns(clock, clock.sleep)
    for _ in range(3):
        preview(turns, clock, 0.5)
    assert clock.slept == pytest.approx([0, 2, 2])


def test_short_previews_hardly_wait_and_past_pauses_do_not_count() -> None:
    clock = Clock()
    turns = Turns(clock, clock.sleep)
    preview(turns, clock, 0.001)
    preview(turns, clock, 0.001)
    clock.now += 60
    preview(turns, clock, 0.001)
    assert clock.slept == pytest.approx([0, 0.004, 0])


def test_failed_preview_releases_its_turn() -> None:
    clock = Clock()
    turns = Turns(clock, clock.sleep)

    def failing() -> None:
        with turns.turn():
            clock.now += 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    preview(turns, clock, 0.1)
    assert clock.slept == pytest.approx([0, 4])


def test_previews_run_one_at_a_time() -> None:
    turns = Turns()
    inside, go_on, order = threading.Event(), threading.Event(), []

    def first() -> None:
        with turns.turn():
            inside.set()
            assert go_on.wait(5)
            order.append("first")

    def second() -> None:
        with turns.turn():
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert inside.wait(5)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert order == ["first", "second"]
