"""Which stops a start lifts: the join of the pipeline agrees with the rules for a single pair."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from console.history.pipeline import stops
from console.history.storage.stop_scopes import Scope

pytestmark = pytest.mark.timeout(600)

HOSTS = ("default", "other", 'a b/"c"')
PATTERNS = ("orders", "orders.eu", "orders.*", "orders.>", "*", "*.eu", ">", "#", "*.>", "a.b.c", "orders.#")
NAMES = ("orders", "orders.eu", "orders.eu.x", "a/b c", "*", ">")


def scopes() -> list[str]:
    found = ["broker", *(f"broker {pattern}" for pattern in PATTERNS)]
    for host in HOSTS:
        text = json.dumps(host) if any(c in host for c in ' /"') else host
        found += [f"virtualhost {text}", *(f"virtualhost {text} {pattern}" for pattern in PATTERNS)]
        found += [f"{kind} {text}/{name}" for kind in ("queue", "exchange") for name in NAMES]
    return [*found, "", "queue default/", 'virtualhost "a', 'virtualhost "\\x"', "moon base", "broker  x"]


def lifts(started: str, stopped: str) -> bool:
    outer, inner = Scope.parse(started), Scope.parse(stopped)
    return started == stopped or bool(outer and inner and outer.contains(inner))


def test_join_of_starts_and_stops_agrees_with_the_rules_for_one_pair(spark: Any) -> None:
    texts = scopes()
    begins = spark.createDataFrame([("b", text) for text in texts] + [("c", "broker")], "broker string, scope string")
    starts = spark.createDataFrame([("b", text) for text in texts], "broker string, started string")
    pairs = {(row.broker, row.started, row.scope) for row in stops._pairs(begins, starts).collect()}
    expected = {("b", *pair) for pair in itertools.product(texts, texts) if lifts(*pair)}
    assert len(expected) > 500
    assert pairs == expected
