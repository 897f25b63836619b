"""One run of the pipeline over a landing folder, in a process of its own: seconds, processor time and heap by step.

    uv run bench/history_steps.py FOLDER

The last line printed is JSON. `bench/history.py` calls it once for each size, since a Java's heap grows and stays.
Processor time is Java's own: on a busy machine it is more significant than elapsed time. Heap is the peak of its pools
(as `MemoryPoolMXBean` counts them) and, beside it, the most that was still in use just after a collection.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from console.history.pipeline.run import Run
from console.history.pipeline.spark.session import start_session
from console.history.storage.tables import Tables


@dataclass
class Measured:
    """`seconds` and `processor`: by step. MiB: `heap` is the limit, `peak` the maximum use, `live` the maximum
    after a collection, `resident` the process's peak."""

    rows: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    session: float = 0
    seconds: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    collecting: float = 0
    heap: int = 0
    peak: int = 0
    live: int = 0
    resident: int = 0
    rolled: int = 0  # rows of `minutes`


class Watch:
    """Adds up the time of each step, from the moments at which steps begin."""

    def __init__(self, spark: Any, into: Measured) -> None:
        self.beans = spark._jvm.java.lang.management.ManagementFactory
        self.java = psutil.Process(int(self.beans.getRuntimeMXBean().getName().split("@")[0]))
        self.into = into
        self.at: tuple[str, float, float] | None = None

    def step(self, name: str) -> None:
        now, used = time.perf_counter(), sum(self.java.cpu_times()[:2])
        if self.at:
            last, began, before = self.at
            for book, spent in ((self.into.seconds, now - began), (self.into.processor, used - before)):
                book[last] = round(book.get(last, 0) + spent, 2)
        self.at = (name, now, used)
        print(f"  {name}", file=sys.stderr, flush=True)

    def end(self) -> None:
        self.step("")
        self.at = None

    def heap(self) -> None:
        mib = 1 << 20
        pools = [pool for pool in self.beans.getMemoryPoolMXBeans() if str(pool.getType()) == "Heap memory"]
        after = [pool.getCollectionUsage() for pool in pools]
        self.into.heap = self.beans.getMemoryMXBean().getHeapMemoryUsage().getMax() // mib
        self.into.peak = sum(pool.getPeakUsage().getUsed() for pool in pools) // mib
        self.into.live = max(self.into.live, sum(each.getUsed() for each in after if each) // mib)
        self.into.collecting = sum(each.getCollectionTime() for each in self.beans.getGarbageCollectorMXBeans()) / 1000
        status = Path(f"/proc/{self.java.pid}/status").read_text()
        self.into.resident = int(status.split("VmHWM:")[1].split()[0]) // 1024


def measure(folder: str) -> Measured:
    into = Measured()
    began = time.perf_counter()
    spark = start_session(name="headgate-bench")
    into.session = round(time.perf_counter() - began, 1)
    tables, watch = Tables(spark, folder), Watch(spark, into)
    more = True
    while more:
        report = Run(tables, watch.step).run()
        watch.end()
        watch.heap()
        for kind, count in report.rows.items():
            into.rows[kind] = into.rows.get(kind, 0) + count
        into.runs += 1
        more = report.more
    into.rolled = sum(file.rows for file in tables.files("minutes"))
    spark.stop()
    return into


if __name__ == "__main__":
    print(json.dumps(asdict(measure(sys.argv[1]))))
