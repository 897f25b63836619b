"""Detectors as tables: attributes and rates in, the expected findings out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from console.conditions.active import ActiveConditions
from console.conditions.detectors import (
    DETECTORS,
    FLAPPING,
    UNITS,
    Finding,
    Observation,
    broker_findings,
    covers_clients,
    host_findings,
    is_ordinary,
    queue_findings,
)
from console.conditions.trends import NO_RATES, Rates, Trends
from tests.console.test_overview import row

NOW = 1_700_000_000_000
LIMITED = {"effective_capacity_messages": 100, "effective_stop_messages": 100, "effective_resume_messages": 80}
OVERFULL = {**LIMITED, "state": "OVERFULL", "depth_messages": 101, "producers": 2, "blocked_producers": 2}


def rates(into: float = 0, out: float = 0, observed_ms: int = 30_000) -> Rates:
    return Rates(into, out, (into - out) * 100, observed_ms)


def kinds(values: dict[str, Any], **seen: Any) -> list[str]:
    return [finding.kind for finding in queue_findings(row("orders", **values), Observation(NOW, **seen))]


@pytest.mark.parametrize(
    ("values", "seen", "expected"),
    [
        pytest.param({}, {}, [], id="calm"),
        pytest.param({**LIMITED, "producers": 3, "consumers": 1}, {"rates": rates(50, 50)}, [], id="busy"),
        # blocked without consumers
        pytest.param(OVERFULL, {}, ["blocked-without-consumer"], id="no consumers"),
        pytest.param({**OVERFULL, "consumers": 1}, {}, [], id="one consumer"),
        pytest.param({**OVERFULL, "producers": 0, "blocked_producers": 0}, {}, [], id="no blocked producers"),
        pytest.param({**OVERFULL, "consumers": None}, {}, [], id="consumers not known"),
        pytest.param(
            {**OVERFULL, "mechanism": "reject", "producers": None, "blocked_producers": None},
            {},
            ["blocked-without-consumer"],
            id="rejects without consumers",
        ),
        pytest.param(
            {**OVERFULL, "mechanism": "reject", "blocked_producers": None, "consumers": 1},
            {},
            [],
            id="rejects with a consumer",
        ),
        pytest.param(
            {**LIMITED, "state": "STOPPED", "producers": 1, "blocked_producers": 1, "depth_messages": 5},
            {},
            [],
            id="stopped by an operator",
        ),
        pytest.param({**OVERFULL, "state": "OVERFULL_STOPPED"}, {}, ["blocked-without-consumer"], id="both"),
        # blocked although underfull
        pytest.param(
            {**LIMITED, "producers": 1, "blocked_producers": 1, "depth_messages": 5},
            {},
            ["underfull-yet-blocked"],
            id="blocked although normal",
        ),
        pytest.param(
            {**LIMITED, "producers": 1, "blocked_producers": 1, "depth_messages": 5},
            {"short": True},
            [],
            id="memory shortage",
        ),
        pytest.param(
            {**OVERFULL, "depth_messages": 80, "consumers": 1}, {}, ["underfull-yet-blocked"], id="at its resume level"
        ),
        pytest.param(
            {**OVERFULL, "depth_messages": 90, "consumers": 1},
            {"rates": rates()},
            ["underfull-yet-blocked"],
            id="between the levels, and stuck",
        ),
        pytest.param(
            {**OVERFULL, "depth_messages": 90, "consumers": 1},
            {"rates": rates(0, 5)},
            [],
            id="draining between the levels",
        ),
        pytest.param(
            {**OVERFULL, "depth_messages": 90, "consumers": 1},
            {"rates": rates(observed_ms=1000)},
            [],
            id="no trend yet",
        ),
        # filling up
        pytest.param(
            {**LIMITED, "depth_messages": 40, "producers": 1},
            {"rates": rates(2, 1)},
            ["full-soon"],
            id="full in a minute",
        ),
        pytest.param(
            {**LIMITED, "depth_messages": 40, "producers": 1}, {"rates": rates(1.1, 1)}, [], id="full in ten minutes"
        ),
        pytest.param({**LIMITED, "depth_messages": 40}, {"rates": rates(1, 2)}, [], id="draining"),
        pytest.param({**LIMITED, "depth_messages": 2}, {"rates": rates(20, 1)}, [], id="a burst into an empty queue"),
        pytest.param(
            {**LIMITED, "depth_messages": 40, "overflow": "ring"},
            {"rates": rates(2, 1)},
            [],
            id="a ring blocks no producers",
        ),
        pytest.param(
            {"effective_stop_bytes": 10_000, "effective_capacity_bytes": 10_000, "depth_bytes": 5000},
            {"rates": rates(2, 1)},
            ["full-soon"],
            id="bytes fill it",
        ),
        pytest.param(
            {**LIMITED, "depth_messages": 100},
            {"rates": rates(0.01)},
            [],
            id="at its stop level, with a decayed rate",
        ),
        pytest.param(
            {**LIMITED, "depth_messages": 40},
            {"rates": Rates(2, 1, 100, 30_000, quiet_ms=5000)},
            [],
            id="the inflow ended five seconds ago",
        ),
        # flapping
        pytest.param(
            LIMITED, {"overfull": [NOW - n * 60_000 for n in range(4)]}, ["flapping"], id="four times in five minutes"
        ),
        pytest.param(LIMITED, {"overfull": [NOW - n * 60_000 for n in range(3)]}, [], id="three times"),
        pytest.param(LIMITED, {"overfull": [NOW - FLAPPING - 1 - n for n in range(4)]}, [], id="four times, long ago"),
        # flow control bypassed
        pytest.param(
            {"effective_capacity_messages": 100, "depth_messages": 150, "producers": 1},
            {},
            ["outside-flow-control"],
            id="flow control is off",
        ),
        pytest.param(
            {"effective_capacity_messages": 100, "depth_messages": 50, "producers": 1},
            {},
            [],
            id="flow control is off, depth below capacity",
        ),
        pytest.param(
            {**OVERFULL, "depth_messages": 150, "consumers": 1},
            {"rates": rates(5, 1)},
            ["outside-flow-control"],
            id="above its stop level, and growing",
        ),
        pytest.param(
            {**OVERFULL, "depth_messages": 150, "consumers": 1},
            {"rates": rates(1, 5)},
            [],
            id="above its stop level, and draining",
        ),
        pytest.param(
            LIMITED,
            {"broken": [(NOW - 1000, "transfer-limit-exceeded")]},
            ["outside-flow-control"],
            id="recent violation",
        ),
        pytest.param(LIMITED, {"broken": [(NOW - 3_600_000, "x")]}, [], id="violation an hour ago"),
        pytest.param(
            {"depth_messages": 5000, "producers": 1},
            {"rates": rates(9, 1)},
            ["outside-flow-control"],
            id="no limit, and growing",
        ),
        pytest.param(
            {"depth_messages": 500, "producers": 1}, {"rates": rates(9, 1)}, [], id="no limit, and few messages"
        ),
    ],
)
def test_queue_has_the_expected_findings(values: dict[str, Any], seen: dict[str, Any], expected: list[str]) -> None:
    assert kinds(values, **seen) == expected


_levels = st.sampled_from([None, 0, 100, 100, 1000])
_depths = st.none() | st.integers(0, 130) | st.integers(0, 1200) | st.integers(1001, 3000)
_queues = st.fixed_dictionaries(
    {"state": st.sampled_from([None, *["NORMAL"] * 4, "OVERFULL", "STOPPED", "OVERFULL_STOPPED"])},
    optional={
        **{f"effective_{level}_{unit}": _levels for level in ("capacity", "stop", "resume") for unit in UNITS},
        **{f"depth_{unit}": _depths for unit in UNITS},
        **{name: st.sampled_from([None, 0, 0, 2]) for name in ("producers", "blocked_producers", "consumers")},
        "mechanism": st.sampled_from([None, "credit", "reject"]),
        "overflow": st.sampled_from([None, "ring"]),
        "stops": st.sampled_from(
            [
                None,
                (),
                (),
                [
                    {
                        "scope": "type=Broker",
                        "halted": {"queue": row("orders")["object"], "actor": "", "percent": 90, "limit": 80},
                    }
                ],
            ]
        ),
    },
)
_flows = st.floats(0, 100) | st.floats(0, 2)
_rates = st.builds(Rates, _flows, _flows, st.floats(-100, 100), st.sampled_from([0, 9000, 9000]), st.just(0))


@settings(max_examples=1000)
@given(values=_queues, rates=_rates, short=st.booleans())
@example(values={"state": "NORMAL", "depth_messages": 1500, "producers": 2}, rates=Rates(5, 1, 0, 9000), short=False)
@example(
    values={**LIMITED, "state": "NORMAL", "depth_messages": 70}, rates=Rates(1.1, 1.0, 0, 9000), short=False
)  # full in 300 s: not soon, just
@example(values={**LIMITED, "state": "NORMAL", "depth_messages": 71}, rates=Rates(1.1, 1.0, 0, 9000), short=False)
def test_ordinary_queue_has_no_findings(values: dict[str, Any], rates: Rates, short: bool) -> None:
    queue = {**row("orders"), **values}
    findings = queue_findings(queue, Observation(NOW, rates, short=short))
    event(f"{len(findings)} findings, ordinary: {is_ordinary(queue, rates.growth)}")
    assert not (findings and is_ordinary(queue, rates.growth))


def test_most_queues_are_ordinary() -> None:
    busy = row("orders", **{**LIMITED, "producers": 3, "consumers": 1, "depth_messages": 50})
    assert is_ordinary(busy, rates(50, 50).growth)
    assert is_ordinary(row("orders", producers=1, depth_messages=90_000, depth_bytes=10**9), rates(50, 50).growth)
    assert not is_ordinary(busy, rates(60, 50).growth)


@pytest.mark.parametrize(
    ("broker", "severity"),
    [
        ({}, None),
        ({"memory_used_bytes": 90}, None),
        ({"memory_used_bytes": 79, "memory_limit_bytes": 100}, None),
        ({"memory_used_bytes": 80, "memory_limit_bytes": 100}, "warning"),
        ({"store_used_bytes": 101, "store_limit_bytes": 100, "shortages": ["store-overfull"]}, "trouble"),
        ({"temp_used_bytes": 95, "temp_limit_bytes": 100}, "warning"),
    ],
)
def test_broker_near_a_limit_is_found(broker: dict[str, Any], severity: str | None) -> None:
    assert [finding.severity for finding in broker_findings(broker)] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("host", "severity", "words"),
    [
        ({"store_used_bytes": 500}, None, ""),
        ({"store_used_bytes": 80, "store_overfull_bytes": 100}, "warning", "80%"),
        ({"store_used_bytes": 120, "store_overfull_bytes": 100, "store_overfull": True}, "trouble", "120%"),
        ({"store_used_bytes": 500, "store_overfull": True}, "trouble", "disk has no space"),
    ],
)
def test_store_near_its_limit_is_found(host: dict[str, Any], severity: str | None, words: str) -> None:
    found = list(host_findings({"name": "default", "object": "type=VirtualHost,name=default", **host}))
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert all(words in finding.saw for finding in found)


def test_every_finding_has_a_problem_and_an_advice() -> None:
    found = [
        *queue_findings(
            row("orders", **OVERFULL), Observation(NOW, overfull=[NOW] * 4, broken=[(NOW, "transfer-limit-exceeded")])
        ),
        *broker_findings({"memory_used_bytes": 80, "memory_limit_bytes": 100}),
    ]
    assert {finding.kind for finding in found} == {
        "blocked-without-consumer",
        "flapping",
        "outside-flow-control",
        "near-limit",
    }
    for finding in found:
        assert finding.saw.endswith((".", "transfer-limit-exceeded"))
        assert finding.advice.endswith(".")
        assert finding.kind in DETECTORS


# -- how long it must last ------------------------------------------------------------------------------------------


def update(conditions: ActiveConditions, *arguments: Any, **more: Any) -> None:
    for _ in conditions.update(*arguments, **more):
        pass


def updated(conditions: ActiveConditions, values: dict[str, Any], at: int, **more: Any) -> list[tuple[str, int]]:
    update(conditions, [row("orders", **values)], lambda queue: NO_RATES, at, **more)
    return [(condition.finding.kind, condition.since) for condition in conditions.conditions]


def test_finding_that_lasts_becomes_a_condition_since_it_was_first_found() -> None:
    conditions = ActiveConditions()
    assert updated(conditions, OVERFULL, NOW) == []
    assert updated(conditions, OVERFULL, NOW + 3000) == []
    assert updated(conditions, OVERFULL, NOW + 4000) == [("blocked-without-consumer", NOW)]


def test_short_finding_never_becomes_a_condition() -> None:
    conditions = ActiveConditions()
    updated(conditions, OVERFULL, NOW)
    assert updated(conditions, LIMITED, NOW + 1000) == []
    assert updated(conditions, OVERFULL, NOW + 4500) == []


def test_condition_survives_a_short_interruption_and_ends_after_a_longer_one() -> None:
    conditions = ActiveConditions()
    updated(conditions, OVERFULL, NOW)
    updated(conditions, OVERFULL, NOW + 5000)
    assert updated(conditions, LIMITED, NOW + 6000) == [("blocked-without-consumer", NOW)]
    assert updated(conditions, OVERFULL, NOW + 6500) == [("blocked-without-consumer", NOW)]
    assert updated(conditions, LIMITED, NOW + 8600) == []


def test_no_time_passes_for_a_finding_while_the_clock_is_set_back() -> None:
    conditions = ActiveConditions()
    updated(conditions, OVERFULL, NOW + 3_600_000)
    assert updated(conditions, OVERFULL, NOW) == []
    assert updated(conditions, OVERFULL, NOW + 4000) == [("blocked-without-consumer", NOW)]


def test_unchanged_row_with_a_finding_is_still_evaluated() -> None:
    conditions = ActiveConditions()
    same = row("orders", **OVERFULL)
    for at in (0, 4000):
        update(conditions, [same], lambda queue: NO_RATES, NOW + at)
    assert len(conditions.conditions) == 1


def test_deleted_queue_has_no_conditions() -> None:
    conditions = ActiveConditions()
    updated(conditions, OVERFULL, NOW)
    updated(conditions, OVERFULL, NOW + 5000)
    gone = [row("orders")["object"]]
    assert conditions.conditions != ()
    update(conditions, [], lambda queue: NO_RATES, NOW + 5100, gone=gone)
    assert conditions.conditions == ()


def test_flapping_is_detected_from_events_and_ends_with_time() -> None:
    conditions = ActiveConditions()
    name = row("orders")["object"]
    for n in range(4):
        conditions.became_overfull(name, NOW + n * 1000)
    assert updated(conditions, LIMITED, NOW + 4000) == [("flapping", NOW + 4000)]
    assert updated(conditions, LIMITED, NOW + 3000 + FLAPPING + 10_000) == []


def test_trouble_comes_before_warnings() -> None:
    conditions = ActiveConditions()
    warning = Finding("near-limit", "type=Broker", "warning", "near.", "act.")
    updated(conditions, OVERFULL, NOW, others=[warning])
    found = updated(conditions, OVERFULL, NOW + 5000, others=[warning])
    assert [kind for kind, _ in found] == ["blocked-without-consumer", "near-limit"]
    assert updated(conditions, LIMITED, NOW + 20_000) == []


def watched(samples: list[tuple[int, int]], until: int) -> dict[int, list[str]]:
    """Return the kinds of conditions in each second, of a queue of capacity 8. `samples`: (time in ms, enqueued
    messages in total)."""
    trends, conditions, shown = Trends(), ActiveConditions(), {}
    sent = 0
    for second in range(until + 1):
        now = NOW + second * 1000
        for at, total in samples:
            if at == second * 1000:
                sent = total
                counters = {"enqueued_messages": total, "dequeued_messages": 0, "depth_bytes": 100 * total}
                trends.take("type=Queue,virtualhost=default,name=q", now, counters)
        limits = {f"effective_{what}_messages": 8 for what in ("capacity", "stop", "resume")}
        here = row("q", depth_messages=sent, state="OVERFULL" if sent > 8 else "NORMAL", **limits)
        update(conditions, [here], lambda name, now=now: trends.of(name, now), now)
        shown[second] = [c.finding.kind for c in conditions.conditions]
    return shown


def test_queue_without_inflow_after_two_bursts_is_not_filling_up() -> None:
    shown = watched([(0, 0), (10_000, 4), (14_000, 8)], 90)
    assert all(shown[second] == [] for second in range(25, 91)), {s: k for s, k in shown.items() if k}


def test_filling_up_ends_when_the_queue_becomes_overfull() -> None:
    shown = watched([(second * 1000, second // 2) for second in range(20)], 20)
    assert "full-soon" in shown[17]
    assert shown[18] == [], "9 messages of 8"


def test_rates_in_a_sentence_have_units() -> None:
    full = {"effective_stop_bytes": 10_000, "effective_capacity_bytes": 10_000, "depth_bytes": 5000}
    (found,) = queue_findings(row("orders", **full), Observation(NOW, rates(3.1, 1)))
    assert found.saw == (
        "Full in about 24 s at current rates: 5,000 of 10,000 bytes, growing by 210 bytes/s;"
        " 3.1 messages/s in, 1.0 messages/s out."
    )
    assert DETECTORS[found.kind].title == "Filling up"


@pytest.mark.parametrize(
    ("stop", "covered"),
    [
        ({"object": "type=Broker", "user": "ann"}, True),
        ({"object": "type=Broker"}, False),
        ({"object": "type=Broker", "user": "", "container_id": "", "link": ""}, False),
        ({"object": "type=VirtualHost,name=default", "container_id": "web"}, True),
        ({"object": "type=VirtualHost,name=other", "container_id": "web"}, False),
        ({"object": "type=Queue,virtualhost=default,name=orders", "link": "l"}, True),
        ({"object": "type=Queue,virtualhost=default,name=bills", "link": "l"}, False),
        ({"object": "type=Exchange,virtualhost=default,name=x", "user": "ann"}, True),
        ({"object": "type=Exchange,virtualhost=other,name=x", "user": "ann"}, False),
    ],
)
def test_stop_of_some_clients_explains_blocked_producers_of_an_open_queue(
    stop: dict[str, Any], *, covered: bool
) -> None:
    assert covers_clients(stop, row("orders")) is covered
