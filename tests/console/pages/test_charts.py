"""The figure of the depth chart: numbers in, a figure that Plotly accepts out."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from console.charts.flow import depth_figure, live_rates_figure, overfull_value
from console.charts.history import heat_figure, queue_figure, rates_figure

SAMPLES = [
    {
        "at": 1_000,
        "state": "NORMAL",
        "depth_messages": 4,
        "effective_capacity_messages": 10,
        "effective_stop_messages": 10,
        "effective_resume_messages": 8,
    },
    {
        "at": 2_000,
        "state": "OVERFULL",
        "depth_messages": 11,
        "effective_capacity_messages": 10,
        "effective_stop_messages": 10,
        "effective_resume_messages": 8,
    },
    {
        "at": 3_000,
        "state": "STOPPED",
        "depth_messages": 8,
        "effective_capacity_messages": 0,
        "effective_stop_messages": 0,
        "effective_resume_messages": 0,
    },
]


def traces(figure: dict[str, Any]) -> dict[str, Any]:
    return {trace["meta"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("unit", ["messages", "bytes"])
def test_figure_without_samples_is_accepted_by_plotly(unit: Any) -> None:
    figure = depth_figure(unit)
    drawn = go.Figure(_coloured(figure))
    assert [trace.meta for trace in drawn.data] == [
        "overfull",
        f"effective_capacity_{unit}",
        f"effective_stop_{unit}",
        f"effective_resume_{unit}",
        f"depth_{unit}",
        f"past_depth_{unit}",
    ]


def test_samples_become_traces_by_their_fields() -> None:
    found = traces(depth_figure("messages", SAMPLES))
    assert found["depth_messages"]["x"] == [1_000, 2_000, 3_000]
    assert found["depth_messages"]["y"] == [4, 11, 8]
    assert found["effective_resume_messages"]["y"] == [8, 8, None]


@pytest.mark.parametrize("unit", ["messages", "bytes"])
def test_axis_of_amounts_has_no_ticks_below_one_message(unit: Any) -> None:
    sample = {"at": 1, "state": "NORMAL", f"depth_{unit}": 1}
    for figure in (depth_figure(unit, [sample]), queue_figure(unit)):
        axis = go.Figure(figure).layout.yaxis
        assert axis.autorangeoptions.include == (0, 5)
        assert axis.range is None  # it would take precedence


@pytest.mark.parametrize(
    ("figure", "axis", "title"),
    [
        (depth_figure("messages"), "yaxis", "Depth, messages"),
        (depth_figure("bytes"), "yaxis", "Depth, bytes"),
        (queue_figure("messages"), "yaxis", "Depth, messages"),
        (queue_figure("bytes"), "yaxis", "Depth, bytes"),
        (rates_figure(), "yaxis", "Messages/s"),
        (live_rates_figure(), "yaxis", "Messages/s"),
        (rates_figure(), "yaxis3", "Blocked producers"),
        (heat_figure(), "yaxis", "Queue"),
    ],
)
def test_axes_name_what_they_measure_and_its_unit(figure: dict[str, Any], axis: str, title: str) -> None:
    drawn = go.Figure(_coloured(figure))
    assert drawn.layout[axis].title.text == title
    assert drawn.layout.xaxis.title.text == "Time"


@pytest.mark.parametrize("figure", [depth_figure("messages"), queue_figure("bytes"), rates_figure()])
def test_ticks_have_no_prefix_for_thousandths(figure: dict[str, Any]) -> None:
    axis = go.Figure(_coloured(figure)).layout.yaxis
    assert (axis.tickformat, axis.exponentformat) == (None, "SI")  # Plotly uses prefixes from 10,000 on


def test_limit_of_zero_is_not_drawn() -> None:
    assert traces(depth_figure("messages", SAMPLES))["effective_capacity_messages"]["y"] == [10, 10, None]


def test_overfull_spans_are_shaded_and_stops_are_not() -> None:
    assert traces(depth_figure("messages", SAMPLES))["overfull"]["y"] == [0, 1, 0]


@pytest.mark.parametrize(
    ("state", "value"), [("NORMAL", 0), ("STOPPED", 0), ("OVERFULL", 1), ("OVERFULL_STOPPED", 1), (None, None)]
)
def test_overfull_value_of_each_state(state: str | None, value: int | None) -> None:
    assert overfull_value(state) == value


def _coloured(value: Any) -> Any:
    """Replace custom properties by a colour, so that Plotly can validate the figure."""
    if isinstance(value, str):
        return "Arial" if value == "var(--font)" else "#123456" if value.startswith("var(") else value
    if isinstance(value, list):
        return [_coloured(item) for item in value]
    if isinstance(value, dict):
        return {key: _coloured(item) for key, item in value.items()}
    return value


def test_depth_is_drawn_in_steps_and_depth_at_events_as_points() -> None:
    found = traces(depth_figure("messages", SAMPLES))
    assert found["depth_messages"]["line"]["shape"] == "hv"
    assert found["past_depth_messages"]["mode"] == "markers"
    assert traces(queue_figure("messages"))["logged_messages"]["mode"] == "markers"
