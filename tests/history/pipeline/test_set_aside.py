"""A landing file that cannot be processed is set aside with its reason, and the others are processed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from console.history.pipeline.run import Run
from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.landing_names import recorder_file
from tests.history.rows import Story, at, table
from tests.history.runs import History

pytestmark = pytest.mark.timeout(600)


def put(history: History, name: str, rows: pa.Table, **options: Any) -> Path:
    """Write a landing file without the checks of `Landing.publish`."""
    path = Path(Landing(history.url).folder("samples")) / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    return path


def samples(broker: str = "b", seconds: float = 5) -> pa.Table:
    return table("samples", Story(broker).sample(seconds, 1).rows["samples"])


def test_bad_files_are_set_aside_with_their_reasons_and_the_others_are_processed(history: History) -> None:
    good = samples()
    at_text = good.set_column(good.schema.get_field_index("at"), "at", pa.array(["yesterday"]))
    put(history, "no-rows", SCHEMAS["samples"].empty_table())
    put(history, "no-statistics", samples(seconds=6), write_statistics=False)
    put(history, "odd {name} [x]", samples(seconds=7))
    put(history, "newer-release", samples(seconds=8).append_column("added", pa.array([1])))
    put(history, "older-release", samples(seconds=9).drop_columns(["credit"]))
    put(history, "text-as-time", at_text)
    put(history, "no-broker", good.drop_columns(["broker"]))
    put(history, "empty", good).write_bytes(b"")
    half = put(history, "half", good)
    half.write_bytes(half.read_bytes()[:500])
    damaged = put(history, "damaged-pages", samples(seconds=10), compression="none")
    content = bytearray(damaged.read_bytes())
    content[8:200] = b"\xff" * 192
    damaged.write_bytes(content)
    put(
        history,
        "far-future",
        table("samples", [Story().sample(0, 1).rows["samples"][0] | {"at": at(0).replace(year=9000)}]),
    )
    put(history, recorder_file("someone else", 1), samples())
    history.land(Story().watch(0, 60))
    history.run()
    assert {row["at"] for row in history.rows("samples")} == {at(second) for second in (6, 7, 8, 9)}
    assert history.rows("minutes", "b", kind="queue")
    reasons = Landing(history.url).files_set_aside()
    bad = {"text-as-time": "at is of type", "no-broker": "no column broker", "empty": "cannot be read"}
    bad |= {"half": "cannot be read", "damaged-pages": "cannot be read", "far-future": "years 1970 to 2199"}
    bad |= {recorder_file("someone else", 1): "other brokers than its name"}
    assert set(reasons) == {f"samples/{name}.parquet" for name in bad}
    for name, reason in bad.items():
        assert reason in reasons[f"samples/{name}.parquet"]
    assert Run(history.tables).run().files == 0
    assert Landing(history.url).names("samples") == []
