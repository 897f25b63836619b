"""Small history tables for tests of queries and pages, written without Spark in the pipeline's layout."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from console.history.storage.commits import DeltaFolder
from console.history.storage.file_systems import of_table
from console.history.storage.layout import table_url
from console.history.storage.reader import columns_of

Row = dict[str, Any]
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
_ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "VARCHAR[]": pa.list_(pa.string()),
}


def write(url: str, name: str, rows: Iterable[Mapping[str, Any]], contains: Mapping[str, int] | None = None) -> None:
    """Append rows to a table; times are ms. Missing columns are null. `contains`: versions of transaction identifiers
    that the same commit sets."""
    folder = DeltaFolder(url, name)
    folder.commit(folder.write_file(rows_of(name, rows)), versions=contains)


def rows_of(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows of a table; times are ms. Missing columns are null."""
    rows = list(rows)
    arrays: dict[str, pa.Array] = {}
    for column, kind in columns_of(name):
        values = [row.get(column) for row in rows]
        if kind == "TIMESTAMPTZ":
            values = [None if value is None else value * 1000 for value in values]
        arrays[column] = pa.array(values, _ARROW[kind])
    return pa.table(arrays)


def read(url: str, name: str) -> pa.Table:
    """Return all rows of a table, in any order, without Spark."""
    place = table_url(url, name)
    return DeltaTable(place).to_pyarrow_table(filesystem=of_table(place))


def rollup(at: int, name: str = "orders", kind: str = "queue", **more: Any) -> Row:
    """Return a row of a rollup: a minute of a recorded queue without blocks."""
    given = {
        "broker": "local",
        "virtualhost": "default",
        "kind": kind,
        "name": name,
        "queue": name if kind == "queue" else None,
        "at": at,
        "watched_ms": MINUTE,
        "known_ms": MINUTE,
        "overfull_ms": 0,
        "stopped_ms": 0,
        "episodes": 0,
        "blocks": 0,
        "blocked_ms": 0,
    }
    return given | more


def coverage(begin: int, end: int, broker: str = "local", **more: Any) -> Row:
    return {"broker": broker, "run": "r", "at": begin, "until": end, "followed": True, "source": "made", **more}


def event(at: int, kind: str, number: int, **more: Any) -> Row:
    return {
        "broker": "local",
        "run": "r",
        "number": number,
        "sequence": number,
        "at": at,
        "kind": kind,
        "virtualhost": "default",
        "source": "recorder",
        **more,
    }


def sample(at: int, messages: int, queue: str = "orders", **more: Any) -> Row:
    return {
        "broker": "local",
        "run": "r",
        "at": at,
        "virtualhost": "default",
        "queue": queue,
        "state": "NORMAL",
        "depth_messages": messages,
        "depth_bytes": messages * 512,
        "producers": 3,
        "blocked_producers": 0,
        "consumers": 2,
        "rate_in": 40.0,
        "rate_out": 38.0,
        "capacity_messages": 1000,
        "stop_messages": 1000,
        "resume_messages": 800,
        "capacity_bytes": 0,
        "stop_bytes": 0,
        "resume_bytes": 0,
        "whole": False,
        "source": "recorder",
        **more,
    }


def episode(start: int, end: int | None, queue: str = "orders", **more: Any) -> Row:
    return {
        "id": f"{queue}-{start}",
        "kind": "overfull",
        "broker": "local",
        "virtualhost": "default",
        "queue": queue,
        "start": start,
        "end": end,
        "seen": start,
        "duration_ms": None if end is None else end - start,
        "peak_messages": 1001,
        "peak_bytes": 512_512,
        "stop_messages": 1000,
        "producers": 3,
        "connections": 2,
        "blocked_ms": 0 if end is None else 3 * (end - start),
        "released_by": None if end is None else "drained",
        "settled": True,
        **more,
    }


#: The queues of the busy history, with the share of their minutes that end overfull.
QUEUES = {"orders": 0.3, "invoices.eu": 0.12, "images.resize": 0.07, "prices.audit": 0.04, "quiet": 0.0}
GAP = (50 * HOUR, 44 * HOUR)  # before the end: not recorded


def busy(url: str, now: int, days: int = 40, seed: int = 4) -> None:
    """Write a history of five queues until `now`: samples of the last three hours, minutes of three days, hours and
    days of `days`; a gap without a recorder, a change of capacity two hours ago, an operator's stop one hour ago."""
    chance = random.Random(seed)
    now -= now % MINUTE
    begin = now - days * DAY
    begin -= begin % DAY
    write(url, "coverage", [coverage(begin, now - GAP[0]), coverage(now - GAP[1], now)])
    minutes, episodes, events = _minutes(chance, now, 3 * DAY)
    write(url, "minutes", minutes)
    hours = [*_coarse(chance, begin, now - 3 * DAY, HOUR, now), *_summed(minutes, HOUR)]
    write(url, "hours", hours)
    write(url, "days", _summed(hours, DAY))
    stop = now - HOUR
    episodes.append(
        episode(
            stop,
            stop + 9 * MINUTE,
            queue=None,
            id="stop-1",
            kind="stopped",
            virtualhost=None,
            scope="virtualhost default invoices.>",
            actor="ada",
            reason="The consumers are being deployed",
            released_by="started",
            released_actor="ada",
            released_reason="Deployed",
            peak_messages=None,
            peak_bytes=None,
        )
    )
    write(url, "episodes", episodes)
    write(url, "events", sorted([*events, *_actions(now)], key=lambda row: row["at"]))
    write(url, "samples", _samples(episodes, now))


def _limit(at: int, now: int) -> int:
    return 1000 if at < now - 2 * HOUR else 2000


def _minutes(chance: random.Random, now: int, span: int) -> tuple[list[Row], list[Row], list[Row]]:
    rows: list[Row] = []
    episodes: list[Row] = []
    events: list[Row] = []
    for queue, share in QUEUES.items():
        open_until = 0
        for at in range(now - span, now, MINUTE):
            if now - GAP[0] <= at < now - GAP[1]:
                continue
            limit = _limit(at, now)
            busy_hour = 1.6 if 8 <= at // HOUR % 24 <= 17 else 0.3
            if at >= open_until and chance.random() < share * busy_hour / 4:
                length = chance.randint(20, 240) * SECOND
                start = at + chance.randint(0, 40) * SECOND
                end = start + length
                open_until = end + MINUTE
                episodes.append(episode(start, end if end < now else None, queue, peak_messages=limit + 1))
                events += _of_episode(episodes[-1], limit, len(events))
            overfull = sum(
                max(0, min(at + MINUTE, each["end"] or now) - max(at, each["start"]))
                for each in episodes[-3:]
                if each["queue"] == queue
            )
            mean = limit * (0.95 if overfull else 0.25 + 0.15 * chance.random())
            rows.append(_measured(at, queue, limit, mean, overfull=overfull, step=MINUTE))
    for at in sorted({row["at"] for row in rows}):
        for number, queue in enumerate(("orders", "orders", "invoices.eu")):
            its = next((r for r in rows if r["at"] == at and r["name"] == queue), None) if at > now - 3 * HOUR else None
            if its and its["blocked_ms"]:
                rows.append(
                    rollup(
                        at,
                        f"shop-{number} (shop@10.0.0.{number + 5}) link-{number}",
                        "producer",
                        queue=queue,
                        blocked_ms=its["blocked_ms"] // 3,
                        blocks=1,
                    )
                )
    return rows, episodes, events


def _measured(at: int, queue: str, limit: int, mean: float, *, overfull: int, step: int) -> Row:
    return rollup(
        at,
        queue,
        watched_ms=step,
        known_ms=step,
        overfull_ms=overfull,
        blocked_ms=3 * overfull,
        blocks=1 if overfull else 0,
        episodes=1 if overfull else 0,
        messages_mean=mean,
        messages_p95=mean * 1.05,
        messages_max=limit + 1 if overfull else int(mean * 1.2),
        bytes_mean=mean * 512,
        bytes_p95=mean * 540,
        bytes_max=int(mean * 640),
        messages_in=2400,
        messages_out=2380,
        rate_in=40.0,
        rate_out=39.7,
        producers_max=3,
        blocked_producers_max=3 if overfull else 0,
        capacity_messages=limit,
        stop_messages=limit,
        resume_messages=limit * 8 // 10,
        capacity_bytes=0,
        stop_bytes=0,
        resume_bytes=0,
    )


def _coarse(chance: random.Random, begin: int, end: int, step: int, now: int) -> list[Row]:
    rows = []
    for queue, share in QUEUES.items():
        for at in range(begin, end, step):
            overfull = int(step * share * chance.random()) if 8 <= at // HOUR % 24 <= 17 else 0
            rows.append(
                _measured(at, queue, _limit(at, now), 300 + 400 * chance.random(), overfull=overfull, step=step)
            )
    return rows


def _summed(rows: list[Row], step: int) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["name"], row["queue"], row["at"] - row["at"] % step), []).append(row)
    summed = []
    for (_kind, _name, _queue, at), some in groups.items():
        whole = {**some[-1], "at": at}
        for column in ("watched_ms", "known_ms", "overfull_ms", "stopped_ms", "blocked_ms", "episodes", "blocks"):
            whole[column] = sum(row[column] for row in some)
        for column in ("messages_max", "bytes_max"):
            whole[column] = max((row[column] for row in some if row.get(column) is not None), default=None)
        summed.append(whole)
    return summed


def _of_episode(its: Row, limit: int, number: int) -> list[Row]:
    queue = its["queue"]
    name = f"type=Queue,virtualhost=default,name={queue}"
    about = {"object": name, "object_type": "Queue", "queue": queue}
    subject = f"[vh(/default)/qu({queue})]"
    events = [
        event(
            its["start"],
            "queue-overfull",
            number + 1,
            **about,
            state="OVERFULL",
            depth_messages=limit + 1,
            depth_bytes=(limit + 1) * 512,
            blocked_producers=3,
            stop_messages=limit,
            text=f"{subject} QUE-1003 : Overfull : Size : {(limit + 1) * 512:,} bytes, Capacity : 0,"
            f" Messages : {limit + 1:,}, Message Capacity : {limit:,}",
        )
    ]
    for producer in range(3):
        events.append(
            event(
                its["start"],
                "producer-blocked",
                number + 2 + producer,
                object=f"type=Producer,virtualhost=default,id={producer}",
                object_type="Producer",
                queue=queue,
                client=f"shop-{producer} (shop@10.0.0.{producer + 5})",
                link=f"link-{producer}",
                reasons=[f"queue-overfull:{queue}"],
                text=f"[con:{producer}(shop@10.0.0.{producer + 5}:40000/default)/ch:1] CHN-1005 : "
                f"Flow Control Enforced (Queue {queue})",
            )
        )
    if its["end"] is not None:
        events.append(
            event(
                its["end"],
                "queue-underfull",
                number + 5,
                **about,
                state="NORMAL",
                depth_messages=limit * 8 // 10,
                depth_bytes=limit * 8 // 10 * 512,
                blocked_producers=0,
                resume_messages=limit * 8 // 10,
                lasted_ms=its["duration_ms"],
                text=f"{subject} QUE-1004 : Underfull : Size : {limit * 8 // 10 * 512:,} bytes, Resume Capacity : 0,"
                f" Messages : {limit * 8 // 10:,}, Message Capacity : {limit * 8 // 10:,}",
            )
        )
    return events


def _actions(now: int) -> list[Row]:
    vh = {"object": "type=VirtualHost,name=default", "object_type": "VirtualHost"}
    scope = {"scope": "virtualhost default invoices.>", "pattern": "invoices.>", "queues": 1, "producers": 3}
    return [
        event(
            now - 2 * HOUR,
            "policy-changed",
            900_001,
            object="type=Queue,virtualhost=default,name=orders",
            object_type="Queue",
            queue="orders",
            actor="olga",
            before='{"capacity_messages": 1000, "flow_resume_messages": null}',
            after='{"capacity_messages": 2000, "flow_resume_messages": "80%"}',
            text="[vh(/default)/qu(orders)] HGT-1003 : Policy Changed : capacity_messages 1,000 -> 2,000 by olga",
        ),
        event(
            now - HOUR,
            "producers-stopped",
            900_002,
            **vh,
            **scope,
            actor="ada",
            reason="The consumers are being deployed",
            text="[vh(/default)] HGT-1001 : Producers Stopped : virtualhost default invoices.> by ada",
        ),
        event(
            now - HOUR + 9 * MINUTE,
            "producers-started",
            900_003,
            **vh,
            **scope,
            actor="ada",
            reason="Deployed",
            text="[vh(/default)] HGT-1002 : Producers Started : virtualhost default invoices.> by ada",
        ),
        event(
            now - 30 * MINUTE,
            "connection-opened",
            900_004,
            object="type=Connection,id=4",
            object_type="Connection",
            client="<b>shop</b>-4 (shop@10.0.0.9)",
            text="[con:4(shop@10.0.0.9:40000/default)] CON-1001 : Open",
        ),
    ]


def _samples(episodes: list[Row], now: int) -> list[Row]:
    rows = []
    for queue in QUEUES:
        its = [each for each in episodes if each["queue"] == queue]
        for at in range(now - 3 * HOUR, now, 5 * SECOND):
            limit = _limit(at, now)
            overfull = any(each["start"] <= at < (each["end"] or now) for each in its)
            near = min((abs(each["start"] - at) for each in its), default=HOUR)
            depth = limit + 1 - at // SECOND % 7 if overfull else max(20, int(limit * (0.9 - near / HOUR)))
            rows.append(
                sample(
                    at,
                    depth,
                    queue,
                    state="OVERFULL" if overfull else "NORMAL",
                    blocked_producers=3 if overfull else 0,
                    capacity_messages=limit,
                    stop_messages=limit,
                    resume_messages=limit * 8 // 10,
                    whole=at % (5 * MINUTE) == 0,
                    enqueued_messages=at // SECOND * 40 + depth,
                    dequeued_messages=at // SECOND * 40,
                )
            )
    return rows
