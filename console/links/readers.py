"""Who wants to know when something changes: woken on their own loops, one call for all readers of a loop.

Changes come by the thousand in a second, and readers by the hundred: wake-ups that come while one is on its way to a
loop are one.
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
class _Together:
    """The readers of one loop."""

    loop: asyncio.AbstractEventLoop
    readers: set[Subscription] = field(default_factory=set)
    on_its_way: bool = False

    def notify(self) -> None:
        if self.on_its_way:
            return
        self.on_its_way = True
        with suppress(RuntimeError):  # the loop has ended without unsubscribing: nobody is there to be told
            self.loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        self.on_its_way = False
        for reader in tuple(self.readers):
            reader.wake()


class Readers:
    """For every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_loop: dict[asyncio.AbstractEventLoop, _Together] = {}

    def __len__(self) -> int:
        return sum(len(together.readers) for together in tuple(self._by_loop.values()))

    def subscribe(self, wake: Callable[[], None]) -> Subscription:
        """Call `wake` on the running loop whenever something has changed."""
        loop = asyncio.get_running_loop()
        subscription = Subscription(wake, loop)
        with self._lock:
            self._by_loop.setdefault(loop, _Together(loop)).readers.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            together = self._by_loop.get(subscription.loop)
            if together is not None:
                together.readers.discard(subscription)
                if not together.readers:
                    del self._by_loop[subscription.loop]

    def notify(self) -> None:
        """Something has changed."""
        for together in tuple(self._by_loop.values()):
            together.notify()
