"""Broker-J's operational log as a stream of events, with the broker's own times. Pure.

A memory logger has the newest lines with ids that rise by one, and begin again with the broker. Lines on queues carry
their depth and levels; lines on flow control carry the session, whose producers are looked up. A stop of Headgate is a
limit of 0: what the log says about that limit is not an event of the queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers.adapters.broker_j_reading import Clients, Session, blocked_by, unblocked
from brokers.adapters.observation import Reported
from brokers.model import ObjectName, object_name

Json = Mapping[str, Any]

#: The kinds of events that the log reports.
KINDS = frozenset({"queue-overfull", "queue-underfull", "producer-blocked", "producer-released"})

#: Loggers of the lines that are read, as an inclusion rule must let them through.
_LOGGERS = ("qpid.message.queue.overfull", "qpid.message.channel.flow_enforced")
_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO")

_QUEUE = re.compile(r"\[vh\(/(?P<host>[^)]*)\)/qu\((?P<queue>.*)\)\] (?P<code>QUE-100[34]) : (?P<words>.*)$", re.DOTALL)
_CHANNEL = re.compile(
    r"\[con:(?P<connection>\d+)\([^\]]*\)/ch:(?P<channel>\d+)\] (?P<code>CHN-100[56]) : (?P<words>.*)$"
)
_NUMBERS = re.compile(
    r"Size : (?P<size>.+?) bytes, (?:Resume )?Capacity : (?P<capacity>.+?), Messages : (?P<messages>.+?),"
    r" Message Capacity : (?P<limit>.+?)$"
)
_CAUSE = re.compile(r"\(Queue (?P<queue>.*)\)$")


def lets_through(rules: Iterable[Json]) -> bool:
    """Return whether a logger with these inclusion rules has all lines that are read."""
    wide = [str(rule.get("loggerName") or "") for rule in rules if str(rule.get("level")).upper() in _LEVELS]
    return all(any(_covers(rule, logger) for rule in wide) for logger in _LOGGERS)


def _covers(rule: str, logger: str) -> bool:
    if rule in ("", "ROOT"):
        return True
    return logger.startswith(rule[:-1]) if rule.endswith("*") else logger == rule


@dataclass(frozen=True, slots=True)
class Position:
    """The last line that was read; the empty log's has id 0."""

    id: int = 0
    at: int = 0

    @property
    def ask_after(self) -> int:
        """The id after which to request lines: the last one is read a second time, to recognize another run's."""
        return max(0, self.id - 1)


class RestartedLog(Exception):
    """The ids have begun again: the broker was restarted."""


def newer(answer: Sequence[Json], position: Position) -> tuple[list[Json], int]:
    """Return the lines after a position, and how many were lost because the logger has a place for so few. Raises
    RestartedLog."""
    lines = sorted(answer, key=lambda line: int(line["id"]))
    if position.id == 0:
        return lines, max(0, lines[0]["id"] - 1) if lines else 0
    if not lines:
        raise RestartedLog
    if lines[0]["id"] == position.id:
        if lines[0]["timestamp"] != position.at:
            raise RestartedLog
        return lines[1:], 0
    return lines, lines[0]["id"] - position.id - 1


def end_of(lines: Sequence[Json], position: Position) -> Position:
    """Return the position after these lines."""
    if not lines:
        return position
    last = max(lines, key=lambda line: int(line["id"]))
    return Position(last["id"], last["timestamp"])


@dataclass(slots=True)
class LogReading:
    """Turns lines into events. Remembers since when queues are overfull and producers blocked, for how long that
    lasted, and which queues a stop of Headgate makes overfull."""

    _since: dict[ObjectName, int] = field(default_factory=dict)
    _by_stop: set[ObjectName] = field(default_factory=set)

    def needs(self, lines: Iterable[Json], clients: Clients) -> bool:
        """Return whether a line names a session that is not among the clients."""
        return any(
            clients.session(int(found["connection"]), int(found["channel"])) is None
            for line in lines
            if (found := _CHANNEL.search(line["message"]))
        )

    def events(self, lines: Iterable[Json], clients: Clients) -> list[Reported]:
        found: list[Reported] = []
        for line in lines:
            if queue := _QUEUE.search(line["message"]):
                found += self._queue(line["timestamp"], queue)
            elif channel := _CHANNEL.search(line["message"]):
                session = clients.session(int(channel["connection"]), int(channel["channel"]))
                if session is not None:
                    found += self._session(line["timestamp"], channel, session, clients)
        return found

    def _queue(self, at: int, line: re.Match[str]) -> list[Reported]:
        name = object_name("Queue", virtualhost=line["host"], name=line["queue"])
        numbers = _NUMBERS.search(line["words"])
        if numbers is None:
            return []
        observed: dict[str, Any] = {
            "depth_messages": _number(numbers["messages"]),
            "depth_bytes": _number(numbers["size"]),
        }
        if line["code"] == "QUE-1003":
            if _number(numbers["limit"]) == 0:
                self._by_stop.add(name)
                return []
            self._since[name] = at
            state = {**observed, "state": "OVERFULL"}
            return [Reported(at, "queue-overfull", name, line["words"], state, {**observed, "overfull": True})]
        if name in self._by_stop:
            self._by_stop.discard(name)
            return []
        lasted = at - self._since.pop(name, at)
        state = {**observed, "state": "NORMAL", "overfull_ms": lasted}
        return [Reported(at, "queue-underfull", name, line["words"], state, {**observed, "overfull": False})]

    def _session(self, at: int, line: re.Match[str], session: Session, clients: Clients) -> list[Reported]:
        blocks = line["code"] == "CHN-1005"
        cause = _CAUSE.search(line["words"])
        producers = session.producers
        if blocks and cause:
            wanted = [p for p in producers if _is_at(clients, p, cause["queue"])]
            producers = tuple(wanted) or producers
        found = []
        for producer in producers:
            if blocks == (producer in self._since):
                continue  # another line of its session has said so
            known = clients.objects[producer]
            facts: dict[str, Any] = {"client": known["client"], "link": known["link"]}
            if blocks:
                self._since[producer] = at
                observed = blocked_by(_queue_of(producer, cause))
                facts["reasons"] = observed["reasons"]
                found.append(Reported(at, "producer-blocked", producer, line["words"], facts, observed))
            else:
                facts["blocked_ms"] = at - self._since.pop(producer)
                found.append(Reported(at, "producer-released", producer, line["words"], facts, unblocked()))
        return found

    def observed(self, blocked: Iterable[ObjectName], at: int) -> None:
        """Take over producers that were blocked before the log was followed. `at`: ms since the epoch."""
        for name in blocked:
            self._since.setdefault(name, at)


def _is_at(clients: Clients, producer: ObjectName, queue: str) -> bool:
    known = clients.objects[producer]["queue"]
    return known is not None and ObjectName.parse(known)["name"] == queue


def _queue_of(producer: ObjectName, cause: re.Match[str] | None) -> str | None:
    if cause is None or cause["queue"].startswith("**"):  # all queues: the store of the virtual host
        return None
    return str(object_name("Queue", virtualhost=producer["virtualhost"], name=cause["queue"]))


def _number(text: str) -> int:
    """Return a number with the separators of any locale; a negative one is no limit, -1."""
    digits = re.sub(r"\D", "", text)
    return -1 if text.lstrip().startswith(("-", "\N{MINUS SIGN}")) or not digits else int(digits)
