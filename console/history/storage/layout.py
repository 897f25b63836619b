"""The tables of the history: columns, layout on disk, retention.

Every table is a Delta Lake table at `<HEADGATE_HISTORY_URL>/tables/<name>`, partitioned by broker and by day or month,
so that runs for different brokers do not touch the same files. The files contain the broker, too, for readers that
open them without the log. Times are UTC, durations in ms, depths in messages and bytes. Null is "unknown", everywhere.

`events`, `samples` and `coverage` are the landing rows without duplicates (`landing.py` describes the columns). The
other tables are computed from these three, and can be recomputed:

`holds`     blocks: the time from `start` to `end` (null: ongoing) for which flow control blocked a producer, and the
cause
            of the end. The table's name is that of stored data.
`episodes`  kind `overfull`: a queue from overfull to underfull; kind `stopped`: a scope from an operator's stop to the
            start that lifted it.
`minutes`, `hours`, `days`
            rollups of the minute, hour or day from `at` on, by `kind`: `queue` and `virtualhost` (`name` is its name),
            and `producer` (`name` is client and link, `queue` the one it publishes to).
`recommendations`
            recommended limits from each queue's last week (`whatif/recommend.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.history.storage.landing_keys import KEYS

_ROLLUP = """
    broker string, virtualhost string, kind string, name string, queue string, at timestamp,
    watched_ms bigint, known_ms bigint, overfull_ms bigint, stopped_ms bigint,
    messages_mean double, messages_p95 double, messages_max bigint,
    bytes_mean double, bytes_p95 double, bytes_max bigint,
    messages_in bigint, messages_out bigint, rate_in double, rate_out double,
    episodes bigint, blocks bigint, blocked_ms bigint, blocked_producers_max bigint, producers_max bigint,
    capacity_messages bigint, stop_messages bigint, resume_messages bigint,
    capacity_bytes bigint, stop_bytes bigint, resume_bytes bigint
"""

# -- columns of rollups, each in one of these lists, by how rows of it combine ------

ROLLUP_KEY = ("broker", "virtualhost", "kind", "name", "queue", "at")
#: Equal in all rows of a broker and time; of hours and days: the sum over the time.
RECORDED = ("watched_ms",)
#: Of hours, days and virtual hosts: sums over the minutes, or queues. The recorder stores them in this order.
SUMS = ("known_ms", "overfull_ms", "stopped_ms", "messages_in", "messages_out", "episodes", "blocks", "blocked_ms")
#: Of hours and days: the greatest of the minutes; of virtual hosts: sums. Stored in this order, too.
MAXIMA = ("messages_max", "bytes_max", "blocked_producers_max", "producers_max")
#: Weighted by known time; of virtual hosts: sums.
MEANS = ("messages_mean", "bytes_mean")
PERCENTILES = ("messages_p95", "bytes_p95")
#: Computed from sums and times.
RATES = ("rate_in", "rate_out")
#: The last known ones.
LEVELS = ("capacity_messages", "stop_messages", "resume_messages", "capacity_bytes", "stop_bytes", "resume_bytes")

#: Those of the sums that episodes and blocks contribute to.
OF_INTERVALS = ("overfull_ms", "episodes", "blocked_ms", "blocks")

#: The measured columns of episodes and blocks: they never fall.
MEASURES = ("peak_messages", "peak_bytes", "producers", "connections", "blocked_ms")

_RECOMMENDATIONS = """
    broker string, virtualhost string, queue string, begin timestamp, at timestamp,
    kind string, text string, observed_seconds double,
    recorded_blocked_seconds double, recorded_overfull_seconds double,
    simulated_blocked_low_seconds double, simulated_blocked_high_seconds double,
    peak_messages double, peak_bytes double,
    stop_messages double, resume_messages double, stop_bytes double, resume_bytes double,
    recommended_stop_messages bigint, recommended_resume_messages bigint,
    recommended_stop_bytes bigint, recommended_resume_bytes bigint,
    recommended_blocked_low_seconds double, recommended_blocked_high_seconds double, recommended_peak_bytes double
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table. `columns`: as DDL; "": those of the landing schema. `time`: the column of a row's time,
    from which the second partition column, `day` or `month` (a date), is derived; the first one is `broker`. `order`:
    sort order within a file, so that readers of one queue skip the rest. `key`: columns that identify a row.
    `keep_days`: retention; None: unlimited."""

    time: str
    partition: str
    order: tuple[str, ...]
    keep_days: int | None
    columns: str = ""
    key: tuple[str, ...] = ()


_BY_NAME = ("kind", "broker", "virtualhost", "name", "at")

LAYOUTS: Mapping[str, Layout] = {
    "events": Layout("at", "month", ("broker", "at", "sequence"), 1100, key=KEYS["events"]),
    "samples": Layout("at", "day", ("broker", "virtualhost", "queue", "at"), 32, key=KEYS["samples"]),
    "coverage": Layout("at", "month", ("broker", "at"), 1100, key=KEYS["coverage"]),
    "holds": Layout(
        "start",
        "month",
        ("broker", "virtualhost", "queue", "start"),
        400,
        """
        broker string, virtualhost string, queue string, producer string, client string, link string,
        connection string, channel string, reasons array<string>, start timestamp, end timestamp, ended_by string
        """,
    ),
    "episodes": Layout(
        "start",
        "month",
        ("broker", "virtualhost", "queue", "start"),
        1100,
        """
        id string, kind string, broker string, virtualhost string, queue string, scope string,
        start timestamp, end timestamp, seen timestamp, duration_ms bigint,
        peak_messages bigint, peak_bytes bigint, stop_messages bigint, stop_bytes bigint,
        producers bigint, connections bigint, blocked_ms bigint,
        actor string, reason string, released_by string, released_actor string, released_reason string,
        settled boolean
        """,
    ),
    "minutes": Layout("at", "day", _BY_NAME, 100, _ROLLUP),
    "hours": Layout("at", "month", _BY_NAME, 1100, _ROLLUP),
    "days": Layout("at", "month", _BY_NAME, None, _ROLLUP),
    # One row per queue for the week until `at`; replaced as a whole.
    "recommendations": Layout("at", "month", ("broker", "virtualhost", "queue"), None, _RECOMMENDATIONS),
}


def table_url(history_url: str, name: str) -> str:
    return f"{history_url.rstrip('/')}/tables/{name}"
