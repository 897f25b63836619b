"""The figure of the live queue page, as plain dicts for Plotly. Pure.

Colours are custom properties of the style sheet (`var(--…)`), which charts.js replaces by the theme's values. `meta` of
each trace is the field of a sample with its y values, so that a page can add samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Unit = Literal["messages", "bytes"]
_TITLE_FONT = {"color": "var(--muted)", "size": 11}
#: A field, its name in the legend, colour, dash and width (px).
Line = tuple[str, str, str, str, float]

#: Formats of the ticks by the longest distance between them, ms or months ("M1"), with dates as in the rest of the
#: console. Plotly shows the second line where it differs from that of the tick before.
_TICKS: tuple[tuple[int | str, str], ...] = (
    (30_000, "%H:%M:%S\n%-d %b %Y"),
    (43_200_000, "%H:%M\n%-d %b %Y"),
    (2_419_200_000, "%-d %b\n%Y"),
    ("M6", "%b\n%Y"),
)

#: The time axis, in the browser's zone, which the page names.
TIME: dict[str, Any] = {
    "type": "date",
    "tickformatstops": [{"dtickrange": [None, longest], "value": value} for longest, value in _TICKS],
    "hoverformat": "%-d %b %Y, %H:%M:%S",
    "showgrid": False,
    "title": {"text": "Time", "standoff": 6, "font": _TITLE_FONT},
}

#: Fields of a sample that a figure shows, besides `at` (ms since the epoch) and `overfull`.
LINES: tuple[Line, ...] = (
    ("effective_capacity_{unit}", "Capacity", "var(--chart-capacity)", "solid", 1.5),
    ("effective_stop_{unit}", "Stop", "var(--chart-stop)", "dash", 1.2),
    ("effective_resume_{unit}", "Resume", "var(--chart-resume)", "dot", 1.5),
)


def axis_title(text: str) -> dict[str, Any]:
    """Return the title of a vertical axis: what it measures, and the unit."""
    return {"text": text, "standoff": 6, "font": _TITLE_FONT}


def amount_axis(title: str) -> dict[str, Any]:
    """Return an axis of amounts from 0 on, at least to 5. Ticks are plain numbers, from 10,000 on with k, M or G."""
    return {
        "rangemode": "tozero",
        "fixedrange": True,
        "autorangeoptions": {"include": [0, 5]},
        "exponentformat": "SI",
        "separatethousands": True,
        "title": axis_title(title),
    }


def overfull_value(state: str | None) -> int | None:
    """Return the value of the shaded span for a queue's state: 1 overfull, 0 not, None unknown."""
    return None if state is None else int(state.startswith("OVERFULL"))


def depth_figure(unit: Unit, samples: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the figure of a queue's depth over time, with its limits, and spans in which it was overfull shaded.

    Before the page was opened, the depth is known only at events: these are points of a separate trace without a line.
    A depth is valid until the next sample, since no sample means no traffic: lines are steps.

    `samples`: maps with `at`, `state`, `depth_<unit>` and the effective limits, ascending. A limit of 0 is no limit and
    is not drawn.
    """
    rows = list(samples)
    return {
        "data": [
            _overfull_span(rows),
            *(_limit(rows, unit, line) for line in LINES),
            _depth(rows, unit),
            _depth_at_events(rows, unit),
        ],
        "layout": _layout(f"Depth, {unit}"),
    }


def live_rates_figure() -> dict[str, Any]:
    """Return the figure of a queue's messages per second, in and out, with spans in which it was overfull shaded."""
    return {
        "data": [
            _overfull_span([]),
            _rate("rate_in", "In, messages/s", "var(--chart-depth)", "solid"),
            _rate("rate_out", "Out, messages/s", "var(--chart-resume)", "dash"),
        ],
        "layout": _layout("Messages/s"),
    }


def _rate(field: str, name: str, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": field,
        "x": [],
        "y": [],
        "line": {"shape": "hv", "dash": dash, "width": 1.8, "color": colour},
        "hovertemplate": "%{y:,.1f}",
    }


def _times(rows: list[Mapping[str, Any]]) -> list[Any]:
    return [row["at"] for row in rows]


def _overfull_span(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "Overfull",
        "meta": "overfull",
        "x": _times(rows),
        "y": [overfull_value(row.get("state")) for row in rows],
        "yaxis": "y2",
        "line": {"shape": "hv", "width": 0},
        "fill": "tozeroy",
        "fillcolor": "var(--chart-overfull)",
        "hoverinfo": "skip",
    }


def _limit(rows: list[Mapping[str, Any]], unit: Unit, line: Line) -> dict[str, Any]:
    field, name, colour, dash, width = line
    key = field.format(unit=unit)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": key,
        "x": _times(rows),
        "y": [row.get(key) or None for row in rows],
        "line": {"shape": "hv", "dash": dash, "width": width, "color": colour},
        "hovertemplate": "%{y:,d}",
    }


def _depth(rows: list[Mapping[str, Any]], unit: Unit) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "Depth",
        "meta": f"depth_{unit}",
        "x": _times(rows),
        "y": [row.get(f"depth_{unit}") for row in rows],
        "line": {"shape": "hv", "width": 2, "color": "var(--chart-depth)"},
        "fill": "tozeroy",
        "fillcolor": "var(--chart-depth-fill)",
        "hovertemplate": "%{y:,d}",
    }


def _depth_at_events(rows: list[Mapping[str, Any]], unit: Unit) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "At events, before the page was opened",
        "meta": f"past_depth_{unit}",
        "x": _times(rows),
        "y": [None] * len(rows),
        "marker": {"size": 6, "color": "var(--chart-depth)"},
        "hovertemplate": "%{y:,d}",
    }


def _layout(title: str) -> dict[str, Any]:
    axis = {
        "gridcolor": "var(--chart-grid)",
        "zerolinecolor": "var(--chart-grid)",
        "linecolor": "var(--chart-grid)",
        "tickfont": {"color": "var(--muted)", "size": 11},
    }
    return {
        "margin": {"l": 64, "r": 12, "t": 8, "b": 52},
        "height": 320,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "var(--font)", "size": 12, "color": "var(--text)"},
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": "var(--surface)", "bordercolor": "var(--border)", "font": {"color": "var(--text)"}},
        "xaxis": {**axis, **TIME, "fixedrange": True},
        "yaxis": {**axis, **amount_axis(title)},
        "yaxis2": {"overlaying": "y", "side": "right", "range": [0, 1], "visible": False, "fixedrange": True},
    }
