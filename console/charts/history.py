"""Figures of the history as plain dicts for Plotly, without data, which the pages' scripts add from the API.

Pure, with the conventions of `flow.py`: colours are custom properties, and `meta` names the values of a trace. Spans
differ by colour, pattern and legend text; time without a recording is hatched.
"""

from __future__ import annotations

from typing import Any, Literal

from console.charts.flow import TIME, amount_axis, axis_title

Unit = Literal["messages", "bytes"]

_AXIS = {
    "gridcolor": "var(--chart-grid)",
    "zerolinecolor": "var(--chart-grid)",
    "linecolor": "var(--chart-grid)",
    "tickfont": {"color": "var(--muted)", "size": 11},
}
_LAYOUT: dict[str, Any] = {
    # The right margin has room for the second axis of one of two charts, so that their time axes are aligned.
    "margin": {"l": 64, "r": 52, "t": 8, "b": 56},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "var(--font)", "size": 12, "color": "var(--text)"},
    "showlegend": True,
    "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"},
    "hovermode": "x unified",
    "hoverlabel": {
        "bgcolor": "var(--surface)",
        "bordercolor": "var(--border)",
        "font": {"color": "var(--text)"},
        "namelength": -1,
    },
    "dragmode": "zoom",
    "bargap": 0,
    "barmode": "overlay",
}

#: meta, name, colour of the ground, colour and shape of the pattern
SPANS = (
    ("unwatched", "No data", "var(--chart-nodata)", "var(--chart-nodata-line)", "x"),
    ("overfull", "Overfull", "var(--chart-overfull)", "var(--chart-overfull-line)", "/"),
    ("stopped", "Stopped by an operator", "var(--chart-stopped)", "var(--chart-stopped-line)", "\\"),
)
#: meta, name, colour, dash, width
_LEVELS = (
    ("capacity", "Capacity", "var(--chart-capacity)", "solid", 1.5),
    ("stop", "Stop", "var(--chart-stop)", "dash", 1.2),
    ("resume", "Resume", "var(--chart-resume)", "dot", 1.5),
)


def queue_figure(unit: Unit) -> dict[str, Any]:
    """Return the figure of a queue's depth and limits, with shaded spans and marks of operators' actions. Below (axis
    `y3`): the share of each step that the queue was overfull or stopped, for ranges from rollups."""
    return {
        "data": [*(_span(*span) for span in SPANS), *_depth_traces(unit), *_level_traces(unit), *_mark_traces()],
        "layout": _queue_layout(unit),
    }


def _depth_traces(unit: Unit) -> list[dict[str, Any]]:
    return [
        _line(f"{unit}_p95", "p95", "var(--chart-depth)", width=1, dash="dash", visible="legendonly"),
        _line(unit, "Depth", "var(--chart-depth)", width=2, fill="tozeroy", fillcolor="var(--chart-depth-fill)"),
        _line(
            f"{unit}_max",
            "Max",
            "var(--chart-depth-fill)",
            width=1,
            fill="tonexty",
            fillcolor="var(--chart-depth-fill)",
        ),
        {
            # The depth between two log entries is unknown, so no line connects them.
            **_line(f"logged_{unit}", "Depth from log entries", "var(--chart-depth)", width=1, dash="dot"),
            "mode": "markers",
            "marker": {"size": 5, "color": "var(--chart-depth)"},
        },
    ]


def _level_traces(unit: Unit) -> list[dict[str, Any]]:
    return [
        _line(f"{level}_{unit}", name, colour, width=width, dash=dash) for level, name, colour, dash, width in _LEVELS
    ]


def _mark_traces() -> list[dict[str, Any]]:
    """Return the traces of operators' actions and of the shares below."""
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "",
            "meta": "mark-lines",
            "yaxis": "y2",
            "line": {"color": "var(--chart-mark)", "width": 1, "dash": "dot"},
            "hoverinfo": "skip",
            "showlegend": False,
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "Edits and actions",
            "meta": "marks",
            "yaxis": "y2",
            "marker": {
                "size": 12,
                "color": "var(--chart-mark)",
                "line": {"width": 1.5, "color": "var(--surface)"},
            },
            "hovertemplate": "%{text}<extra></extra>",
        },
        _share("overfull_ms", "Overfull, share of the time", SPANS[1]),
        _share("stopped_ms", "Stopped, share of the time", SPANS[2]),
    ]


def _queue_layout(unit: Unit) -> dict[str, Any]:
    return {
        **_LAYOUT,
        "height": 400,
        "annotations": [
            {
                "text": "Share of the time overfull or stopped",
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": 0.155,
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 11, "color": "var(--muted)"},
            }
        ],
        "xaxis": {**_AXIS, **TIME, "anchor": "y3"},
        "yaxis": {**_AXIS, **amount_axis(f"Depth, {unit}"), "domain": [0.24, 1]},
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        "yaxis3": {
            **_AXIS,
            "domain": [0, 0.15],
            "range": [0, 1],
            "tickformat": ".0%",
            "tickvals": [0, 1],
            "fixedrange": True,
        },
    }


def rates_figure() -> dict[str, Any]:
    """Return the figure of messages per second in and out, and of the number of blocked producers."""
    traces = [
        _span(*SPANS[0]),
        _line("rate_in", "In, messages/s", "var(--chart-depth)", width=1.5),
        _line("rate_out", "Out, messages/s", "var(--chart-resume)", width=1.5, dash="dash"),
        {**_line("blocked_producers", "Blocked producers", "var(--chart-stop)", width=1.2), "yaxis": "y3"},
    ]
    layout = {
        **_LAYOUT,
        "height": 220,
        "xaxis": {**_AXIS, **TIME},
        "yaxis": {**_AXIS, **amount_axis("Messages/s")},
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        "yaxis3": {
            **_AXIS,
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "fixedrange": True,
            "showgrid": False,
            "tick0": 0,
            "tickformat": ",d",
            "title": axis_title("Blocked producers"),
        },
    }
    return {"data": traces, "layout": layout}


#: Colour and dash of each compared queue, so that colour is not the only sign.
_COMPARED = tuple((f"var(--chart-{n})", dash) for n, dash in enumerate(("solid", "dash", "dot", "dashdot") * 2, 1))


def compare_figure() -> dict[str, Any]:
    """Return the figure of one measure of up to eight queues; `meta` of their lines is `queue-0` to `queue-7`."""
    lines = [
        _line(f"queue-{n}", "", colour, width=1.8 if n < 4 else 2.6, dash=dash)
        for n, (colour, dash) in enumerate(_COMPARED)
    ]
    layout = {
        **_LAYOUT,
        "margin": {**_LAYOUT["margin"], "r": 14},
        "height": 420,
        "showlegend": False,
        "xaxis": {**_AXIS, **TIME},
        "yaxis": {**_AXIS, **amount_axis("")},
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    }
    return {"data": [_span(*SPANS[0]), *lines], "layout": layout}


def heat_figure() -> dict[str, Any]:
    """Return the heat map of blocked time by queue and time slot, with time without a recording hatched above it."""
    traces = [
        {
            "type": "heatmap",
            "meta": "heat",
            "name": "",
            "xgap": 1,
            "ygap": 1,
            "zmin": 0,
            "hoverongaps": False,
            "hovertemplate": "%{text}<extra></extra>",
            "colorscale": [
                [0, "var(--heat-0)"],
                [0.001, "var(--heat-1)"],
                [0.5, "var(--heat-2)"],
                [1, "var(--heat-3)"],
            ],
            "colorbar": {
                "thickness": 10,
                "len": 1,
                "outlinewidth": 0,
                "tickfont": {"color": "var(--muted)", "size": 11},
                "title": {"side": "right", "font": {"color": "var(--muted)", "size": 11}},
            },
        },
        {**_span(*SPANS[0]), "yaxis": "y"},
    ]
    layout = {
        **_LAYOUT,
        "hovermode": "closest",
        "margin": {"l": 166, "r": 10, "t": 6, "b": 56},
        "xaxis": {**_AXIS, **TIME},
        "yaxis": {
            **_AXIS,
            "title": axis_title("Queue"),
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
        },
    }
    return {"data": traces, "layout": layout}


def _line(meta: str, name: str, colour: str, *, width: float, dash: str = "solid", **more: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": meta,
        "line": {"color": colour, "width": width, "dash": dash, "shape": "hv"},
        "connectgaps": False,
        "hovertemplate": "%{y:,}",
        **more,
    }


def _span(meta: str, name: str, ground: str, line: str, shape: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "meta": meta,
        "yaxis": "y2",
        "marker": {
            "color": ground,
            "line": {"width": 0},
            "pattern": {"shape": shape, "fgcolor": line, "bgcolor": ground, "size": 7, "solidity": 0.2},
        },
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }


def _share(meta: str, name: str, span: tuple[str, str, str, str, str]) -> dict[str, Any]:
    _meta, _name, ground, line, shape = span
    return {
        "type": "bar",
        "name": name,
        "meta": f"share-{meta}",
        "yaxis": "y3",
        "showlegend": False,
        "marker": {
            "color": line,
            "line": {"width": 0},
            "pattern": {"shape": shape, "fgcolor": ground, "bgcolor": line, "size": 5, "solidity": 0.3},
        },
        "hovertemplate": "%{y:.1%}",
    }
