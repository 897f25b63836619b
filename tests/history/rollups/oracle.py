"""The rows of `minutes`, `hours`, `holds` and `episodes` of one broker by brute force, from all of its landing rows.

Slow and plain on purpose: every value is found by a search through all rows.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

from console.history.storage.durations import HOUR, MINUTE, SAMPLE_VALIDITY_MS
from console.history.storage.stop_scopes import Scope
from tests.history.rollups.random_histories import RandomHistory, Row

LEVELS = ("capacity_messages", "stop_messages", "resume_messages", "capacity_bytes", "stop_bytes", "resume_bytes")
SUMS = ("known_ms", "overfull_ms", "stopped_ms", "messages_in", "messages_out", "episodes", "blocks", "blocked_ms")
OVERFULL = ("OVERFULL", "OVERFULL_STOPPED")


class Oracle:
    def __init__(self, history: RandomHistory) -> None:
        self.broker = history.broker
        spans: list[tuple[int, int]] = []
        for row in history.coverage:
            if row["followed"] and row["until"] >= row["at"]:
                if spans and row["at"] <= spans[-1][1]:
                    spans[-1] = (spans[-1][0], max(spans[-1][1], row["until"]))
                else:
                    spans.append((row["at"], row["until"]))
        self.spans = spans
        self.covered = spans[-1][1]
        self.samples = [row for row in history.samples if row["at"] < self.covered]
        self.events = [row for row in history.events if row["at"] < self.covered]
        #: Samples come before events of the same time.
        self.all = sorted([(row["at"], -1, row) for row in self.samples] + self._with_order(self.events), key=_order)
        self.holds = self._holds()
        self.overfull = self._overfull()

    @staticmethod
    def _with_order(events: list[Row]) -> list[tuple[int, int, Row]]:
        return [(row["at"], row["sequence"], row) for row in events]

    # -- time ---------------------------------------------------------------------------------------------------

    def recorded(self, begin: int, end: int | None) -> int:
        end = self.covered if end is None else end
        return sum(max(0, min(end, last) - max(begin, first)) for first, last in self.spans)

    def last_recorded(self, since: int, at: int) -> int:
        moments = [min(last, at) for first, last in self.spans if first <= at and last >= since]
        return max(moments, default=since)

    # -- intervals ----------------------------------------------------------------------------------------------

    def _holds(self) -> list[Row]:
        found: dict[Any, Row] = {}
        for at, order, row in self.all:
            if order < 0 or row["kind"] != "producer-blocked":
                continue
            ends: dict[str, tuple[int, str]] = {}
            for other_at, other_order, other in self.all:
                if (other_at, other_order) > (at, order):
                    for group in self._ends(row, other_order, other):
                        ends.setdefault(group, (other_at, other["kind"] if other_order >= 0 else "seen"))
            end = min(ends.values(), default=(None, None))
            key = (row["object"], row["virtualhost"], row["queue"], end[0])
            if key in found:
                found[key]["ended_by"] = min(found[key]["ended_by"], end[1]) if end[1] else None
                continue
            columns = ("virtualhost", "queue", "client", "link", "connection", "channel", "reasons")
            hold = {"broker": self.broker, "producer": row["object"], "start": at, "end": end[0], "ended_by": end[1]}
            found[key] = hold | {name: row.get(name) for name in columns}
        by_start: dict[Any, Row] = {}
        for hold in found.values():  # in order of their starts: the last one of a start ends last
            by_start[hold["producer"], hold["virtualhost"], hold["queue"], hold["start"]] = hold
        for hold in by_start.values():
            if hold["ended_by"] == "broker-ready":
                hold["end"] = self.last_recorded(hold["start"], hold["end"])
        return list(by_start.values())

    @staticmethod
    def _ends(block: Row, order: int, row: Row) -> list[str]:
        groups = []
        queue = (row.get("virtualhost"), row.get("queue"))
        mine = queue == (block["virtualhost"], block["queue"])
        if order < 0:
            return ["queue"] if mine and row["whole"] and row["blocked_producers"] == 0 else []
        kind = row["kind"]
        if kind == "broker-ready":
            groups.append("broker")
        if kind in ("producer-released", "producer-detached") and row["object"] == block["object"]:
            groups.append("producer")
        if kind == "connection-closed" and row["connection"] == block["connection"]:
            groups.append("connection")
        blocked = row.get("blocked_producers")
        if mine and (kind == "queue-deleted" or blocked == 0 or (kind == "queue-underfull" and blocked is None)):
            groups.append("queue")
        return groups

    def _evidence(self, queue: tuple[str, str]) -> list[tuple[int, bool | None, bool | None, str, Row]]:
        """Return (at, before, after, what, row) of a queue; the states of a restart are unknown."""
        found: list[tuple[int, bool | None, bool | None, str, Row]] = []
        for at, order, row in self.all:
            on = row.get("state") in OVERFULL
            if order >= 0 and row["kind"] == "broker-ready":
                found.append((at, None, None, "restart", row))
            elif (row.get("virtualhost"), row.get("queue")) != queue:
                continue
            elif order < 0:
                if row["whole"] and row["state"] is not None:
                    found.append((at, on, on, "seen", row))
            elif row["kind"] == "queue-overfull":
                found.append((at, False, True, "seen", row))
            elif row["kind"] == "queue-underfull":
                found.append((at, True, False, "underfull", row))
            elif row["kind"] in ("queue-deleted", "queue-created"):
                found.append((at, False, False, "deleted" if row["kind"] == "queue-deleted" else "restart", row))
            elif row.get("state") is not None:
                found.append((at, on, on, "seen", row))
        return found

    def _overfull(self) -> list[Row]:
        queues = {(row["virtualhost"], row["queue"]) for _, _, row in self.all if row.get("queue") is not None}
        return [episode for queue in sorted(queues) for episode in self._overfull_of(queue)]

    def _overfull_of(self, queue: tuple[str, str]) -> list[Row]:
        episodes: list[Row] = []
        evidence = self._evidence(queue)
        ongoing: Row | None = None
        for index, (at, _before, state, what, row) in enumerate(evidence):
            after, settled = state, True
            if state is None:  # the next evidence says what the queue was
                later = next((before for _, before, _, _, _ in evidence[index + 1 :] if before is not None), None)
                after, settled = bool(ongoing) and bool(later), later is not None
            if after and ongoing is None:
                start = row.get("overfull_since") or at
                same = next((each for each in episodes if each["start"] == start), None)
                seen = at if same is None else same["seen"]
                ongoing = {"virtualhost": queue[0], "queue": queue[1], "start": start, "seen": seen, "end": None}
                ongoing |= {"stop_messages": row.get("stop_messages"), "stop_bytes": row.get("stop_bytes")}
                ongoing |= {"released_by": None, "released_actor": None, "settled": True}
                if same is None:
                    episodes.append(ongoing)
                else:  # one episode for one start
                    levels = {name: same[name] for name in ("stop_messages", "stop_bytes")}
                    same.update(ongoing | levels)
                    ongoing = same
            elif not after and ongoing is not None:
                ongoing["end"], ongoing["settled"] = at, settled
                if what == "restart":
                    ongoing["end"] = self.last_recorded(ongoing["seen"], at)
                ongoing["released_by"], ongoing["released_actor"] = self._cause(queue, at, what, row)
                ongoing = None
        for episode in episodes:
            self._measure(episode)
        return episodes

    def _cause(self, queue: tuple[str, str], at: int, what: str, row: Row) -> tuple[str, str | None]:
        same = [event for event in self.events if event["at"] == at]
        purges = [event for event in same if event["kind"] == "queue-purged"]
        edits = [event for event in same if event["kind"] == "policy-changed"]
        if what == "deleted":
            return what, row.get("actor")
        if what != "underfull":
            return what, None
        if any((event["virtualhost"], event["queue"]) == queue for event in purges):
            return "purged", min(event["actor"] or "" for event in purges)
        if edits:
            return "policy", min(event["actor"] or "" for event in edits)
        return ("stopped" if row.get("state") == "STOPPED" else "drained"), None

    def _measure(self, episode: Row) -> None:
        start, queue = episode["start"], (episode["virtualhost"], episode["queue"])
        end = max(self.covered, start) if episode["end"] is None else episode["end"]
        for unit in ("messages", "bytes"):
            depths = [
                row[f"depth_{unit}"]
                for at, _, row in self.all
                if (row.get("virtualhost"), row.get("queue")) == queue
                and start <= at <= end
                and row.get(f"depth_{unit}") is not None
            ]
            episode[f"peak_{unit}"] = max(depths, default=None)
        mine = []
        for hold in self.holds:
            hold_end = end if hold["end"] is None else hold["end"]
            if (hold["virtualhost"], hold["queue"]) == queue and hold["start"] <= end and hold_end >= start:
                mine.append((hold, max(start, hold["start"]), min(end, hold_end)))
        episode["producers"] = len({hold["producer"] for hold, _, _ in mine})
        episode["connections"] = len({hold["connection"] for hold, _, _ in mine})
        episode["blocked_ms"] = sum(self.recorded(first, last) for _, first, last in mine)

    def episodes(self) -> list[Row]:
        empty = dict.fromkeys(("scope", "actor", "reason", "released_reason"))
        rows = []
        for episode in self.overfull:
            duration = None if episode["end"] is None else episode["end"] - episode["start"]
            row = {"broker": self.broker, "kind": "overfull", "duration_ms": duration} | empty | episode
            rows.append(row | {"id": self._id("overfull", episode["virtualhost"], episode["queue"], episode["start"])})
        return rows + self._stops()

    def _stops(self) -> list[Row]:
        found: dict[Any, Row] = {}
        for stop in self.events:
            if stop["kind"] != "producers-stopped":
                continue
            scope = stop["scope"]
            lift = next((row for row in self.events if _after(row, stop) and _lifts(row, scope)), None)
            key = (scope, None if lift is None else lift["number"])
            if key in found:
                continue
            nothing = ("peak_messages", "peak_bytes", "stop_messages", "stop_bytes", "connections", "blocked_ms")
            row = dict.fromkeys((*nothing, "virtualhost", "queue", "end", "duration_ms"))
            row |= {"released_by": None, "released_actor": None, "released_reason": None, "settled": True}
            row |= {"broker": self.broker, "kind": "stopped", "scope": scope, "start": stop["at"], "seen": stop["at"]}
            row |= {name: stop[name] for name in ("actor", "reason", "producers")}
            row["id"] = self._id("stopped", "", scope, stop["at"])
            if lift is not None:
                row |= {"end": lift["at"], "duration_ms": lift["at"] - stop["at"], "released_actor": lift["actor"]}
                row["released_by"] = "deleted" if lift["kind"] == "queue-deleted" else "started"
                row["released_reason"] = lift.get("reason")
            found[key] = row
        return list(found.values())

    def _id(self, kind: str, virtualhost: str, subject: str, start: int) -> str:
        text = f"{kind}\x1f{self.broker}\x1f{virtualhost}\x1f{subject}\x1f{start}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # -- rollups ------------------------------------------------------------------------------------------------

    def minutes(self) -> list[Row]:
        """Return the rows of all minutes, the last one as of the covered time."""
        rows = []
        keys = {(row["virtualhost"], row["queue"]) for _, _, row in self.all if row.get("queue") is not None}
        for queue in sorted(keys):
            rows += self._minutes_of(queue)
        rows += self._minutes_of_producers()
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            if row["kind"] == "queue":
                groups.setdefault((row["at"], row["virtualhost"]), []).append(row)
        for (at, host), mine in groups.items():
            total = self._row(at, ("virtualhost", host, host, None), MINUTE)
            summed = ("messages_mean", "messages_max", "bytes_mean", "bytes_max", "blocked_producers_max")
            for name in (*SUMS, *summed, "producers_max"):
                total[name] = _sum(row[name] for row in mine)
            total["messages_p95"], total["bytes_p95"] = total["messages_mean"], total["bytes_mean"]
            rows.append(total)
        return [self._rated(row) for row in rows]

    def _minutes_of(self, queue: tuple[str, str]) -> list[Row]:
        points = self._points(queue)
        intervals = [each for each in self.overfull if (each["virtualhost"], each["queue"]) == queue]
        holds = [each for each in self.holds if (each["virtualhost"], each["queue"]) == queue]
        first = min([at for at, _, _ in points] + [each["start"] for each in intervals + holds], default=self.covered)
        rows = []
        for at in range(first // MINUTE * MINUTE, self.covered, MINUTE):
            row = self._row(at, ("queue", *queue, queue[1]), MINUTE)
            known = self._values(row, points, at)
            row["overfull_ms"], row["episodes"] = self._of_intervals(intervals, at)
            row["blocked_ms"], row["blocks"] = self._of_intervals(holds, at)
            if known or any(row[name] for name in ("overfull_ms", "episodes", "blocked_ms", "blocks")):
                rows.append(row)
        return rows

    def _minutes_of_producers(self) -> list[Row]:
        groups: dict[Any, list[Row]] = {}
        for hold in self.holds:
            groups.setdefault((hold["virtualhost"], f"{hold['client']} {hold['link']}", hold["queue"]), []).append(hold)
        rows = []
        for (host, name, queue), holds in groups.items():
            first = min(hold["start"] for hold in holds)
            for at in range(first // MINUTE * MINUTE, self.covered, MINUTE):
                row = self._row(at, ("producer", host, name, queue), MINUTE)
                row["blocked_ms"], row["blocks"] = self._of_intervals(holds, at)
                if row["blocked_ms"] or row["blocks"]:
                    rows.append(row)
        return rows

    def _of_intervals(self, intervals: list[Row], at: int) -> tuple[int, int]:
        time = 0
        for each in intervals:
            end = self.covered if each["end"] is None else each["end"]
            time += self.recorded(max(each["start"], at), max(each["start"], at, min(end, at + MINUTE)))
        return time, sum(1 for each in intervals if at <= each["start"] < at + MINUTE)

    def _points(self, queue: tuple[str, str]) -> list[tuple[int, int, Row]]:
        found = []
        for at, order, row in self.all:
            if (row.get("virtualhost"), row.get("queue")) != queue:
                continue
            if order < 0:
                found.append((at, order, row))
            elif row.get("depth_messages") is not None or row.get("depth_bytes") is not None:
                point = {name: row.get(name) for name in ("state", "depth_messages", "depth_bytes")}
                if row["kind"] == "queue-deleted":
                    point = dict.fromkeys(point)
                found.append((at, order, point | {"blocked_producers": row.get("blocked_producers")}))
        return found

    def _values(self, row: Row, points: list[tuple[int, int, Row]], minute: int) -> bool:
        """Set the values of a minute; return whether there are any."""
        segments: list[tuple[int, int, Row]] = []  # ms, start, values
        for index, (at, _, point) in enumerate(points):
            span = next(((first, last) for first, last in self.spans if first <= at <= last), None)
            following = points[index + 1][0] if index + 1 < len(points) else self.covered
            end = at if span is None else min(at + SAMPLE_VALIDITY_MS, span[1], following)
            begin, end = max(at, minute), min(end, minute + MINUTE)
            if end > begin or minute <= at < minute + MINUTE:
                segments.append((max(0, end - begin), begin, point))
            if minute <= at < minute + MINUTE and span is not None:
                self._grow(row, points[:index], at, span, point)
        has_depth = [s for s in segments if s[2]["depth_messages"] is not None or s[2]["depth_bytes"] is not None]
        row["known_ms"] = sum(length for length, _, _ in has_depth)
        if has_depth:
            stopped = ("STOPPED", "OVERFULL_STOPPED")
            row["stopped_ms"] = sum(length for length, _, point in segments if point["state"] in stopped)
        for unit in ("messages", "bytes"):
            depths = [(p[f"depth_{unit}"], length) for length, _, p in segments if p[f"depth_{unit}"] is not None]
            row[f"{unit}_max"] = max((depth for depth, _ in depths), default=None)
            row[f"{unit}_mean"], row[f"{unit}_p95"] = _mean_and_p95(depths)
        for name in ("blocked_producers", "producers"):
            values = [point[name] for _, _, point in segments if point.get(name) is not None]
            row[f"{name}_max"] = max(values, default=None)
        for _, _, point in segments:
            if point.get("capacity_messages") is not None or ("whole" in point and point["stop_messages"] is not None):
                row.update({name: point[name] for name in LEVELS})
        return bool(segments)

    @staticmethod
    def _grow(row: Row, before: list[tuple[int, int, Row]], at: int, span: tuple[int, int], point: Row) -> None:
        counted = [(when, each) for when, _, each in before if each.get("enqueued_messages") is not None]
        if not counted or counted[-1][0] < max(span[0], at - SAMPLE_VALIDITY_MS):
            return
        for name, column in (("messages_in", "enqueued_messages"), ("messages_out", "dequeued_messages")):
            now, then = point.get(column), counted[-1][1].get(column)
            if now is not None:
                row[name] = (row[name] or 0) + (now - then if then is not None and now >= then else now)

    def hours(self) -> list[Row]:
        groups: dict[Any, list[Row]] = {}
        for row in self.minutes():
            key = (row["kind"], row["virtualhost"], row["name"], row["queue"])
            groups.setdefault((row["at"] // HOUR * HOUR, key), []).append(row)
        rows = []
        for (at, key), mine in groups.items():
            row = self._row(at, key, HOUR)
            row.update({name: _sum(each[name] for each in mine) for name in SUMS})
            for unit in ("messages", "bytes"):
                means = [(m[f"{unit}_mean"], m["known_ms"]) for m in mine if m[f"{unit}_mean"] is not None]
                row[f"{unit}_mean"], row[f"{unit}_p95"] = _mean_and_p95(means)
            for name in ("messages_max", "bytes_max", "blocked_producers_max", "producers_max"):
                row[name] = max((each[name] for each in mine if each[name] is not None), default=None)
            for each in sorted(mine, key=lambda minute: minute["at"]):
                if each["capacity_messages"] is not None:
                    row.update({name: each[name] for name in LEVELS})
            rows.append(self._rated(row))
        return rows

    def _row(self, at: int, key: tuple[Any, ...], step: int) -> Row:
        names = ("stopped_ms", "messages_in", "messages_out", "messages_mean", "messages_p95", "messages_max")
        names += ("bytes_mean", "bytes_p95", "bytes_max", "rate_in", "rate_out")
        names += ("blocked_producers_max", "producers_max", *LEVELS)
        row: Row = dict.fromkeys(names)
        row |= dict.fromkeys(("known_ms", "overfull_ms", "episodes", "blocks", "blocked_ms"), 0)
        row |= dict(zip(("kind", "virtualhost", "name", "queue"), key, strict=True))
        return row | {"broker": self.broker, "at": at, "watched_ms": self.recorded(at, at + step)}

    @staticmethod
    def _rated(row: Row) -> Row:
        ms = row["watched_ms" if row["kind"] == "virtualhost" else "known_ms"]
        for way in ("in", "out"):
            if ms and row[f"messages_{way}"] is not None:
                row[f"rate_{way}"] = row[f"messages_{way}"] * 1000 / ms
        return row


def _order(each: tuple[int, int, Row]) -> tuple[int, int]:
    return each[:2]


def _after(row: Row, other: Row) -> bool:
    return (row["at"], row["sequence"]) > (other["at"], other["sequence"])


def _lifts(row: Row, scope: str) -> bool:
    if row["kind"] == "queue-deleted":
        host = '"a b"' if row["virtualhost"] == "a b" else row["virtualhost"]
        return scope == f"queue {host}/{row['queue']}"
    if row["kind"] != "producers-started":
        return False
    outer, inner = Scope.parse(row["scope"]), Scope.parse(scope)
    return row["scope"] == scope or bool(outer and inner and outer.contains(inner))


def _sum(values: Any) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean_and_p95(weighted: list[tuple[float, int]]) -> tuple[float | None, float | None]:
    """Return them of values, each as often as its weight; the percentile is interpolated between two ranks."""
    ordered = sorted((value, weight) for value, weight in weighted if weight)
    count = sum(weight for _, weight in ordered)
    if not count:
        return None, None
    ends = list(itertools.accumulate(weight for _, weight in ordered))

    def ranked(rank: int) -> float:
        return next(value for (value, _), end in zip(ordered, ends, strict=True) if rank < end)

    rank = (count - 1) * 0.95
    below, above = ranked(int(rank)), ranked(int(rank) + (rank > int(rank)))
    share = rank - int(rank)
    return sum(value * weight for value, weight in ordered) / count, below + (above - below) * share
