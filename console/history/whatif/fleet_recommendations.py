"""Compute a recommendation for every queue from its last recorded week of minutes: the table `recommendations`.

Each queue's minutes go to a Python process of Spark as one Arrow table and are replayed there, so the job uses all
processors of the cluster. Those processes need numpy, numba and pyarrow; the console's code is sent to them.
"""

from __future__ import annotations

import tempfile
import time
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from console.history.storage.durations import DAY, MINUTE
from console.history.whatif.minute_traffic import COLUMNS, KNOWN
from console.history.whatif.recommend import ADVICE, recommendation_row
from console.history.whatif.recording import Consumers, recording_of_minutes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from console.history.storage.tables import Tables

DAYS = 7
#: The consumers of a queue are those in its samples of the end of the week, ms.
CONSUMERS_OF = DAY

_MODULES = (
    "causes",
    "comparison",
    "demand",
    "fleet_recommendations",
    "minute_traffic",
    "recommend",
    "recording",
    "replay",
)
#: Modules of the simulation, for the executors.
_CODE = (
    "__init__",
    "history/__init__",
    "history/storage/__init__",
    "history/storage/durations",
    "history/whatif/__init__",
    *(f"history/whatif/{m}" for m in _MODULES),
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


def write_recommendations(
    tables: Tables,
    on_step: Callable[[str], None] = lambda _name: None,
    without_resume_levels: Collection[str] = (),
) -> tuple[int, float]:
    """Replace the table with today's recommendations, in one commit; return the number of its rows and the duration in
    seconds. Without recorded data, write nothing. `without_resume_levels`: brokers at which none can be set."""
    from pyspark.sql import functions as F

    from console.history.storage.tables import ALWAYS

    began = time.perf_counter()
    on_step("advice")
    weeks = last_weeks(tables)
    if not weeks:
        return 0, 0.0
    send_code(tables.spark)
    minutes = tables.read_ranges("minutes", {broker: [week] for broker, week in weeks.items()})
    ends = {broker: [(end - CONSUMERS_OF, end)] for broker, (_begin, end) in weeks.items()}
    found = fleet_recommendations(minutes, tables.read_ranges("samples", ends), weeks, without_resume_levels)
    rows = found.withColumns({name: F.timestamp_millis(f"{name}_ms") for name in ("begin", "at")})
    tables.replace("recommendations", {broker: [ALWAYS] for broker in weeks}, rows, expected=0)
    # Counted in the table: counting `rows` would compute them again, or need them cached on executors, which may die.
    count = sum(file.rows for file in tables.files("recommendations") if file.broker in weeks)
    return count, round(time.perf_counter() - began, 3)


def last_weeks(tables: Tables) -> dict[str, Week]:
    """Return each broker's week up to its last recorded moment, in whole minutes."""
    from pyspark.sql import functions as F

    followed = tables.read("coverage").where("followed")
    last = followed.groupBy("broker").agg(F.max(F.unix_millis("until")).alias("until")).collect()
    ends = {row.broker: -(-row.until // MINUTE) * MINUTE for row in last}
    return {broker: (end - DAYS * DAY, end) for broker, end in ends.items()}


def fleet_recommendations(
    minutes: DataFrame, samples: DataFrame, weeks: Mapping[str, Week], without_resume_levels: Collection[str] = ()
) -> DataFrame:
    """Return a row of `_ROW` for each queue with enough data in its broker's week. `samples`: of the end of the weeks.
    Pure."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    bounds = minutes.sparkSession.createDataFrame(
        [(broker, *week, broker not in without_resume_levels) for broker, week in weeks.items()],
        "broker string, begin_ms bigint, at_ms bigint, resumes boolean",
    )
    ms = F.unix_millis("at")
    known = (
        minutes.where(KNOWN)
        .withColumn("ms", ms)
        .join(F.broadcast(bounds), "broker")
        .where("ms >= begin_ms AND ms < at_ms")
        .select(*_KEY, "begin_ms", "at_ms", "resumes", "ms", *COLUMNS)
        .join(_consumers(samples, bounds), list(_KEY), "left")
    )
    return known.groupBy(*_KEY).applyInArrow(recommendation_of_queue, from_arrow_schema(_ROW))


def _consumers(samples: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return the consumers of queues in their overfull samples, as `recorded_traffic.py` reads them for one queue."""
    from pyspark.sql import functions as F

    share = F.coalesce("unacknowledged_messages", F.lit(0)) / F.col("depth_messages")
    return (
        samples.where("state LIKE 'OVERFULL%' AND depth_messages > 0 AND consumers IS NOT NULL")
        .withColumn("ms", F.unix_millis("at"))
        .join(F.broadcast(bounds), "broker")
        .where(F.expr(f"ms >= at_ms - {CONSUMERS_OF} AND ms < at_ms"))
        .groupBy("broker", "virtualhost", F.col("queue").alias("name"))
        .agg(F.max("consumers").alias("consumers_most"), F.avg(share).alias("unacknowledged_share"))
    )


def recommendation_of_queue(minutes: pa.Table) -> pa.Table:
    """Return the row of `_ROW` for the minutes of one queue, in any order; no row if there is not enough data."""
    minutes = minutes.sort_by("ms")
    got = {name: minutes[name].cast(pa.float64()).to_numpy() for name in ("ms", *COLUMNS)}
    most = minutes["consumers_most"][0].as_py()
    consumers = None if most is None else Consumers(float(most), float(minutes["unacknowledged_share"][0].as_py()))
    found = recording_of_minutes(got, consumers)
    if found is None:
        return _ROW.empty_table()
    first: dict[str, Any] = {name: minutes[name][0].as_py() for name in (*_KEY, "begin_ms", "at_ms")}
    first["queue"] = first.pop("name")
    row = recommendation_row(found, resumes=minutes["resumes"][0].as_py())
    return pa.Table.from_pylist([first | row], schema=_ROW)


def send_code(spark: SparkSession) -> None:
    """Send the modules of the replay to Spark's Python processes, on any machine."""
    root = Path(__file__).resolve().parents[2]
    folder = Path(tempfile.mkdtemp(prefix="headgate-code-"))
    packed = folder / "headgate_replay.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for name in _CODE:
            archive.write(root / f"{name}.py", f"console/{name}.py")
    spark.sparkContext.addPyFile(str(packed))
