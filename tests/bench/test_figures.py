"""Medians, spread, ratios and verdicts of the comparison with other brokers (`bench/figures.py`)."""

from __future__ import annotations

import pytest

from tests.bench.scripts import script

figures = script("figures")

OURS, PLAIN, SLOW, FAST = "Headgate", "Headgate, plain", "slow peer", "fast peer"
DASH = "\N{EN DASH}"


def some(own: tuple[str, ...] = (OURS, PLAIN), other: str = "") -> figures.Figures:
    return figures.Figures(own, other, [*own, *([other] if other else []), SLOW, FAST])


def cells(of: figures.Figures, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """The cells of the only row, by broker; `aim` is the verdict."""
    head, (row,) = of.as_table(without)
    return dict(zip(head, row, strict=True))


@pytest.mark.parametrize(
    ("values", "median", "spread"),
    [
        ([5.0], 5.0, None),
        ([4.0, 6.0], 5.0, 0.2),
        ([100.0, 90.0, 140.0], 100.0, 0.4),
        ([7.0, 7.0, 7.0], 7.0, 0.0),
        ([-100.0, -50.0, -100.0], -100.0, 0.5),
        ([0.0, 0.0], 0.0, None),
    ],
)
def test_median_and_distance_of_the_farthest_round(values: list[float], median: float, spread: float | None) -> None:
    row = figures.Row("r", values={OURS: values})
    assert row.value(OURS) == median
    assert row.spread(OURS) == (None if spread is None else pytest.approx(spread))


def test_a_cell_has_the_median_its_spread_and_our_ratio() -> None:
    of = some()
    row = of.row("r")
    for ours, theirs in ((1000, 2000), (1100, 2000), (900, 2200)):
        row.add(OURS, ours)
        row.add(FAST, theirs)
    assert cells(of)[OURS] == "1,000 ±10%"
    assert cells(of)[FAST] == "2,000 ±10% (0.50)"
    assert cells(of)[SLOW] == DASH


def test_a_broker_that_failed_in_a_later_round_has_no_figure_and_sets_no_aim() -> None:
    of = some()
    row = of.row("r", of_peers=1)
    row.add(OURS, 100)
    row.add(SLOW, 50)
    row.add(FAST, 1_000_000)
    of.failed(row, FAST, "it lost half")
    assert cells(of)[FAST] == "failed"
    assert cells(of)["aim"] == f"1 of the best peer, {SLOW}: 2.00, reached"
    assert of.failures == ["r: it lost half"]


def test_what_a_broker_lacks_is_a_dash_with_the_reason() -> None:
    of = some()
    of.lacks(of.row("r", of_peers=1), SLOW, "no transactions")
    assert cells(of)[SLOW] == f"{DASH} (no transactions)"
    assert cells(of)["aim"] == ""


def test_rates_are_compared_with_the_greatest_and_costs_with_the_least_of_the_peers() -> None:
    rates, costs = some(), some()
    for of, aim in ((rates, {"of_peers": 1.0}), (costs, {"of_least": 1.0})):
        row = of.row("r", **aim)
        for title, value in ((OURS, 30), (PLAIN, 1), (SLOW, 20), (FAST, 40)):
            row.add(title, value)
    assert cells(rates)["aim"] == f"1 of the best peer, {FAST}: 0.75, missed"
    assert cells(costs)["aim"] == f"at most 1 of the best peer, {SLOW}: 1.50, missed"


def test_an_equal_figure_reaches_either_aim() -> None:
    of = some()
    row = of.row("r", of_peers=1, of_least=1)
    for title in (OURS, FAST):
        row.add(title, 40)
    assert cells(of)["aim"].count("1.00, reached") == 2


def test_the_plain_path_stands_for_ours_only_if_the_compiled_one_has_no_figures() -> None:
    of = some()
    row = of.row("r", of_peers=1)
    row.add(PLAIN, 10)
    row.add(FAST, 20)
    assert cells(of, without=(OURS,)) == {
        "": "r",
        PLAIN: "10",
        SLOW: DASH,
        FAST: "20 (0.50)",
        "aim": f"1 of the best peer, {FAST}: 0.50, missed",
    }
    row.add(OURS, 40)
    assert cells(of)[PLAIN] == "10 (4.00)"


def test_a_failure_of_ours_is_no_verdict() -> None:
    of = some()
    row, before = of.row("r", of_peers=1), of.row("before")
    before.add(OURS, 1)
    row.add(FAST, 20)
    of.failed(row, OURS, "blocked")
    head, (verdict, _) = of.as_table(())
    assert verdict[head.index("aim")] == f"1 of the best peer, {FAST}: not measured"


def test_peers_alone_have_no_ratios_and_no_verdicts() -> None:
    of = some(own=())
    of.row("r", of_peers=1, of_least=1, least=1).add(FAST, 20)
    assert cells(of) == {"": "r", SLOW: DASH, FAST: "20", "aim": ""}


def test_the_other_broker_is_no_peer() -> None:
    of = some(other="other")
    row = of.row("r", of_other=0.9, of_peers=1)
    for title, value in ((OURS, 100), ("other", 200), (SLOW, 50)):
        row.add(title, value)
    assert cells(of)["aim"] == f"0.9 of other: 0.50, missed; 1 of the best peer, {SLOW}: 2.00, reached"
