"""Memory does not grow with the number of runs: a session lasts for weeks, and Java's heap is small."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from py4j.java_gateway import JavaObject

from console.history.pipeline import run as run_module
from tests.history.rows import Story
from tests.history.runs import History

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("few", [100_000, -1], ids=["quick", "large"])
def test_finished_run_leaves_no_frames_and_no_data_of_its_queries(
    spark: Any, history: History, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "FEW_ROWS", few)
    history.land(Story("some").watch(0, 60).overfull(5).blocked(5).released(9).underfull(9).sample(20, 5, whole=True))
    gc.collect()
    gc.disable()  # otherwise a collection might free the rest by chance
    try:
        before = java_objects()
        assert history.run().files
        assert java_objects() <= before + 5
    finally:
        gc.enable()
    assert spark._jsparkSession.sharedState().statusStore().executionsCount() <= 3


def java_objects() -> int:
    """Return the number of Java objects referenced from Python, including unreachable Python objects."""
    return sum(type(each) is JavaObject for each in gc.get_objects())
