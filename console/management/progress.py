"""Progress of a long command on the terminal: what it does, share, rate and time left. Nothing if it is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never, TextIO

from tqdm import tqdm


class Progress:
    """The bar of one command. `unit`: the noun of the counted things, such as `rows`."""

    def __init__(self, bar: tqdm[Never]) -> None:
        self._bar = bar

    def at(self, done: float, total: float | None = None, *, what: str = "", note: str = "") -> None:
        """Set what has been done so far, of `total` if it is known. `what` replaces the name of the work, `note`
        follows the rate."""
        if self._bar.disable:
            return
        if total is not None:
            self._bar.total = total
        if what:
            self._bar.set_description_str(what, refresh=False)
        if note:
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)


@contextmanager
def progress(
    what: str, *, total: float | None = None, unit: str = "rows", size: bool = False, stream: TextIO | None = None
) -> Iterator[Progress]:
    """Show a bar on stderr (or `stream`) until the end of the block, which leaves its last state there. `size`: show
    numbers as sizes in bytes, with a rate of the same unit."""
    tqdm.monitor_interval = 0  # without its thread
    with tqdm(
        desc=what,
        total=total,
        unit="B" if size else f" {unit}",
        unit_scale=size,
        unit_divisor=1000,
        file=stream or sys.stderr,
        disable=None,  # unless the stream is a terminal
        dynamic_ncols=True,
        mininterval=0.2,
        miniters=0,
    ) as bar:
        yield Progress(bar)
