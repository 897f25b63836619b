"""The cost of a scrape of `/metrics/queues`: time, processor time and size, by number of queues.

Rows of queues as a link has them, without sockets: what the web process computes for each scrape.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

from measured import table

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def rows(queues: int) -> list[tuple[str, dict[str, Any]]]:
    from brokers.model import object_name
    from brokers.testing import InMemoryBroker
    from console.links.object_shapes import row_of

    management = InMemoryBroker().management
    name = object_name("Queue", virtualhost="default", name="queue")
    row = row_of(management.create(name, {"capacity_messages": 1000, "capacity_bytes": 1_000_000}, "bench"))
    return [("local", {**row, "name": f"area{number % 100}.queue{number}"}) for number in range(queues)]


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    import django

    django.setup()
    from console.metrics.exposition import QueueMetrics, encoded

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    lines = []
    for number in options.queues:
        found = rows(number)
        taken, used, content = [], [], b""
        for _ in range(options.repeat):
            began, cpu = time.perf_counter(), time.process_time()
            content, _ = encoded(QueueMetrics(found), OPENMETRICS)
            taken.append(time.perf_counter() - began)
            used.append(time.process_time() - cpu)
        series = content.count(b"\n") - content.count(b"\n#")
        lines.append(
            [
                f"{number:,}",
                f"{series:,}",
                f"{statistics.median(taken):.2f}",
                f"{statistics.median(used):.2f}",
                f"{len(content) / 1e6:.1f}",
            ]
        )
    table(
        "Scrapes of `/metrics/queues`",
        ["queues", "series", "s", "CPU s", "MB"],
        lines,
        ["OpenMetrics."],
    )


if __name__ == "__main__":
    main()
