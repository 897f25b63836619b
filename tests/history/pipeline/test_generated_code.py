"""Later runs use the code that Spark has generated for earlier ones: generating and compiling it takes processor
time, and Java has to optimize each class once more."""

from __future__ import annotations

from typing import Any

import pytest

from console.history.pipeline import run as run_module
from tests.history.rows import Story
from tests.history.runs import History

pytestmark = pytest.mark.timeout(600)

_DAY = 86_400


def _day(number: int) -> Story:
    begin = number * _DAY
    story = Story("b", numbers_from=1 + 100 * number).watch(begin, begin + 900)
    for second in range(0, 900, 60):
        story.sample(begin + second, 5 + second // 60, "a").sample(begin + second, 3, "b", whole=True)
    story.overfull(begin + 100).blocked(begin + 101).released(begin + 200).underfull(begin + 200)
    return story


def test_run_for_another_day_generates_hardly_any_code(
    spark: Any, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "FEW_ROWS", -1)  # few rows are processed without generated code
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics

    def generated(day: int) -> int:
        before = metrics.METRIC_COMPILATION_TIME().getCount()
        history.land(_day(day))
        assert history.run().rows["samples"] == 30
        return int(metrics.METRIC_COMPILATION_TIME().getCount() - before)

    first, _, _, last = [generated(day) for day in range(4)]
    assert first > 100  # otherwise generated code is counted no more, and this test shows nothing
    assert last < first / 4
