"""The speed of `manage.py import-log`: lines per second of processor time, for logs with increasing parts of events.

uv run bench/import_log.py [--lines 1000000]
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from console.history.importing.log_import import LogImport
from console.history.importing.log_reading import Options
from console.history.storage.landing import Landing

PREFIX = "{stamp},{ms:03} INFO  [virtualhost-default-iopool-2] ({logger}) - "
EVENTS = (
    (
        "q.m.q.overfull",
        "[vh(/default)/qu(orders.{n})] QUE-1003 : Overfull : Size : 1,310,720 bytes, Capacity : 1,048,576,"
        " Messages : 1,280, Message Capacity : 10,000",
    ),
    (
        "q.m.c.flow_enforced",
        "[con:{n}(guest@/127.0.0.1:60521/default)/ch:0] CHN-1005 : Flow Control Enforced (Queue orders.{n})",
    ),
    (
        "q.m.q.underfull",
        "[vh(/default)/qu(orders.{n})] QUE-1004 : Underfull : Size : 800,000 bytes, Resume Capacity :"
        " 838,860, Messages : 781, Message Capacity : 8,000",
    ),
    ("q.m.c.flow_removed", "[con:{n}(guest@/127.0.0.1:60521/default)/ch:0] CHN-1006 : Flow Control Removed"),
)
OTHER = (
    "o.a.q.s.transport.Network",
    "closing connection {n} : nothing that the history would be interested in, at all",
)


def write(path: Path, lines: int, share: float) -> None:
    at = datetime(2024, 6, 2, tzinfo=UTC)
    events = 0
    with path.open("w") as file:
        for n in range(lines):
            at += timedelta(milliseconds=7)
            if events < (n + 1) * share:
                logger, text = EVENTS[events % 4]
                events += 1
            else:
                logger, text = OTHER
            stamp = at.strftime("%Y-%m-%d %H:%M:%S")
            file.write(
                PREFIX.format(stamp=stamp, ms=at.microsecond // 1000, logger=logger) + text.format(n=n % 997) + "\n"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    lines = parser.parse_args().lines
    print("| events among the lines | lines/s | MB/s | events/s |")
    print("|---|---|---|---|")
    for share in (0.0, 0.01, 0.1, 1.0):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "broker.log"
            write(path, lines, share)
            size = path.stat().st_size
            began = time.process_time()
            report = LogImport(Landing(folder), "bench", Options(UTC)).import_file(path)
            took = time.process_time() - began
            assert report.lines == lines
            assert not report.unread
            print(f"| {share:.0%} | {lines / took:,.0f} | {size / took / 1e6:,.0f} | {report.total / took:,.0f} |")
    print(f"\nmost memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
