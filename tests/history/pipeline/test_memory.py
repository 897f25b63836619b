"""What runs leave behind does not grow with their number: a session is kept for weeks, and Java's heap is small."""

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
def test_a_finished_run_leaves_neither_frames_nor_a_record_of_its_queries(
    spark: Any, history: History, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "FEW_ROWS", few)
    history.land(Story("some").watch(0, 60).overfull(5).blocked(5).released(9).underfull(9).sample(20, 5, whole=True))
    gc.collect()
    gc.disable()  # what is left after the run would go by chance
    try:
        before = held_in_java()
        assert history.run().files
        assert held_in_java() <= before + 5
    finally:
        gc.enable()
    assert spark._jsparkSession.sharedState().statusStore().executionsCount() <= 3


def held_in_java() -> int:
    """Objects there that are kept for something here, also where nobody can reach it any more."""
    return sum(type(each) is JavaObject for each in gc.get_objects())
