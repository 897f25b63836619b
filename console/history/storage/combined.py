"""SQL sources that combine a table with what the recorders published: the table up to T, the recorder from T on. Pure.

Each function returns a subquery with the table's columns. `stored`, `fresh`: sources of the table's rows and of the
recorders'; `since`: T by broker, ms (`landing_names.rolled_id`); a broker without one has no rows in the table.
"""

# ruff: noqa: S608 -- the texts consist of the project's own names, numbers, and quoted texts

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from console.history.storage.durations import DAY
from console.history.storage.fresh import REPLACED_BY
from console.history.storage.landing_keys import KEYS
from console.history.storage.layout import (
    LAYOUTS,
    LEVELS,
    MAXIMA,
    MEANS,
    MEASURES,
    PERCENTILES,
    RATES,
    RECORDED,
    ROLLUP_KEY,
    SUMS,
)

#: Identifies a row of a rollup among those of a time.
_KEY = tuple(name for name in ROLLUP_KEY if name != "at")


def raw(kind: str, columns: Sequence[str], stored: str, fresh: str, newest: Mapping[str, int]) -> str:
    """Return events, samples or coverage. `fresh`: rows that are not in the table, maybe twice. `newest`: for tables
    that do not state what they contain: the time of the broker's newest row, ms, up to which they are complete."""
    names = _listed(columns)
    known = "".join(
        f" AND NOT (broker = {text(broker)} AND {_ms('at')} <= {moment})" for broker, moment in newest.items()
    )
    return (
        f"(SELECT {names} FROM {stored} UNION ALL"
        f" SELECT {names} FROM (SELECT DISTINCT ON ({_listed(KEYS[kind])}) {names} FROM {fresh} WHERE true{known}))"
    )


def rollups(
    columns: Sequence[str], stored: str, fresh: str, since: Mapping[str, int], ahead: Collection[str] = ()
) -> str:
    """Return minutes or hours. `ahead`: brokers whose T is in the future, since rows with a future time were recorded
    or imported. Of these the recorder's rows count for each time of which the table has none."""
    names = _listed(columns)
    of_others = {broker: moment for broker, moment in since.items() if broker not in ahead}
    unknown = "".join(
        f' AND NOT (broker = {text(broker)} AND "at" IN (SELECT "at" FROM {stored} WHERE broker = {text(broker)}))'
        for broker in sorted(ahead)
    )
    return f"(SELECT {names} FROM {stored} UNION ALL SELECT {names} FROM {fresh} WHERE {_from(of_others)}{unknown})"


def days(columns: Sequence[str], stored: str, hours: str, since: Mapping[str, int], first: int) -> str:
    """Return days. `hours`: the recorders'; `first`: the time of the first of them, ms. A day's row is that of the
    table, up to T, combined with the hours since: sums add, maxima are the greatest, means are weighted by known time.
    The 95th percentile is the table's, without one the greatest of the hours."""
    low = first // DAY * DAY
    order = f"CASE WHEN _stored THEN -1 ELSE {_ms('at')} END"
    inner = [name for name in columns if name != "at"]
    seconds = "nullif(CASE WHEN kind = 'virtualhost' THEN sum(watched_ms) ELSE sum(known_ms) END, 0)"
    values = {name: f"sum({name})::BIGINT" for name in (*RECORDED, *SUMS)}
    values |= {name: f"max({name})" for name in MAXIMA}
    values |= {name: f"sum({name.replace('rate', 'messages')}) * 1000.0 / {seconds}" for name in RATES}
    values |= {name: f"arg_max({name}, _order) FILTER (capacity_messages IS NOT NULL)" for name in LEVELS}
    for mean, high in zip(MEANS, PERCENTILES, strict=True):
        values[mean] = (
            f"CASE WHEN count(*) = 1 THEN max({mean}) ELSE sum({mean} * known_ms) /"
            f" nullif(sum(known_ms) FILTER ({mean} IS NOT NULL), 0) END"
        )
        values[high] = f"coalesce(max({high}) FILTER (_stored), max({high}))"
    selected = ", ".join(
        '_day AS "at"' if name == "at" else _quoted(name) if name in _KEY else f"{values[name]} AS {_quoted(name)}"
        for name in columns
    )
    names = _listed(columns)
    both = (
        f'SELECT {_listed(inner)}, "at", "at" AS _day, true AS _stored FROM {stored} WHERE {_ms("at")} >= {low}'
        f' UNION ALL SELECT {_listed(inner)}, "at", date_trunc(\'day\', "at"), false FROM {hours} WHERE {_from(since)}'
    )
    return (
        f"(SELECT {names} FROM {stored} WHERE {_ms('at')} < {low} UNION ALL"
        f" SELECT {selected} FROM (SELECT *, {order} AS _order FROM ({both}))"
        f" GROUP BY {_listed(_KEY)}, _day)"
    )


def intervals(name: str, columns: Sequence[str], stored: str, fresh: str, first: int) -> str:
    """Return episodes or blocks. `first`: the first start of the recorders', ms. The recorder's row replaces the
    table's, but measures that never fall are the greater of both."""
    names = _listed(columns)
    same = " AND ".join(f"s.{_quoted(key)} IS NOT DISTINCT FROM f.{_quoted(key)}" for key in REPLACED_BY[name])
    selected = ", ".join(
        f"greatest(f.{_quoted(column)}, s.{_quoted(column)}) AS {_quoted(column)}"
        if column in MEASURES
        else f"f.{_quoted(column)}"
        for column in columns
    )
    time = LAYOUTS[name].time
    return (
        f"(SELECT {names} FROM {stored} AS s WHERE NOT EXISTS (SELECT 1 FROM {fresh} AS f WHERE {same})"
        f" UNION ALL SELECT {selected} FROM {fresh} AS f LEFT JOIN"
        f" (SELECT * FROM {stored} WHERE {_ms(time)} >= {first}) AS s ON {same})"
    )


def text(value: str) -> str:
    """Return an SQL text."""
    return "'" + value.replace("'", "''") + "'"


def _from(since: Mapping[str, int]) -> str:
    """Return the condition of rows from T on."""
    tests = [f"NOT (broker = {text(broker)} AND {_ms('at')} < {moment})" for broker, moment in since.items()]
    return " AND ".join(tests) or "true"


def _ms(column: str) -> str:
    return f"epoch_ms({_quoted(column)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return f'"{name}"'
