"""Overfull episodes of one broker's queues, from events and samples in order: rows of the table `episodes`. Pure.

An event, or a sample of all queues, is evidence of a queue's state at its time. An episode is a maximal sequence of
evidence of the overfull state. A restart of the broker is no evidence of a state: the next evidence decides whether the
episode went on. Until then, and if it did not, the episode ends with the last recorded moment before the restart.
`pipeline/episodes.py` computes the same from stored rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from console.history.rollups.blocks import RESTART, Block, Bounds, Queue
from console.history.rollups.recorded_time import RecordedTime

_OVERFULL = ("OVERFULL", "OVERFULL_STOPPED")
#: Kinds of events that are evidence without a state: was the queue overfull before, and is it after; what it shows.
_EVIDENCE = {
    "queue-overfull": (False, True, "seen"),
    "queue-underfull": (True, False, "underfull"),
    "queue-deleted": (False, False, "deleted"),
    "queue-created": (False, False, "restart"),
}


@dataclass(slots=True)
class Episode:
    """One episode; times in ms. `found_at`: time of the evidence that ended it. `unsettled_…`: the peaks after the end
    of one that is not settled."""

    virtualhost: str | None
    queue: str
    start: int
    seen: int
    stop_messages: int | None
    stop_bytes: int | None
    end: int | None = None
    found_at: int | None = None
    what: str | None = None
    end_state: str | None = None
    end_actor: str | None = None
    released_by: str | None = None
    released_actor: str | None = None
    settled: bool = True
    peak_messages: int | None = None
    peak_bytes: int | None = None
    unsettled_messages: int | None = None
    unsettled_bytes: int | None = None

    def measure(self, at: int, messages: int | None, size: int | None) -> None:
        """Take a depth of the queue at `at`."""
        if at < self.start:
            return
        if self.end is None or at <= self.end:
            self.peak_messages = _greater(self.peak_messages, messages)
            self.peak_bytes = _greater(self.peak_bytes, size)
        elif not self.settled:
            self.unsettled_messages = _greater(self.unsettled_messages, messages)
            self.unsettled_bytes = _greater(self.unsettled_bytes, size)

    def state(self) -> list[Any]:
        """Return the arguments of an equal one, for JSON."""
        return [getattr(self, each.name) for each in fields(self)]

    def row(self, broker: str, blocks: list[Block], recorded: RecordedTime) -> dict[str, Any]:
        """Return the row. `blocks`: by the queue; `recorded`: what counts of an ongoing one's time."""
        upto = self.end if self.end is not None else max(recorded.covered or 0, self.start)
        mine = [block for block in blocks if block.start <= upto and (block.end is None or block.end >= self.start)]
        blocked = 0
        for block in mine:
            end = upto if block.end is None else min(block.end, upto)
            blocked += recorded.between(max(block.start, self.start), end)
        return {
            "id": episode_id("overfull", broker, self.virtualhost, self.queue, self.start),
            "kind": "overfull",
            "broker": broker,
            "virtualhost": self.virtualhost,
            "queue": self.queue,
            "scope": None,
            "start": self.start,
            "end": self.end,
            "seen": self.seen,
            "duration_ms": None if self.end is None else self.end - self.start,
            "peak_messages": self.peak_messages,
            "peak_bytes": self.peak_bytes,
            "stop_messages": self.stop_messages,
            "stop_bytes": self.stop_bytes,
            "producers": len({block.producer for block in mine}),
            "connections": len({_connection(block) for block in mine}),
            "blocked_ms": blocked,
            "actor": None,
            "reason": None,
            "released_by": self.released_by,
            "released_actor": self.released_actor,
            "released_reason": None,
            "settled": self.settled,
        }


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Evidence of a queue's state at `at`: overfull before (`was`) and after (`on`). `start`: since when it has been
    overfull; `levels`: stop level in messages, bytes."""

    queue: Queue
    at: int
    was: bool
    on: bool
    what: str
    state: str | None
    actor: str | None
    start: int
    levels: tuple[int | None, int | None]


@dataclass(slots=True)
class _Causes:
    """Policy changes and purges at one time, whose effects on queues have exactly this time."""

    edited_by: str | None = None
    purged_by: str | None = None
    purged: set[Queue] = field(default_factory=set)


class Episodes:
    """The ongoing episodes and the last closed ones, by queue. `changed`: episodes with changed bounds, by identity,
    each with its former bounds, or None for a new one; the owner clears it."""

    def __init__(self, recorded: RecordedTime) -> None:
        self._recorded = recorded
        self.of_queue: dict[Queue, list[Episode]] = {}
        self.changed: dict[int, tuple[Episode, Bounds | None]] = {}
        self._open: dict[Queue, Episode] = {}
        self._unsettled: dict[Queue, Episode] = {}
        self._evidence_at: dict[Queue, int] = {}
        self._ended: list[Episode] = []  # without their cause
        self._causes: dict[int, _Causes] = {}

    def __iter__(self) -> Iterator[Episode]:
        for episodes in self.of_queue.values():
            yield from episodes

    def take_event(self, row: Mapping[str, Any]) -> None:
        """Take an event. Events and samples are in order of time, samples first, and sequence."""
        kind, at, get = row["kind"], row["at"], row.get
        queue = (get("virtualhost"), get("queue"))
        if kind == RESTART:
            self._restart(at)
        elif kind in ("policy-changed", "queue-purged"):
            self._cause(kind, at, queue, get("actor") or "")
        if queue[1] is not None and (kind in _EVIDENCE or get("state") is not None):
            on = get("state") in _OVERFULL
            was, now, what = _EVIDENCE.get(kind, (on, on, "seen"))
            levels = (get("stop_messages"), get("stop_bytes"))
            self._evidence(_Evidence(queue, at, was, now, what, get("state"), get("actor"), at, levels))

    def take_whole(self, row: Mapping[str, Any]) -> None:
        """Take a sample of all queues."""
        state, at = row["state"], row["at"]
        if state is None:
            return
        on = state in _OVERFULL
        queue = (row["virtualhost"], row["queue"])
        if not on and queue not in self._open and queue not in self._unsettled:
            self._evidence_at[queue] = max(at, self._evidence_at.get(queue, at))
        else:
            since = row["overfull_since"]
            levels = (row["stop_messages"], row["stop_bytes"])
            start = at if since is None else since
            self._evidence(_Evidence(queue, at, on, on, "seen", state, None, start, levels))

    def end_batch(self) -> None:
        """Find the causes of the ends in the batch: all rows up to the time of the last one have been taken."""
        for episode in self._ended:
            causes = self._causes.get(episode.end or 0, _Causes())
            queue = (episode.virtualhost, episode.queue)
            actor = None
            if episode.what != "underfull":
                released = episode.what
                if released == "deleted":
                    actor = episode.end_actor
            elif queue in causes.purged:
                released, actor = "purged", causes.purged_by
            elif causes.edited_by is not None:
                released, actor = "policy", causes.edited_by
            elif episode.end_state == "STOPPED":
                released = "stopped"
            else:
                released = "drained"
            if episode.end is not None:
                episode.released_by, episode.released_actor = released, actor
        self._ended.clear()
        self._causes.clear()

    def add(self, episode: Episode) -> None:
        """Add an episode: a new one, or one of a snapshot."""
        queue = (episode.virtualhost, episode.queue)
        self.of_queue.setdefault(queue, []).append(episode)
        if episode.end is None:
            self._open[queue] = episode
        elif not episode.settled:
            self._unsettled[queue] = episode

    def forget(self, before: int) -> None:
        """Forget settled episodes that ended before that time."""
        self._evidence_at = {queue: at for queue, at in self._evidence_at.items() if at >= before}
        for queue, episodes in list(self.of_queue.items()):
            remaining = [each for each in episodes if each.end is None or not each.settled or each.end >= before]
            if remaining:
                self.of_queue[queue] = remaining
            else:
                del self.of_queue[queue]

    def _restart(self, at: int) -> None:
        for queue, episode in list(self._open.items()):
            if self._evidence_at.get(queue, at) > at:
                continue
            del self._open[queue]
            self._unsettled[queue] = episode
            self._close(episode, at, "restart", None, None)
            episode.settled = False

    def _cause(self, kind: str, at: int, queue: Queue, actor: str) -> None:
        causes = self._causes.setdefault(at, _Causes())
        if kind == "policy-changed":
            causes.edited_by = _first(causes.edited_by, actor)
        else:
            causes.purged_by = _first(causes.purged_by, actor)
            causes.purged.add(queue)

    def _evidence(self, evidence: _Evidence) -> None:
        queue = evidence.queue
        if evidence.at < self._evidence_at.get(queue, evidence.at):
            return  # late: what it says is over
        self._evidence_at[queue] = evidence.at
        unsettled = self._unsettled.pop(queue, None)
        if unsettled is not None:
            unsettled.settled = True
            if evidence.was:
                self._reopen(queue, unsettled)
        episode = self._open.get(queue)
        if evidence.on and episode is None:
            self._begin(queue, evidence)
        elif not evidence.on and episode is not None:
            del self._open[queue]
            self._close(episode, evidence.at, evidence.what, evidence.state, evidence.actor)

    def _begin(self, queue: Queue, evidence: _Evidence) -> None:
        for earlier in self.of_queue.get(queue, ()):
            if earlier.start == evidence.start:  # a queue has one episode with that start, and with its id
                self._reopen(queue, earlier)
                return
        episode = Episode(queue[0], queue[1] or "", evidence.start, evidence.at, *evidence.levels)
        self.add(episode)
        self.changed[id(episode)] = (episode, None)

    def _close(self, episode: Episode, at: int, what: str, state: str | None, actor: str | None) -> None:
        self.changed.setdefault(id(episode), (episode, (episode.start, episode.end)))
        episode.end = episode.found_at = at
        if what == "restart":
            episode.end = self._recorded.last_until(at, episode.seen)
        episode.what, episode.end_state, episode.end_actor = what, state, actor
        self._ended.append(episode)

    def _reopen(self, queue: Queue, episode: Episode) -> None:
        self.changed.setdefault(id(episode), (episode, (episode.start, episode.end)))
        self._open[queue] = episode
        episode.end = episode.found_at = episode.what = None
        episode.released_by = episode.released_actor = None
        episode.peak_messages = _greater(episode.peak_messages, episode.unsettled_messages)
        episode.peak_bytes = _greater(episode.peak_bytes, episode.unsettled_bytes)
        episode.unsettled_messages = episode.unsettled_bytes = None


def episode_id(kind: str, broker: str, virtualhost: str | None, subject: str, start: int) -> str:
    """Return the id of an episode, which is part of addresses."""
    parts = "\x1f".join((kind, broker, virtualhost or "", subject, str(start)))
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _connection(block: Block) -> str:
    if block.connection is not None:
        return block.connection
    return block.producer if block.client is None else block.client


def _first(one: str | None, other: str) -> str:
    return other if one is None else min(one, other)


def _greater(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
