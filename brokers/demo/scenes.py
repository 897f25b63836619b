"""Who is in the demo and what they play: the three causes of full queues, in a loop of a minute, beside healthy queues
and a few dead letters.

A scene is a generator that changes the pace of its clients and yields the seconds until it goes on. It ends where it
began, with its queue emptied, so that it can be repeated indefinitely.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.demo.clients import Client, Consumer, Producer

KIB = 1024
MINUTE = 60.0  # a loop of every scene, in seconds of the demo's time

#: queue -> its policy. Set once, when the queue is made: what a user changes later stays.
QUEUES: Mapping[str, Mapping[str, Any]] = {
    "orders": {"capacity_messages": 400, "flow_resume_messages": "70%"},
    "prices.audit": {"capacity_messages": 400, "flow_resume_messages": "60%"},
    "images.resize": {"capacity_bytes": 6 * KIB * KIB, "flow_resume_bytes": "50%"},
    "payments": {"capacity_messages": 2000, "flow_resume_messages": "80%", "dead_letter_queue": "payments.declined"},
    "payments.declined": {"capacity_messages": 500},
    "mail.outbox": {"capacity_messages": 1000, "capacity_bytes": 4 * KIB * KIB},
    "stock.eu": {"capacity_messages": 1500, "flow_stop_messages": "90%", "flow_resume_messages": "70%"},
    "stock.us": {"capacity_messages": 1500, "flow_stop_messages": "90%", "flow_resume_messages": "70%"},
}

Scene = Iterator[float]
Say = Callable[[str], None]


@dataclass
class Stage:
    """The clients, and the scenes that direct them. `advance` is the only clock."""

    say: Say
    clients: list[Client] = field(default_factory=list)
    scenes: list[Scene] = field(default_factory=list)
    _due: dict[int, float] = field(default_factory=dict)
    _time: float = 0.0

    def advance(self, passed: float) -> None:
        """Let `passed` seconds of the demo's time go by: every scene that is due goes on."""
        self._time += passed
        for index, scene in enumerate(self.scenes):
            while self._due.get(index, 0.0) <= self._time:
                self._due[index] = self._due.get(index, 0.0) + next(scene)


def cast(say: Say, seed: int = 942) -> Stage:
    """Return all clients, with the same figures at each start."""
    stage = Stage(say)
    chance = random.Random(seed)  # noqa: S311 - no secret depends on it

    def producers(queue: str, rate: float, make: Callable[[int], bytes | str], *names: str) -> None:
        stage.clients += [Producer(name, queue, rate, make) for name in names]

    def consumer(name: str, queue: str, rate: float, **options: Any) -> Consumer:
        made = Consumer(name, queue, rate, **options)
        stage.clients.append(made)
        return made

    def record(**fields: Any) -> Callable[[int], str]:
        """A small JSON text with a number in it and, for every list, one of its values."""
        return lambda n: json.dumps(
            {"n": n}
            | {key: chance.choice(value) if isinstance(value, list) else value for key, value in fields.items()}
        )

    order = record(shop=["Lyon", "Porto", "Graz"], total=[12.5, 48.0, 129.9], currency="EUR", note="leave at the door")
    producers("orders", 15, order, "web-shop-1", "web-shop-2", "mobile-app")
    stage.scenes.append(lagging_consumer(consumer("warehouse", "orders", 60), say))

    price = record(symbol=["AIR", "SAP", "NOK", "ENI"], bid=[101.2, 99.8, 100.4], ask=[101.4, 100.0, 100.6])
    producers("prices.audit", 20, price, "feed-london", "feed-frankfurt")
    stage.scenes.append(
        silent_subscription(
            consumer("auditor", "prices.audit", 60),
            consumer("auditor-new-release", "prices.audit", 0, window=1000, wanted=False),
            say,
        )
    )

    picture = bytes(range(256)) * 800  # 200 KiB
    producers("images.resize", 1.5, lambda n: picture, "upload-1", "upload-2")
    stage.scenes.append(large_messages(consumer("resizer", "images.resize", 6, window=4), say))

    producers(
        "payments", 5, record(method=["card", "transfer"], amount=[9, 49, 199]), "checkout-1", "checkout-2", "kiosk"
    )
    consumer("bank-gateway", "payments", 40, rejected=50)  # 18 a minute
    stage.scenes.append(dead_letters(consumer("back-office", "payments.declined", 6, wanted=False)))
    letter = record(to="customer@example.org", subject=["Your order", "Your invoice"], text="Thank you. " * 30)
    producers("mail.outbox", 4, letter, "newsletter", "order-mails")
    consumer("smtp-relay", "mail.outbox", 30)
    level = record(article=["A-100", "B-200", "C-300"], pieces=[1, 5, 20])
    producers("stock.eu", 6, level, "lisbon", "ghent")
    consumer("inventory-eu-1", "stock.eu", 20)
    consumer("inventory-eu-2", "stock.eu", 20)
    producers("stock.us", 8, level, "boston")
    consumer("inventory-us", "stock.us", 30)
    return stage


def lagging_consumer(warehouse: Consumer, say: Say) -> Scene:
    """Cause 1: a consumer lags, then catches up."""
    usual = warehouse.rate
    yield 3
    while True:
        say("orders: the warehouse lags, it takes 5 of 45 orders a second; the queue is full in about 10 s")
        warehouse.rate = 5
        yield 22
        say("orders: the warehouse catches up; its producers are released once the queue is down to 70%")
        warehouse.rate = 160
        yield 12
        warehouse.rate = usual
        yield MINUTE - 22 - 12


def silent_subscription(auditor: Consumer, silent: Consumer, say: Say) -> Scene:
    """Cause 2: a subscription takes messages and never acknowledges them, then gives up; another consumes them."""
    usual = auditor.rate
    yield 17
    while True:
        say("prices.audit: a new subscription takes every message and acknowledges none; full in about 10 s")
        auditor.wanted, silent.wanted = False, True
        yield 22
        say("prices.audit: that subscription gives up and disconnects; its messages come back for another")
        silent.wanted = False
        yield 2
        auditor.wanted, auditor.rate = True, 200
        yield 12
        auditor.rate = usual
        yield MINUTE - 22 - 2 - 12


def dead_letters(clerk: Consumer) -> Scene:
    """Declined payments wait as dead letters until the back office works for a moment."""
    while True:
        clerk.wanted = False
        yield MINUTE - 5
        clerk.wanted = True
        yield 5


def large_messages(resizer: Consumer, say: Say) -> Scene:
    """Cause 3: large messages stay unacknowledged; few messages, but many bytes."""
    usual, window = resizer.rate, resizer.window
    yield 32
    while True:
        say("images.resize: the resizer is stuck on large images of 200 KiB; 6 MiB are full in about 10 s")
        resizer.rate, resizer.window = 0, 64
        yield 20
        say("images.resize: the resizer works again")
        resizer.rate = 12
        yield 8
        resizer.rate, resizer.window = usual, window
        yield MINUTE - 20 - 8
