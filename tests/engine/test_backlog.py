"""The backlog against a plain list, in particular messages that expire or are removed between others."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokers.engine.queues.backlog import HERE, STORE, Backlog, Entry
from brokers.engine.values.message import NEVER


class BacklogModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.backlog = Backlog()
        self.expected: list[Entry] = []
        self.number = 0
        self.now = 0

    @rule(count=st.integers(1, 9), ttl=st.sampled_from([0, 0, 3, 10]), here=st.booleans())
    def append(self, count: int, ttl: int, here: bool) -> None:
        for _ in range(count):
            self.number += 2
            body = b"x" * (self.number % 5) if here else None
            entry = (self.number, self.number % 5, HERE if here else STORE, body, self.now + ttl if ttl else NEVER)
            self.backlog.append(*entry)
            self.expected.append(entry)

    @rule(data=st.data())
    def pick_and_put_back(self, data: st.DataObject) -> None:
        if not self.expected:
            assert self.backlog.pick(1) is None
            return
        entry = data.draw(st.sampled_from(self.expected))
        assert self.backlog.pick(entry[0]) == entry
        assert self.backlog.pick(entry[0]) is None
        self.expected.remove(entry)
        if self.expected and data.draw(st.booleans()):
            self.backlog.insert(*entry)
            self.expected = sorted([*self.expected, entry])

    @rule(data=st.data())
    def pick_several(self, data: st.DataObject) -> None:
        if self.expected:
            entries = data.draw(st.lists(st.sampled_from(self.expected), unique=True))
            self.backlog.pick_all(sorted(entry[0] for entry in entries))
            self.expected = [entry for entry in self.expected if entry not in entries]

    @rule(data=st.data(), ttl=st.sampled_from([0, 3, 10]), here=st.booleans())
    def merge(self, data: st.DataObject, ttl: int, here: bool) -> None:
        """Insert at free numbers between and behind the others."""
        taken = {entry[0] for entry in self.expected}
        free = [n for n in range(1, self.number + 4) if n not in taken]
        body = b"y" * 3 if here else None
        numbers = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        entries = [(n, 3, HERE if here else STORE, body, self.now + ttl if ttl else NEVER) for n in sorted(numbers)]
        self.backlog.merge(entries)
        self.expected = sorted([*self.expected, *entries])
        self.number = max([self.number, *numbers])

    @rule(count=st.integers(1, 7))
    def drop(self, count: int) -> None:
        count = min(count, len(self.expected))
        self.backlog.drop(count)
        del self.expected[:count]

    @rule(ms=st.integers(1, 12))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(most=st.integers(1, 5))
    def some_expire(self, most: int) -> None:
        found = self.backlog.expired(self.now, most)
        assert all(entry[4] <= self.now for entry in found)
        assert len(found) <= 2 * most
        for entry in found:
            self.expected.remove(entry)

    @rule(most=st.integers(1, 5))
    def all_expire_in_the_end(self, most: int) -> None:
        """Two rounds find every expired message, wherever the search was."""
        for _ in range(2 * (len(self.expected) // most + 2)):
            for entry in self.backlog.expired(self.now, most):
                self.expected.remove(entry)
        assert all(entry[4] > self.now for entry in self.expected)

    @invariant()
    def both_are_the_same(self) -> None:
        backlog = self.backlog
        assert len(backlog) == len(self.expected)
        assert backlog.head(1000, 1 << 30) == self.expected
        assert backlog.bytes == sum(size for _, size, _, body, _ in self.expected if body is None)
        assert backlog.first == (self.expected[0][0] if self.expected else NEVER)
        assert backlog.last == (self.expected[-1][0] if self.expected else -NEVER)
        assert backlog.soonest <= min((entry[4] for entry in self.expected), default=NEVER)


BacklogModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestBacklogModel = BacklogModel.TestCase
