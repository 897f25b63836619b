"""One warm Spark session for all tests of the history: it takes longer to start than most of them to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from console.history.run import Report, Run
from console.history.session import start_session
from console.history.tables import Tables


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = start_session(name="headgate-tests")
    yield session
    session.stop()


class History:
    """A history of its own below a folder."""

    def __init__(self, spark: Any, url: str) -> None:
        self.url = url
        self.tables = Tables(spark, url)

    def run(self) -> Report:
        return Run(self.tables).run()

    def rows(self, name: str, *columns: str, where: str = "true") -> list[tuple[Any, ...]]:
        """Sorted; times as the session's UTC."""
        read = self.tables.read(name).where(where)
        return sorted((tuple(row) for row in read.select(*columns).collect()), key=repr)


@pytest.fixture
def history(spark: Any, tmp_path: Any) -> History:
    return History(spark, str(tmp_path / "history"))
