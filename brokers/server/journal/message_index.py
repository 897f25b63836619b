"""What is stored where, in memory: the runs of each queue, and for each segment what is left in it and what it needs.

A group's changes are applied in the order of the groups, when they are written and again at a start (`apply`).
A change of a message in another segment is needed until that segment is free: it is among its `refs`. So a segment
is free when it has no message left, and none of its `refs` is used.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Lock

from brokers.engine.values.message import rank_of
from brokers.server.journal.groups import (
    Change,
    Dropped,
    Failed,
    InUse,
    LastQueue,
    Left,
    LeftRun,
    Named,
    Put,
    Removed,
)
from brokers.server.journal.runs import MESSAGE_COST, RUN_COST, Run, Segment
from brokers.server.message_groups import MESSAGE_BYTES, Entry

#: Runs without messages that a lane may have before they are taken out, besides as many others.
_SPENT = 64

#: Runs of dropped queues that are taken out at once, some 2 ms: groups of messages and readers wait meanwhile. And how
#: many further messages in a run cost as much as another one.
DROPPED_COST, _AS_ONE_RUN = 1000, 64

#: Messages that are removed at once, for the same reason.
REMOVED_AT_ONCE = 1000

_SINGLE_COST = MESSAGE_COST + RUN_COST


class _Lane:
    """The runs of one priority of a queue, ascending. The messages that are left in one are before the first of the
    next: numbers are assigned again only behind the last message that is there."""

    __slots__ = ("firsts", "runs", "spent", "start")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.runs: list[Run] = []
        self.start = 0  # those before it have no messages
        self.spent = 0  # runs from there on without messages

    def add(self, run: Run) -> None:
        first = run.put.first
        if not self.firsts or first >= self.firsts[-1]:
            self.firsts.append(first)
            self.runs.append(run)
            return
        at = bisect_right(self.firsts, first, self.start)
        self.firsts.insert(at, first)
        self.runs.insert(at, run)

    def find(self, number: int) -> int:
        """The position of the run that may have the message; below `start` if there is none."""
        return bisect_right(self.firsts, number, self.start) - 1

    def pop(self) -> Run:
        """Take out the last run, which may have no messages."""
        self.firsts.pop()
        return self.runs.pop()

    def tidy(self) -> None:
        """Take runs without messages out, now and then."""
        runs, start, end = self.runs, self.start, len(self.runs)
        while start < end and not runs[start].left:
            start += 1
            self.spent -= 1
        self.start = start
        if start + self.spent > _SPENT + (end - start - self.spent):
            self.runs = [run for run in runs[start:] if run.left]
            self.firsts = [run.put.first for run in self.runs]
            self.start = self.spent = 0


class MessageIndex:
    """`names`: of the queues that have one. `last_queue`: the highest number of a queue that has had a message.
    `left_bytes`: of all messages, with `MESSAGE_BYTES` each. `emptied`: a segment may be free now.

    `postpones`: a removal of many messages is applied in portions, by `drop_some`, and thus after changes that follow:
    not while a journal is read, where a later message may have the number of a removed one.

    One thread changes it. Others read while they have the `lock`, so that no segment is used again meanwhile."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.emptied = False
        self.segments: dict[int, Segment] = {}  # in use, by serial, ascending
        self.names: dict[int, str] = {}
        self.last_queue = 0
        self.left_bytes = 0
        self._lanes: dict[int, dict[int, _Lane]] = {}  # queue -> rank ->
        self._dropped: list[tuple[Segment, list[_Lane]]] = []  # with the change, and what is left
        self.postpones = False
        self._removals: deque[tuple[Segment, int, Sequence[int], int]] = deque()  # with the change, and where to go on

    # -- changes --------------------------------------------------------------------------------------------------

    def apply(self, segment: Segment, changes: Sequence[Change], at: int) -> None:
        """Apply the changes of a group in this segment. `at`: where its bodies begin."""
        with self.lock:
            for change in changes:
                at += self._apply(segment, change, at)

    def _apply(self, segment: Segment, change: Change, at: int) -> int:
        """Return the bytes of its bodies."""
        match change:
            case Put():
                return self._put(Run(change, segment, at))
            case Removed():
                self._remove_or_postpone(segment, change.queue, change.numbers)
            case Failed():
                for number, count in change.counts.items():
                    self._fail(segment, change.queue, number, count)
            case Dropped():
                self._drop(segment, change.queue)
            case Named():
                self.names[change.queue] = change.name
                self.last_queue = max(self.last_queue, change.queue)
            case Left():
                self._leave(segment, change)
            case InUse(with_names=True):
                self.names.clear()  # a queue that was deleted may have one in an earlier segment
            case LastQueue():
                self.last_queue = max(self.last_queue, change.queue)
        return 0

    def add(self, segment: Segment) -> None:
        """Add a segment, which is the newest."""
        with self.lock:
            self.segments[segment.serial] = segment
        self.emptied = True  # the one before may be free now

    def put_single(self, segment: Segment, put: Put, at: int, size: int) -> None:
        """Put one message of this size, as `apply` does. A start may put a million of them."""
        first = put.first
        lanes = self._lanes.get(put.queue)
        lane = lanes.get(rank_of(first)) if lanes is not None else None
        if lane is None or not lane.firsts or first < lane.firsts[-1] + lane.runs[-1].put.count:
            self._put(Run(put, segment, at))
            return
        run = Run(put, segment, at)  # its queue has messages: it is not higher than `last_queue`
        lane.firsts.append(first)
        lane.runs.append(run)
        segment.runs[run] = None
        segment.left += 1
        segment.left_bytes += size
        segment.put_cost += size + _SINGLE_COST
        self.left_bytes += size + MESSAGE_BYTES

    def _put(self, run: Run) -> int:
        put, segment = run.put, run.segment
        rank = rank_of(put.first)
        lane = self._lanes.get(put.queue, {}).get(rank)
        if lane is not None and lane.firsts and put.first < lane.firsts[-1] + lane.runs[-1].put.count:
            self._remove(segment, put.queue, range(put.first, put.first + put.count))  # a copy, which takes its place
        self._lanes.setdefault(put.queue, {}).setdefault(rank, _Lane()).add(run)
        segment.runs[run] = None
        segment.left += put.count
        size = put.size
        segment.left_bytes += size
        segment.put_cost += size + MESSAGE_COST * put.count + RUN_COST
        self.left_bytes += size + MESSAGE_BYTES * put.count
        self.last_queue = max(self.last_queue, put.queue)
        return size

    def _remove_or_postpone(self, segment: Segment, queue: int, numbers: Sequence[int]) -> None:
        if self.postpones and len(numbers) > REMOVED_AT_ONCE:
            segment.drops += 1
            self._removals.append((segment, queue, numbers, 0))
        else:
            self._remove(segment, queue, numbers)

    def _remove(self, segment: Segment, queue: int, numbers: Sequence[int]) -> None:
        """`segment`: that has the removal."""
        lanes = self._lanes.get(queue)
        if lanes is None:
            return
        at, end = 0, len(numbers)
        while at < end:
            lane = lanes.get(rank_of(numbers[at]))
            position = lane.find(numbers[at]) if lane is not None else -1
            if lane is None or position < lane.start:
                at += 1
                continue
            run = lane.runs[position]
            stop = run.put.first + run.put.count
            if position + 1 < len(lane.firsts):
                stop = min(stop, lane.firsts[position + 1])
            until = max(at + 1, bisect_left(numbers, stop, at))
            if numbers[at] < stop and self._take(run, _mask(numbers, at, until, run.put.first)):
                if run.segment is not segment:
                    segment.refs.add(run.segment)
                if not run.left:
                    lane.spent += 1
                    lane.tidy()
            at = until
        if all(len(lane.runs) == lane.start for lane in lanes.values()):
            del self._lanes[queue]

    def _take(self, run: Run, mask: int) -> bool:
        """Take messages out of a run; return whether one was there."""
        mask &= ~run.gone & (1 << run.put.count) - 1
        if not mask:
            return False
        sizes, count = memoryview(run.put.parts).cast("I"), mask.bit_count()
        low = (mask & -mask).bit_length() - 1
        if mask == (1 << low + count) - (1 << low):
            size = sum(sizes[low : low + count])
        else:
            size = sum(sizes[at] for at in range(low, mask.bit_length()) if mask >> at & 1)
        run.gone |= mask
        run.left -= count
        segment = run.segment
        segment.left -= count
        segment.left_bytes -= size
        self.left_bytes -= size + MESSAGE_BYTES * count
        if not run.left:
            segment.runs.pop(run, None)
            self.emptied = self.emptied or not segment.left
        return True

    def _fail(self, segment: Segment, queue: int, number: int, count: int) -> None:
        run = self.run_with(queue, number)
        if run is not None:
            if run.failed is None:
                run.failed = {}
            run.failed[number - run.put.first] = count
            if run.segment is not segment:
                segment.refs.add(run.segment)

    def _drop(self, segment: Segment, queue: int) -> None:
        """Have the queue no more; its messages are taken out by `drop_some`."""
        self.names.pop(queue, None)
        if (lanes := self._lanes.pop(queue, None)) is not None:
            segment.drops += 1
            self._dropped.append((segment, list(lanes.values())))

    def drop_some(self) -> bool:
        """Take out some of the messages of queues that were dropped or purged, of which there may be millions; return
        whether there are more. Nothing may be copied, and no list of what is left be written, before there are none."""
        with self.lock:
            cost = 0
            if self._removals:
                cost = DROPPED_COST
                self._remove_some()
            while self._dropped and cost < DROPPED_COST:
                segment, lanes = self._dropped[-1]
                while lanes and cost < DROPPED_COST:
                    cost += self._drop_run(segment, lanes)
                if not lanes:
                    self._dropped.pop()
                    segment.drops -= 1
                    self.emptied = True  # it may be free now
            return bool(self._dropped or self._removals)

    def _remove_some(self) -> None:
        segment, queue, numbers, at = self._removals.popleft()
        self._remove(segment, queue, numbers[at : at + REMOVED_AT_ONCE])
        if (at := at + REMOVED_AT_ONCE) < len(numbers):
            self._removals.appendleft((segment, queue, numbers, at))
        else:
            segment.drops -= 1
            self.emptied = True  # it may be free now

    def drop_all(self) -> None:
        while self.drop_some():
            pass

    def _drop_run(self, segment: Segment, lanes: list[_Lane]) -> int:
        """Take out the last run; return its cost."""
        if not lanes[-1].runs:
            lanes.pop()
            return 1
        run = lanes[-1].pop()
        if self._take(run, (1 << run.put.count) - 1) and run.segment is not segment:
            segment.refs.add(run.segment)
        return 1 + run.put.count // _AS_ONE_RUN

    def _leave(self, segment: Segment, left: Left) -> None:
        of = self.segments.get(left.serial)
        if of is None:
            return
        masks = {(run.queue, run.first): run for run in left.runs}
        for run in list(of.runs):
            found = masks.get((run.put.queue, run.put.first))
            self._take(run, ~found.mask if found else -1)
            if found and found.failed:
                run.failed = dict(found.failed)
            if not run.left and (lane := self._lanes.get(run.put.queue, {}).get(rank_of(run.put.first))):
                lane.spent += 1
                lane.tidy()
        for other in self.segments.values():
            other.refs.discard(of)  # what they have of it is needed no more
        if of is not segment:
            segment.refs.add(of)
        self.emptied = True

    def left_of(self, segment: Segment) -> Left:
        """What is left of a segment, as a change."""
        runs = []
        for run in segment.runs:
            mask = ((1 << run.put.count) - 1) & ~run.gone
            failed = tuple((at, n) for at, n in (run.failed or {}).items() if mask >> at & 1)
            runs.append(LeftRun(run.put.queue, run.put.first, mask, failed))
        return Left(segment.serial, tuple(runs))

    def release(self, segment: Segment) -> None:
        """The segment is free: no change that refers to it is needed any more."""
        with self.lock:
            del self.segments[segment.serial]
            segment.file.close()
        for other in self.segments.values():
            other.refs.discard(segment)

    # -- what is there ------------------------------------------------------------------------------------------

    def run_with(self, queue: int, number: int) -> Run | None:
        """Return the run that has the message, if any."""
        lane = self._lanes.get(queue, {}).get(rank_of(number))
        if lane is None:
            return None
        position = lane.find(number)
        if position < lane.start:
            return None
        run = lane.runs[position]
        return run if run.has(number) else None

    def queues(self) -> list[int]:
        """Return the numbers of the queues that have messages, ascending."""
        return sorted(queue for queue, lanes in self._lanes.items() if any(run.left for run in _runs(lanes)))

    def totals(self, queue: int) -> tuple[int, int]:
        """Return how many messages a queue has, and the bytes of their bodies."""
        messages = size = 0
        for run in _runs(self._lanes.get(queue, {})):
            messages += run.left
            if not run.gone:
                size += run.put.size
            elif run.left:
                size += sum(entry[2] for entry in run.entries())
        return messages, size

    def entries(self, queue: int) -> list[Entry]:
        """Return the messages of a queue, ascending."""
        return [entry for run in _runs(self._lanes.get(queue, {})) if run.left for entry in run.entries()]


def _runs(lanes: dict[int, _Lane]) -> Iterator[Run]:
    for rank in sorted(lanes):
        lane = lanes[rank]
        yield from lane.runs[lane.start :]


def _mask(numbers: Sequence[int], at: int, until: int, first: int) -> int:
    """Return the bits of these numbers, ascending and distinct, in a run."""
    low = numbers[at] - first
    if numbers[until - 1] - numbers[at] == until - at - 1:
        return (1 << low + until - at) - (1 << low)
    mask = 0
    for number in numbers[at:until]:
        mask |= 1 << number - first
    return mask
