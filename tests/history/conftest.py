"""One warm Spark session for all tests of the history: it takes longer to start than most of them to run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from console.history.session import start_session
from tests.history.runs import History


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of Spark's own gateway
        session = start_session(name="headgate-tests")
        yield session
        session.stop()


@pytest.fixture
def history(spark: Any, tmp_path: Any) -> History:
    return History(spark, str(tmp_path / "history"))
