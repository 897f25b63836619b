"""Random histories against plain dictionaries: what is written, and what is only buffered; with crashes, refused
groups and a disk that is full at times."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from brokers.engine.values.message import number_of, sequence_of
from tests.server.journal.journals import Disk, Stored, after_crash, content, opened, write

QUEUES = st.integers(1, 3)
OPTIONS = {"segment_bytes": 16 << 10, "group_bytes": 1 << 20}


class JournalModel(RuleBasedStateMachine):
    """`safe`: what a start must find. `wanted`: that, and what is buffered. `without`: if all messages and transactions
    of the buffer are refused."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "m.journal"
        self.patches = ExitStack()
        self.disk = Disk(self.patches.enter_context(pytest.MonkeyPatch.context()))
        self.store = opened(self.path, **OPTIONS)
        self.safe: Stored = {}
        self.wanted: Stored = {}
        self.without: Stored = {}
        self.next = dict.fromkeys(range(1, 4), 1)
        self.transactions = 0

    def teardown(self) -> None:
        self.store.close()
        self.patches.close()
        shutil.rmtree(self.folder)

    def number(self, queue: int, priority: int = 4) -> int:
        sequence, self.next[queue] = self.next[queue], self.next[queue] + 1
        return number_of(sequence, priority)

    @rule(
        queue=QUEUES,
        size=st.integers(0, 700),
        times=st.integers(1, 40),
        priority=st.sampled_from([4, 4, 0, 9]),
        expires=st.sampled_from([0, 0, 1_700_000_000_000]),
    )
    def put(self, queue: int, size: int, times: int, priority: int, expires: int) -> None:
        for _ in range(times):
            number = self.number(queue, priority)
            body = b"%d" % number * (size // 3)
            self.store.put(queue, number, body, expires)
            self.wanted[queue, number] = (body, 0, expires)

    @rule(queue=QUEUES, bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=100))
    def put_run(self, queue: int, bodies: list[bytes]) -> None:
        numbers = [self.number(queue) for _ in bodies]
        self.store.put_run(queue, numbers[0], bodies, sum(map(len, bodies)))
        self.wanted.update({(queue, n): (body, 0, 0) for n, body in zip(numbers, bodies, strict=True)})

    @rule(queue=QUEUES, body=st.binary(max_size=40), expires=st.sampled_from([0, 8]), data=st.data())
    def transact(self, queue: int, body: bytes, expires: int, data: st.DataObject) -> None:
        self.transactions += 1
        self.store.begin(self.transactions)
        there = sorted(place for place in self.wanted if place[0] == queue)
        for place in there[: data.draw(st.integers(0, 3))]:
            self.store.remove(*place)
            del self.wanted[place]
        place = (queue, self.number(queue))
        self.store.put(*place, body, expires)
        self.store.end()
        self.wanted[place] = (body, 0, expires)

    @rule(queue=QUEUES, to=QUEUES, body=st.binary(max_size=40), data=st.data())
    def move(self, queue: int, to: int, body: bytes, data: st.DataObject) -> None:
        """Of written messages only, and none is moved or removed again before that is written."""
        there = sorted(place for place in self.safe if place in self.wanted and place[0] == queue)
        for place in there[: data.draw(st.integers(0, min(10, len(there))))]:
            new_place = (to, self.number(to))
            self.store.move(place, new_place, body, 7)
            del self.wanted[place]
            del self.without[place]
            self.wanted[new_place] = self.without[new_place] = (body, 0, 7)

    @rule(queue=QUEUES, every=st.integers(1, 4), data=st.data())
    def remove(self, queue: int, every: int, data: st.DataObject) -> None:
        there = sorted(n for q, n in self.wanted if q == queue)
        for number in there[: data.draw(st.integers(0, len(there))) : every]:
            self.store.remove(queue, number)
            del self.wanted[queue, number]
            self.without.pop((queue, number), None)

    @rule(queue=QUEUES, data=st.data())
    def remove_run(self, queue: int, data: st.DataObject) -> None:
        there = sorted(n for q, n in self.wanted if q == queue)
        if there:
            numbers = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=60, unique=True))
            self.store.remove_run(queue, numbers)
            for number in numbers:
                del self.wanted[queue, number]
                self.without.pop((queue, number), None)

    @rule(queue=QUEUES, at=st.integers(0, 20), count=st.integers(1, 9))
    def fail(self, queue: int, at: int, count: int) -> None:
        there = sorted(place for place in self.wanted if place[0] == queue)
        if at < len(there):
            self.store.fail(*there[at], count)
            body, _, expires = self.wanted[there[at]]
            self.wanted[there[at]] = (body, count, expires)
            if there[at] in self.without:
                self.without[there[at]] = (body, count, expires)

    @rule(extra=st.integers(1, 5))
    def write(self, extra: int) -> None:
        while self.store.pending or extra:
            written = write(self.store)
            assert (written.fault, written.removed, written.refused) == (None, True, {})
            extra -= 1 if extra else 0
        self.safe = dict(self.wanted)
        self.without = dict(self.wanted)

    @precondition(lambda self: self.wanted != self.safe)
    @rule(fault=st.sampled_from(["broken", "refusing"]), later=st.booleans())
    def write_on_a_broken_disk(self, fault: str, later: bool) -> None:
        """Nothing of it is there; after a crash nothing comes back."""
        setattr(self.disk, fault, True)
        while self.store.pending:
            written = write(self.store)
            assert not written.messages or written.fault is not None
        setattr(self.disk, fault, False)
        if later:
            written = write(self.store)
            assert written.removed
            self.safe = self.without
        self.restart()

    @rule(queue=QUEUES, size=st.sampled_from([0, 7000]))
    def write_on_a_stuck_disk(self, queue: int, size: int) -> None:
        """What it may have written, also to a new segment, cannot even be erased: nothing of it is there once other
        messages are."""
        self.store.put(queue, self.number(queue), bytes(size))
        self.disk.stuck = True
        while self.store.pending:
            written = write(self.store)
            assert not written.messages or written.fault is not None
        self.disk.stuck = self.disk.refusing = False
        self.store.writer._not_before = 0.0
        place = queue, self.number(queue)
        self.store.put(*place, b"accepted")
        written = write(self.store)
        assert (written.fault, written.removed) == (None, True)
        self.without[place] = b"accepted", 0, 0
        self.safe = dict(self.without)
        self.wanted = dict(self.without)

    @rule()
    def close(self) -> None:
        self.store.close()
        self.reopen()

    @rule()
    def crash(self) -> None:
        self.restart()

    def restart(self) -> None:
        after = self.folder / "after"
        shutil.copytree(self.path, after)
        self.store.close()
        shutil.rmtree(self.path)
        after.rename(self.path)
        self.reopen()

    def reopen(self) -> None:
        self.store = opened(self.path, **OPTIONS)
        self.wanted = dict(self.safe)
        self.without = dict(self.safe)
        for queue in self.next:  # like the engine: numbers of messages that are gone are assigned again
            self.next[queue] = 1 + max([sequence_of(n) for q, n in self.wanted if q == queue], default=0)

    @invariant()
    def what_is_safe_is_there(self) -> None:
        assert content(self.store) == self.safe
        assert after_crash(self.path, **OPTIONS) == self.safe
        segments = self.store._index.segments.values()
        assert sum(segment.left for segment in segments) == len(self.safe)
        assert sum(segment.left_bytes for segment in segments) == sum(len(body) for body, _, _ in self.safe.values())


JournalModel.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestJournalModel = JournalModel.TestCase
