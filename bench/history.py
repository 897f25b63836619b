"""The history pipeline: how fast each step is and how that grows, its heap, its pages, and DuckDB beside it.

    uv run bench/history.py                                   # 1 and 10 million samples, a year's pages
    uv run bench/history.py --samples 100 --only steps        # an hour and a half, and 60 GB of disk
    uv run bench/history.py --only pages --year FOLDER        # of a history that is there already

Samples are a minute apart and each is a row of `minutes`: with a recorder's, a second apart, there are fewer rows to
work out and to write for each of them. The year (`manage.py make-history`'s) has a sample an hour but for its last
week, each of which holds for 15 minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from history_pages import pages
from history_yardstick import yardstick
from measured import ROOT, Failed, progress, table

from console.history.generate.generator import Plan, make_history
from console.history.storage.landing import Landing

STEPS = ("landing", "store", "holds", "episodes", "stops", "minutes", "hours", "days", "processed")
PARTS = ("steps", "pages")
UNTIL = datetime(2026, 11, 1, tzinfo=UTC)
SEED = 942


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=float, nargs="+", default=[1, 10], help="millions (default: 1 10)")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="parts (default: all)")
    parser.add_argument("--heap", default="512m", help="of the pipeline's Java (default: the product's, %(default)s)")
    parser.add_argument("--queues", type=int, default=1000, help="of the year (default: %(default)s)")
    parser.add_argument("--days", type=int, default=365, help="of the year (default: %(default)s)")
    parser.add_argument("--year", type=Path, help="a history whose pages to ask, instead of making one")
    parser.add_argument("--folder", type=Path, help="for what is made, and removed again (default: the system's)")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="headgate-bench-", dir=options.folder) as name:
        rows: list[list[str]] = []
        for part, measure in (("steps", _steps), ("pages", _pages)):
            if part in options.only:
                for row in measure(options, Path(name)):
                    progress(" | ".join(row))  # it may be long until the rest is there
                    rows.append(row)
    table(
        "The flow history",
        ["", "measured", "more"],
        rows,
        [
            f"Load of the machine {load:.0f} at the beginning, {os.getloadavg()[0]:.0f} at the end.",
            f"Spark as the product sets it: local[2], heap {options.heap}. In brackets: of Java's processor time.",
            "Delay from broker to chart: `uv run bench/history_freshness.py`. Import of logs: `bench/import_log.py`.",
        ],
    )


# -- steps ------------------------------------------------------------------------------------------------------------


def _steps(options: argparse.Namespace, folder: Path) -> Iterator[list[str]]:
    for millions in options.samples:
        where = folder / f"{millions:g}"
        made = _landed(where, millions)
        found = _pipeline(where, options.heap)
        title = f"{made / 1e6:,.1f} million samples"
        total, processor = sum(found["seconds"].values()), sum(found["processor"].values())
        yield [
            f"{title}: the whole run, samples/s",
            _rate(made, total, processor),
            f"{total:,.0f} s; {found['runs']} runs, {found['rolled']:,} rows of minutes,"
            f" {sum(found['rows'].values()) - made:,} events and coverage",
        ]
        for step in STEPS[:-1]:
            seconds, used = found["seconds"].get(step, 0), found["processor"].get(step, 0)
            yield [f"{title}: {step}, samples/s", _rate(made, seconds, used), f"{seconds:,.1f} s ({used:,.1f})"]
        yield [
            f"{title}: heap, MiB",
            f"{found['peak']:,} at most of {found['heap']:,}",
            f"{found['live']:,} after a collection, {found['collecting']:,.0f} s of collecting,"
            f" resident {found['resident']:,}",
        ]
        yield from _beside(title, found, where)
        shutil.rmtree(where)


def _landed(where: Path, millions: float) -> int:
    """Land samples of at most 1,000 queues, a minute apart; return how many there are."""
    samples = millions * 1e6
    days = math.ceil(samples / (1000 * 1440))
    queues = max(1, round(samples / (1440 * days)))
    progress(f"making {millions:g} million samples")
    # The last day is that of `UNTIL`, which has just begun.
    return make_history(Landing(str(where)), Plan(queues, days + 1, SEED, UNTIL, days + 1)).samples


def _pipeline(where: Path, heap: str) -> Any:
    progress("running the pipeline")
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "history_steps.py"), str(where)],
        env={**os.environ, "HEADGATE_SPARK_MEMORY": heap},
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"the pipeline failed with a heap of {heap}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _beside(title: str, spark: Any, where: Path) -> Iterator[list[str]]:
    progress("DuckDB, over the same files")
    yard = yardstick(str(where), spill=str(where / "spill"))
    rolled = ("minutes", "hours", "days")
    for name, steps in (("rollups", rolled), ("episodes", ("episodes",))):
        took = [sum(book[step] for step in steps) for book in (yard.seconds, yard.processor)]
        ours = [sum(spark[book][step] for step in steps) for book in ("seconds", "processor")]
        agree = [each for each in yard.differences if each.startswith(steps)]
        yield [
            f"{title}: {name}, DuckDB's time to Spark's",
            f"{took[0] / ours[0]:.3f} ({took[1] / ours[1]:.3f})",
            f"DuckDB {took[0]:,.1f} s ({took[1]:,.1f}) with {yard.memory}; "
            + ("the same numbers" if not agree else "; ".join(agree)),
        ]


# -- pages ------------------------------------------------------------------------------------------------------------


def _pages(options: argparse.Namespace, folder: Path) -> Iterator[list[str]]:
    where = options.year
    if where is None:
        where = folder / "year"
        progress(f"making {options.days} days of {options.queues:,} queues")
        made = make_history(Landing(str(where)), Plan(options.queues, options.days, SEED, UNTIL))
        found = _pipeline(where, options.heap)
        yield [
            f"{options.days} days of {options.queues:,} queues through the pipeline, s",
            f"{sum(found['seconds'].values()):,.0f} ({sum(found['processor'].values()):,.0f})",
            f"{made.samples:,} samples, {found['rolled']:,} rows of minutes; heap {found['peak']:,} MiB at most of"
            f" {found['heap']:,}",
        ]
    days, queues, questions = pages(str(where), random.Random(SEED))
    for each in questions:
        p99 = _p99(each.warm)
        aim = f"; aim {each.aim:g}: {'reached' if p99 <= each.aim else 'missed'}" if each.aim else ""
        yield [
            f"{each.title}, ms",
            f"warm: median {statistics.median(each.warm):.0f}, p99 {p99:.0f}",
            f"cold: median {statistics.median(each.cold):.0f}, longest {max(each.cold):.0f};"
            f" {days} days of {queues:,} queues{aim}",
        ]


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def _rate(count: int, seconds: float, processor: float) -> str:
    def rate(time: float) -> str:
        return f"{count / time:,.0f}" if time >= 0.05 else "—"

    return f"{rate(seconds)} ({rate(processor)})"


if __name__ == "__main__":
    main()
