"""Cost of the rollups that a recorder keeps in memory: CPU a sample, memory a queue, rows of the open minute, snapshot.

    uv run bench/history_rollups.py [QUEUES] [SECONDS]

Each queue has a sample a second, in rows like a recorder's; every fifth queue becomes overfull now and then.
"""

from __future__ import annotations

import json
import random
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from console.history.rollups.broker import SAMPLE_COLUMNS, BrokerRollups

NOON = 1_773_489_600_000
BROKER = {"broker": "b", "run": "r", "source": "recorder"}


def samples(queues: int, second: int, chance: random.Random) -> list[dict[str, Any]]:
    rows = []
    for number in range(queues):
        row: dict[str, Any] = dict.fromkeys(SAMPLE_COLUMNS)
        depth = chance.randrange(200)
        row |= BROKER | {"at": NOON + second * 1000, "virtualhost": "default", "queue": f"queue-{number}"}
        row |= {"depth_messages": depth, "depth_bytes": depth * 1024, "state": "NORMAL", "whole": second % 300 == 0}
        row |= {"enqueued_messages": second * 100 + depth, "dequeued_messages": second * 100, "producers": 3}
        row |= {"blocked_producers": 0, "capacity_messages": 500, "stop_messages": 500, "resume_messages": 400}
        row |= {"capacity_bytes": 0, "stop_bytes": 0, "resume_bytes": 0}
        rows.append(row)
    return rows


def coverage(begin: int, end: int) -> dict[str, Any]:
    return BROKER | {"at": NOON + begin, "until": NOON + end, "followed": True}


def main(queues: int, seconds: int) -> None:
    chance = random.Random(1)
    rollups = BrokerRollups("b")
    spent = {"take": 0.0, "close": 0.0, "open minute": 0.0, "open hour": 0.0}
    closings = times = 0
    for second in range(seconds):
        rows = samples(queues, second, chance)
        began = time.process_time()
        closed = rollups.take(rows, (), [coverage(second * 1000, second * 1000 + 1)])
        spent["close" if closed.minutes else "take"] += time.process_time() - began
        closings += bool(closed.minutes)
        if second % 2:
            began = time.process_time()
            rollups.open_minutes()
            spent["open minute"] += time.process_time() - began
            times += 1
    minutes = rollups.open_minutes()
    began = time.process_time()
    rollups.open_hours(minutes)
    spent["open hour"] = time.process_time() - began
    taken = (seconds - closings) * queues
    print(f"{queues:,} queues, {seconds:,} s, a sample a second each")
    print(f"take                 {spent['take'] / taken * 1e6:8.2f} us a sample")
    if closings:
        each = (spent["close"] - spent["take"] / taken * queues * closings) / closings / queues
        print(f"close a minute       {each * 1e6:8.2f} us a queue")
    print(f"rows, open minute    {spent['open minute'] / times / queues * 1e6:8.2f} us a queue")
    print(f"rows, open hour      {spent['open hour'] / queues * 1e6:8.2f} us a queue")
    print(f"all, open minute every 2 s: {sum(spent.values()) / seconds:.1%} of a core")
    began = time.process_time()
    state = rollups.snapshot()
    text = json.dumps(state, separators=(",", ":"))
    print(f"snapshot             {len(text) / queues:8.0f} bytes a queue in {time.process_time() - began:.2f} s")
    tracemalloc.start()
    restored = BrokerRollups.restore(json.loads(text))
    print(f"memory               {tracemalloc.get_traced_memory()[0] / queues:8.0f} bytes a queue")
    assert restored.covered == rollups.covered


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*(given + [2000, 130][len(given) :]))
