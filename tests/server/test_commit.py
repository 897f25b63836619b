"""Group commit: which messages share a group, the order of results, and recovery after an error."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from brokers.server import commit
from brokers.server.commit import GroupCommitter
from brokers.server.journal.journal_store import JournalStore
from brokers.server.message_groups import Group, Written
from brokers.server.sqlite_file import StoreError


class SteppedStore(JournalStore):
    """Writes when the test lets it, and fails when the test wants it to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, segment_bytes=64 << 10)
        self.go = threading.Semaphore(0)
        self.faults = 0
        self.groups: list[int] = []
        self._append, self._segments.append = self._segments.append, self._appended  # type: ignore[method-assign]

    def write(self, group: Group) -> Written:
        assert self.go.acquire(timeout=10)
        self.groups.append(group.messages)
        return super().write(group)

    def _appended(self, *given: Any) -> None:
        if self.faults:
            self.faults -= 1
            raise StoreError("the disk is broken")
        self._append(*given)


async def test_messages_that_arrive_while_a_group_is_written_are_the_next_group(tmp_path: Path) -> None:
    store, results = SteppedStore(tmp_path / "m"), []
    committer = GroupCommitter(store, results.append)
    tickets = [store.put(1, 1, b"a")]
    committer.commit()
    for number in range(2, 50):
        tickets.append(store.put(1, number, b"a"))
        committer.commit()
    assert tickets == [1] + [2] * 48
    store.go.release(2)
    await asyncio.wait_for(committer.flush(), 10)
    assert store.groups == [1, 48]
    assert [(w.ticket, w.messages, w.fault) for w in results] == [(1, 1, None), (2, 48, None)]
    await committer.close()
    store.close()


@pytest.mark.parametrize("faults", [1, 2, 5])
async def test_a_refused_group_costs_the_next_one_nothing_and_removals_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: int
) -> None:
    monkeypatch.setattr(commit, "RETRY_SECONDS", 0.001)
    store, results, removed = SteppedStore(tmp_path / "m"), [], asyncio.Event()

    def add_result(written: Written) -> None:
        results.append(written)
        removed.set() if written.removed else removed.clear()

    committer = GroupCommitter(store, add_result)
    store.go.release(100)
    store.put(1, 1, b"a")
    committer.commit()
    await asyncio.wait_for(committer.flush(), 10)

    store.faults = faults  # of the group, and of its removals alone
    store.remove(1, 1)
    store.put(1, 2, b"b")
    committer.commit()
    await asyncio.wait_for(committer.flush(), 10)
    assert [(w.ticket, w.fault is None, w.removed) for w in results] == [(1, True, True), (2, False, False)]

    await asyncio.wait_for(removed.wait(), 10)  # without a new group: the committer retries
    assert store.faults == 0
    assert list(store.recover()) == []
    store.put(1, 3, b"c")
    await asyncio.wait_for(committer.close(), 10)
    assert results[-1].fault is None
    assert [number for _, number, *_ in store.recover()] == [3]
    store.close()
