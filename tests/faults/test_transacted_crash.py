"""kill -9 under clients with transactions: after the start each transaction is complete or absent."""

from __future__ import annotations

import logging
import os
import random
import signal
from pathlib import Path

import pytest

from tests.faults.nursery import nursery
from tests.faults.queues import browse, set_up
from tests.faults.transacted import Books, Business

KILLS = 20

QUEUES = ("in", "book", "out")

log = logging.getLogger(__name__)


@pytest.mark.domain("9 kills")
@pytest.mark.timeout(200)
def test_a_transaction_survives_a_kill_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    random_, books = random.Random(os.getpid()), Books()
    with nursery(tmp_path) as brokers:
        set_up(brokers, tmp_path, *QUEUES, capacity=100_000)
        for round_ in range(KILLS):
            pid, port = brokers.start()
            books.check({queue: browse(tmp_path, port, queue) for queue in QUEUES})
            least = len(books.moved) + round_ % 4  # each fourth round is killed however far it is
            last = round_ == KILLS - 1
            Business(
                books,
                port,
                pid=pid,
                after=random_.uniform(0, 0.5),
                begun=lambda least=least, last=last: len(books.moved) >= least and (bool(books.undone) or not last),  # type: ignore[misc]
            ).run()
        pid, port = brokers.start()
        found = {queue: browse(tmp_path, port, queue) for queue in QUEUES}
        books.check(found)
        os.kill(pid, signal.SIGKILL)
    counts = len(books.committed), len(books.undone), len(books.moved)
    log.info("%d kills: %d orders committed, %d rolled back, %d moved", KILLS, *counts)
