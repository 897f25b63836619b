"""The recommendation for each queue of the fleet, from the minutes of its last recorded week: the table `advice`.

Each queue's minutes go to a Python process of Spark's as one Arrow table and are replayed there, so it takes as many
processors as the cluster has. Those processes need numpy, numba and pyarrow; our own code is sent along.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from console.history.storage.durations import DAY, MINUTE
from console.history.whatif.comparison import ADVICE, row_of
from console.history.whatif.minute_traffic import COLUMNS, KNOWN, of_minutes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from console.history.storage.tables import Tables

DAYS = 7
_ALWAYS = (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC))

#: What the replay consists of, as executors need it.
_CODE = (
    "__init__",
    "history/__init__",
    "history/storage/__init__",
    "history/storage/durations",
    "history/whatif/__init__",
    *(f"history/whatif/{m}" for m in ("comparison", "fleet_recommendations", "minute_traffic", "replay")),
)

_KEY = ("broker", "virtualhost", "name")
_ROW = pa.schema(
    [
        ("broker", pa.string()),
        ("virtualhost", pa.string()),
        ("queue", pa.string()),
        ("begin_ms", pa.int64()),
        ("at_ms", pa.int64()),
        *ADVICE,
    ]
)

#: From, until; ms.
Week = tuple[int, int]


def write_advice(tables: Tables, on_step: Callable[[str], None] = lambda _name: None) -> tuple[int, float]:
    """Put the advice of today in the place of the last one, in one commit; return how many queues have a row, and
    seconds. Nothing is written while nothing was recorded."""
    from pyspark.sql import functions as F

    began = time.perf_counter()
    on_step("advice")
    weeks = last_weeks(tables)
    if not weeks:
        return 0, 0.0
    ranges = [(_moment(begin), _moment(end)) for begin, end in weeks.values()]
    send_code(tables.spark)
    found = fleet_advice(tables.read_ranges("minutes", ranges), weeks)
    rows = found.withColumns({name: F.timestamp_millis(f"{name}_ms") for name in ("begin", "at")}).localCheckpoint()
    tables.replace("advice", [_ALWAYS], rows, at_once=True)
    return rows.count(), round(time.perf_counter() - began, 3)


def last_weeks(tables: Tables) -> dict[str, Week]:
    """Of each broker: the week up to the last moment that somebody looked at it, in whole minutes."""
    from pyspark.sql import functions as F

    followed = tables.read("coverage").where("followed")
    last = followed.groupBy("broker").agg(F.max(F.unix_millis("until")).alias("until")).collect()
    ends = {row.broker: -(-row.until // MINUTE) * MINUTE for row in last}
    return {broker: (end - DAYS * DAY, end) for broker, end in ends.items()}


def fleet_advice(minutes: DataFrame, weeks: Mapping[str, Week]) -> DataFrame:
    """A row of `_ROW` for each queue of which enough is known in its broker's week. Pure."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    bounds = minutes.sparkSession.createDataFrame(
        [(broker, *week) for broker, week in weeks.items()], "broker string, begin_ms bigint, at_ms bigint"
    )
    ms = F.unix_millis("at")
    known = (
        minutes.where(KNOWN)
        .withColumn("ms", ms)
        .join(F.broadcast(bounds), "broker")
        .where("ms >= begin_ms AND ms < at_ms")
        .select(*_KEY, "begin_ms", "at_ms", "ms", *COLUMNS)
    )
    return known.groupBy(*_KEY).applyInArrow(advice_of_queue, from_arrow_schema(_ROW))


def advice_of_queue(minutes: pa.Table) -> pa.Table:
    """The minutes of one queue, in any order, to its row of `_ROW`, or to none."""
    minutes = minutes.sort_by("ms")
    got = {name: minutes[name].cast(pa.float64()).to_numpy() for name in ("ms", *COLUMNS)}
    found = of_minutes(got)
    if found is None:
        return _ROW.empty_table()
    first: dict[str, Any] = {name: minutes[name][0].as_py() for name in (*_KEY, "begin_ms", "at_ms")}
    first["queue"] = first.pop("name")
    advice = row_of(found.traffic, found.current, found.peak_messages, found.peak_bytes)
    return pa.Table.from_pylist([first | advice], schema=_ROW)


def send_code(spark: SparkSession) -> None:
    """Let Spark's Python processes import the replay, wherever they run."""
    root = Path(__file__).resolve().parents[2]
    folder = Path(tempfile.mkdtemp(prefix="headgate-code-"))
    packed = folder / "headgate_replay.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for name in _CODE:
            archive.write(root / f"{name}.py", f"console/{name}.py")
    spark.sparkContext.addPyFile(str(packed))


def _moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
