"""Notify subscribers of changes on their own event loops, with one call for all subscribers of a loop.

There may be thousands of changes per second and hundreds of subscribers: while a wake-up of a loop is pending, further
ones are merged into it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Subscription:
    """`wake` is called on the loop that subscribed."""

    wake: Callable[[], None]
    loop: asyncio.AbstractEventLoop


@dataclass(slots=True)
class _LoopReaders:
    """The readers of one loop."""

    loop: asyncio.AbstractEventLoop
    readers: set[Subscription] = field(default_factory=set)
    is_pending: bool = False

    def notify(self) -> None:
        if self.is_pending:
            return
        self.is_pending = True
        with suppress(RuntimeError):  # the loop has ended without unsubscribing
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self.is_pending = False
        for reader in tuple(self.readers):
            reader.wake()


class Readers:
    """The subscriptions to one source of changes; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_loop: dict[asyncio.AbstractEventLoop, _LoopReaders] = {}

    def subscribe(self, wake: Callable[[], None]) -> Subscription:
        """Call `wake` on the running loop after changes."""
        loop = asyncio.get_running_loop()
        subscription = Subscription(wake, loop)
        with self._lock:
            self._by_loop.setdefault(loop, _LoopReaders(loop)).readers.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            readers_of_loop = self._by_loop.get(subscription.loop)
            if readers_of_loop is not None:
                readers_of_loop.readers.discard(subscription)
                if not readers_of_loop.readers:
                    del self._by_loop[subscription.loop]

    def notify(self) -> None:
        """Wake all subscribers."""
        for readers_of_loop in tuple(self._by_loop.values()):
            readers_of_loop.notify()
