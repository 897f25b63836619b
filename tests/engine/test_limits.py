"""From policy settings to effective levels, and every refusal with both values (DOMAIN.md 1 and 2)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.values.limits import UNLIMITED, InvalidPolicy, Limits, resolve
from brokers.engine.values.policy import BROKER, OWN, VIRTUALHOST, inherit
from brokers.model import parse_level

LARGEST = (1 << 63) - 1


def limits(own=None, host=None, broker=None) -> Limits:
    return resolve(inherit([(OWN, own or {}), (VIRTUALHOST, host or {}), (BROKER, broker or {})]))


def refusal(own=None, host=None, broker=None) -> dict[str, str]:
    with pytest.raises(InvalidPolicy) as refused:
        limits(own, host, broker)
    assert all(text in str(refused.value) for text in refused.value.errors.values())
    return refused.value.errors


# -- valid settings --------------------------------------------------------------------------------------------


@pytest.mark.domain("1 worked example")
def test_worked_example_stops_above_163840_bytes():
    found = limits({"capacity_bytes": 204_800, "flow_stop_bytes": "80%"})
    assert found.stop_bytes == 163_840


@pytest.mark.domain("1 limits")
def test_no_settings_mean_no_limit():
    found = limits()
    assert found == Limits()
    assert (found.stop_bytes, found.stop_messages) == (UNLIMITED, UNLIMITED)


@pytest.mark.domain("2 defaults")
def test_stop_not_set_is_the_capacity_and_resume_not_set_is_the_stop_level():
    found = limits({"capacity_bytes": 1000, "capacity_messages": 10})
    assert (found.stop_bytes, found.resume_bytes, found.stop_messages, found.resume_messages) == (1000, 1000, 10, 10)
    found = limits({"capacity_messages": 10, "flow_stop_messages": 7})
    assert (found.stop_messages, found.resume_messages) == (7, 7)


@pytest.mark.domain("1 flow_stop_threshold")
def test_levels_may_be_absolute_or_a_percentage_of_the_capacity():
    found = limits(
        {
            "capacity_bytes": 1000,
            "flow_stop_bytes": 900,
            "flow_resume_bytes": "50%",
            "capacity_messages": 200,
            "flow_stop_messages": "62.5%",
            "flow_resume_messages": 0,
        }
    )
    assert (found.stop_bytes, found.resume_bytes) == (900, 500)
    assert (found.stop_messages, found.resume_messages) == (125, 0)


def test_absolute_stop_level_applies_without_a_capacity():
    found = limits({"flow_stop_messages": 5})
    assert (found.capacity_messages, found.stop_messages, found.resume_messages) == (0, 5, 5)


@pytest.mark.parametrize("none", [0, "0%"])
def test_stop_level_of_0_means_no_limit(none):
    found = limits({"capacity_messages": 100, "flow_stop_messages": none})
    assert (found.capacity_messages, found.stop_messages, found.resume_messages) == (100, UNLIMITED, UNLIMITED)


def test_small_percentage_of_a_small_capacity_is_a_limit_of_one_not_none():
    assert limits({"capacity_messages": 10, "flow_stop_messages": "1%"}).stop_messages == 1


@given(st.integers(1, LARGEST), st.decimals(0, 100, places=3))
def test_percentage_is_exact_for_every_capacity(capacity, percent):
    level = parse_level("flow_stop_bytes", f"{percent}%")
    found = limits({"capacity_bytes": capacity, "flow_stop_bytes": level})
    exact = int(Fraction(capacity) * Fraction(Decimal(percent)) / 100)
    assert found.stop_bytes == (max(1, exact) if percent else UNLIMITED)


@given(st.integers(1, LARGEST), st.integers(0, 100_000), st.integers(0, 100_000))
def test_resume_level_is_valid_exactly_at_or_below_the_stop_level(capacity, stop, resume):
    own = {
        "capacity_messages": capacity,
        "flow_stop_messages": f"{stop / 1000:g}%",
        "flow_resume_messages": f"{resume / 1000:g}%",
    }
    if resume <= stop or not stop:
        found = limits(own)
        assert found.resume_messages <= found.stop_messages
    elif capacity * resume // 100_000 > max(1, capacity * stop // 100_000):
        assert set(refusal(own)) == {"flow_resume_messages"}


def test_window_of_0_is_a_thousand():
    assert limits().window == 1000
    assert limits({"producer_window_messages": 0}).window == 1000
    assert limits({"producer_window_messages": 7}).window == 7


def test_window_above_the_largest_credit_of_a_link_is_refused():
    assert limits({"producer_window_messages": 2**31 - 1}).window == 2**31 - 1
    text = refusal({"producer_window_messages": 2**31})["producer_window_messages"]
    assert "2147483648" in text
    assert "2147483647" in text


# -- contradictions --------------------------------------------------------------------------------------------


@pytest.mark.domain("1 misconfiguration")
@pytest.mark.parametrize("unit", ["bytes", "messages"])
def test_resume_above_stop_is_refused_with_both_values(unit):
    errors = refusal({f"capacity_{unit}": 1000, f"flow_stop_{unit}": 700, f"flow_resume_{unit}": 800})
    assert set(errors) == {f"flow_resume_{unit}"}
    assert "800" in errors[f"flow_resume_{unit}"]
    assert "700" in errors[f"flow_resume_{unit}"]


def test_resume_above_stop_in_percent_is_refused_with_both_values_and_levels():
    own = {"capacity_bytes": 2000, "flow_stop_bytes": "70%", "flow_resume_bytes": "80%"}
    text = refusal(own)["flow_resume_bytes"]
    assert "80% = 1600" in text
    assert "70% = 1400" in text


@pytest.mark.parametrize("unit", ["bytes", "messages"])
def test_stop_above_capacity_is_refused_with_both_values(unit):
    errors = refusal({f"capacity_{unit}": 1000, f"flow_stop_{unit}": 1001})
    assert set(errors) == {f"flow_stop_{unit}"}
    assert "1001" in errors[f"flow_stop_{unit}"]
    assert "is 1000" in errors[f"flow_stop_{unit}"]


def test_all_contradictions_are_reported():
    errors = refusal(
        {
            "capacity_bytes": 10,
            "flow_stop_bytes": 11,
            "capacity_messages": 10,
            "flow_stop_messages": 5,
            "flow_resume_messages": 6,
        }
    )
    assert set(errors) == {"flow_stop_bytes", "flow_resume_messages"}


def test_inherited_resume_above_own_stop_is_refused_with_its_origin():
    text = refusal({"capacity_bytes": 500}, host={"flow_resume_bytes": 800})["flow_resume_bytes"]
    assert "800 (from the virtualhost's defaults)" in text
    assert "500" in text


def test_own_resume_above_inherited_stop_is_refused_with_its_origin():
    text = refusal({"flow_resume_messages": 8}, host={"flow_stop_messages": "50%"}, broker={"capacity_messages": 10})[
        "flow_resume_messages"
    ]
    assert "8" in text
    assert "50% = 5 (from the virtualhost's defaults)" in text


# -- ring ------------------------------------------------------------------------------------------------------

THRESHOLDS = ["flow_stop_bytes", "flow_stop_messages", "flow_resume_bytes", "flow_resume_messages"]


@pytest.mark.domain("1 ring")
@pytest.mark.parametrize("field", THRESHOLDS)
def test_ring_with_a_threshold_is_refused_with_both_values(field):
    own = {"overflow": "ring", "capacity_bytes": 1000, "capacity_messages": 100, field: "40%"}
    errors = refusal(own)
    assert set(errors) == {field}
    assert "ring" in errors[field]
    assert f"{field} is 40%" in errors[field]


def test_threshold_below_an_inherited_ring_is_refused():
    text = refusal({"flow_stop_bytes": 40}, host={"overflow": "ring"})["flow_stop_bytes"]
    assert "ring (from the virtualhost's defaults)" in text
    assert "40" in text


def test_ring_and_a_threshold_in_the_same_defaults_are_refused():
    assert set(refusal(broker={"overflow": "ring", "flow_stop_bytes": 40})) == {"flow_stop_bytes"}


@pytest.mark.parametrize("level", ["10%", 20, 5000])
def test_ring_drops_at_its_capacity_whatever_thresholds_it_inherits(level):
    inherited = {"flow_stop_messages": level, "flow_resume_messages": level}
    found = limits({"overflow": "ring", "capacity_messages": 1000}, host=inherited)
    assert found.ring
    assert (found.stop_messages, found.resume_messages) == (1000, 1000)


def test_ring_without_capacity_has_no_limit():
    found = limits({"overflow": "ring"})
    assert (found.ring, found.stop_bytes, found.stop_messages) == (True, UNLIMITED, UNLIMITED)


def test_own_producers_below_an_inherited_ring_may_have_thresholds():
    own = {"overflow": "producers", "capacity_messages": 10, "flow_stop_messages": 5}
    assert limits(own, host={"overflow": "ring"}) == Limits(capacity_messages=10, stop_messages=5, resume_messages=5)
