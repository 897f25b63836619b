"""One Spark session for all tests of the history, since it takes longer to start than most tests to run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from console.history.pipeline.run import QUICK
from console.history.pipeline.spark.session import start_session
from tests.history.runs import History


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of Spark's own gateway
        session = start_session(name="headgate-tests", scratch=tmp_path_factory.mktemp("spark"))
        yield session
        session.stop()


@pytest.fixture(scope="module")
def quick_spark(spark: Any) -> Iterator[Any]:
    """Spark as it is for few rows, without optimizations that take longer than these."""
    settings = {**QUICK, "spark.sql.shuffle.partitions": "2"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(autouse=True)
def no_file_system_of_deltalake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that read a table with it may abort at exit: `console/history/storage/file_systems.py`."""

    def refused(*_: object, **__: object) -> None:
        pytest.fail("give deltalake the file system to read from: of_table(url)")

    monkeypatch.setattr("deltalake.fs.DeltaStorageHandler.from_table", refused)


@pytest.fixture
def history(spark: Any, tmp_path: Any) -> History:
    return History(spark, str(tmp_path / "history"))
