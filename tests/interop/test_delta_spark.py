"""The tables are Delta Lake tables for Spark's own reader: delta-spark reads what the pipeline has written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from console.history.storage.layout import LAYOUTS, table_url
from tests.history.conftest import spark as spark  # noqa: PLC0414 -- a fixture
from tests.history.delta import read
from tests.history.runs import History
from tests.history.stories import FIRST
from tests.interop.peers import absent

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

_PROGRAM = Path(__file__).with_name("delta_spark_reader.py")


def test_delta_spark_reads_the_rows_that_the_console_reads(spark: Any, tmp_path: Path) -> None:
    history = History(spark, str(tmp_path / "history"))
    for stories in (FIRST[:4], FIRST[4:6]):
        history.land(*stories)
        history.run()
    broker = FIRST[0].broker
    for partition in {file.partition for file in history.tables.files("minutes") if file.broker == broker}:
        history.tables.compact("minutes", broker, partition)
    written = [name for name in LAYOUTS if history.tables.files(name)]
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), json.dumps({name: table_url(history.url, name) for name in written})],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
        check=False,
    )
    if done.returncode and "unresolved dependency" in done.stderr.lower():
        absent("the jars of delta-spark cannot be fetched", "give this machine access to a Maven repository")
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for name in written:
        rows = read(history.url, name)
        assert found[name]["rows"] == rows.num_rows > 0
        assert found[name]["brokers"] == sorted(set(rows["broker"].to_pylist()))
        assert found[name]["columns"] == sorted(rows.column_names)
        first = found[name]["brokers"][0]
        assert found[name]["rows_of_first"] == rows["broker"].to_pylist().count(first)
        assert found[name]["version"] == history.tables._folders[name].current().version()
