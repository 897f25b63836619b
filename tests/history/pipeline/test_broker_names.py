"""Brokers with any name have the same tables as one with a plain name."""

from __future__ import annotations

import os

import pytest

from console.history.pipeline.pending_rollups import PendingRollups
from console.history.pipeline.run import Run
from console.history.storage.landing import Landing
from console.history.storage.landing_names import landed_id, part, recorder_file
from tests.history.rows import Story, table
from tests.history.runs import History

pytestmark = pytest.mark.timeout(600)

NAMES = (
    "plain",
    "PLAIN",
    'a/../b~50%25 x\'y\\z "q" {c,d}[e]*? #1&x=y ',
    "${env:HOME}",
    "__HIVE_DEFAULT_PARTITION__",
    "Zürich 名前 \U0001f600 e\u0301\n",
)


def story(broker: str) -> Story:
    rows = Story(broker).watch(-60, 4000).overfull(10).blocked(11).sample(12, 15, whole=True, state="OVERFULL")
    return rows.released(70).underfull(75).sample(80, 3, enqueued_messages=9)


def test_brokers_with_any_name_have_the_same_tables(history: History) -> None:
    landing = Landing(history.url)
    for number, broker in enumerate(NAMES):
        rows = story(broker).rows
        for kind, some in rows.items():
            first, last = table(kind, some[:1]), table(kind, some[1:])
            landing.publish(kind, first, recorder_file(broker, 10**18 + number))
            if last.num_rows:
                landing.publish(kind, last, f"log~{part(broker)}~{number}")
    assert not Run(history.tables).run().unreadable
    plain = history.all_derived("plain")
    assert [row["duration_ms"] for row in plain["episodes"]] == [65_000]
    for broker in NAMES:
        assert history.all_derived(broker) == plain, broker
        for kind in ("events", "samples", "coverage"):
            assert history.tables.version(kind, landed_id(kind, broker)) == 10**18 + NAMES.index(broker), broker
    # The same rows again, as after a kill: each run finds those that are stored.
    counts = {kind: len(history.rows(kind)) for kind in ("events", "samples", "coverage")}
    for broker in NAMES:
        for kind, some in story(broker).rows.items():
            landing.publish(kind, table(kind, some), f"log~{part(broker)}~again")
    history.run()
    assert {kind: len(history.rows(kind)) for kind in counts} == counts
    assert all(history.all_derived(broker) == plain for broker in NAMES)
    assert PendingRollups(landing).load() == {}
    assert os.listdir(landing.folder("events"))
