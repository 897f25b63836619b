"""Progress of commands on a terminal."""

from __future__ import annotations

import io

from console.management.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_work_share_rate_and_remaining_time_on_a_terminal() -> None:
    terminal = Terminal()
    with progress("old.log", total=200, unit="lines", stream=terminal) as bar:
        bar.at(200, note="7 events")
    shown = terminal.getvalue().split("\r")[-1]
    assert shown.startswith("old.log: 100%")
    assert "200/200" in shown
    assert "lines/s" in shown
    assert "7 events" in shown
    assert "<00:00" in shown  # time left


def test_progress_shows_a_total_that_becomes_known_and_the_present_step() -> None:
    terminal = Terminal()
    with progress("pipeline", stream=terminal) as bar:
        bar.at(0, 10, what="episodes")
        bar.at(10)
    assert terminal.getvalue().split("\r")[-1].startswith("episodes: 100%")


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with progress("old.log", total=2, stream=stream) as bar:
        bar.at(1)
    assert stream.getvalue() == ""
