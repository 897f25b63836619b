"""The history pipeline of two checkouts over the same samples, a slice of each in turns.

    uv run bench/history_turns.py CHECKOUT                             # 10 million samples, one slice of each
    uv run bench/history_turns.py CHECKOUT --samples 100 --at-once     # a pair of slices took about 20 minutes

CHECKOUT is of the commit to compare this one with, with its own environment (`uv sync`). A slice is what one run takes,
ten million rows at most. Two measurements of an hour each, one after the other, see two machines, since other work
comes and goes; here each pair of slices sees one. The ratios are of Java's processor time; elapsed time is shown beside
it, and means nothing with `--at-once`. The table so far follows each pair: a measurement ended early counts, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from history import STEPS
from measured import ROOT, Failed, progress, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="of the commit to compare with")
    parser.add_argument("--samples", type=float, default=10, help="millions (default: %(default)s)")
    parser.add_argument("--at-once", action="store_true", help="both slices of a pair at the same time")
    parser.add_argument("--heap", default="512m", help="of each Java (default: the product's, %(default)s)")
    parser.add_argument("--folder", type=Path, help="for what is made, and removed again (default: the system's)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headgate-bench-", dir=options.folder) as name:
        sides = [
            Side(checkout, Path(name) / title, options.samples, options.heap)
            for title, checkout in (("this", ROOT), ("other", options.checkout.resolve()))
        ]
        _measure(sides, at_once=options.at_once)


@dataclass
class Side:
    """A pipeline in its checkout's own environment, which runs a slice on request. `seconds` and `processor`: by step,
    so far."""

    checkout: Path
    folder: Path
    samples: float
    heap: str
    seconds: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    more: bool = True

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.process = subprocess.Popen(
            ["uv", "run", "python", "-c", SLICES, str(self.folder), str(self.samples)],
            cwd=self.checkout,
            env={key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
            | {"HEADGATE_SPARK_MEMORY": self.heap},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        progress(f"{self.checkout}: {self._answer()['made']:,} samples")

    def slice(self) -> None:
        assert self.process.stdin is not None
        print("slice", file=self.process.stdin, flush=True)
        answer = self._answer()
        self.seconds, self.processor, self.more = answer["seconds"], answer["processor"], answer["more"]

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise Failed(f"the pipeline of {self.checkout} ended")


def _measure(sides: list[Side], *, at_once: bool) -> None:
    pairs = 0
    with ThreadPoolExecutor(len(sides) if at_once else 1) as threads:
        while all(side.more for side in sides):
            # In turns, the first of a pair finds the machine's caches as the other left them: once this, once that one.
            list(threads.map(Side.slice, sides if pairs % 2 else reversed(sides)))
            pairs += 1
            _print(sides, pairs, at_once=at_once)
    if sides[0].more != sides[1].more:
        progress("one of them takes more slices for the same samples: the rest is not compared")


def _print(sides: list[Side], pairs: int, *, at_once: bool) -> None:
    def cell(book: str, steps: tuple[str, ...]) -> str:
        this, other = (sum(getattr(side, book).get(step, 0) for step in steps) for side in sides)
        return f"{this / other:.2f}: {this:,.1f} by {other:,.1f} s" if other >= 0.05 else "—"

    rows = [("all", STEPS), *((step, (step,)) for step in STEPS[:-1])]
    table(
        f"The flow history, {sides[0].checkout.name} by {sides[1].checkout.name}, after {pairs} slices of each",
        ["step", "processor time", "elapsed"],
        [[title, cell("processor", steps), cell("seconds", steps)] for title, steps in rows],
        ["The slices of a pair at the same time." if at_once else "The slices in turns."],
    )


#: Runs in either checkout: only with names that both have.
SLICES = """
import json, os, sys
from pathlib import Path

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Java prints, too
sys.path[:0] = [str(Path.cwd() / "bench"), str(Path.cwd())]

from history import _landed
from history_steps import Measured, Watch
from console.history.pipeline.run import Run
from console.history.pipeline.spark.session import start_session
from console.history.storage.tables import Tables

folder, millions = Path(sys.argv[1]), float(sys.argv[2])
print(json.dumps({"made": _landed(folder, millions)}), file=out, flush=True)
into = Measured()
spark = start_session(name="headgate-bench")
tables, watch = Tables(spark, str(folder)), Watch(spark, into)
for _ in sys.stdin:
    report = Run(tables, watch.step).run()
    watch.end()
    print(json.dumps({"more": report.more, "seconds": into.seconds, "processor": into.processor}), file=out, flush=True)
    if not report.more:
        break
spark.stop()
"""

if __name__ == "__main__":
    main()
