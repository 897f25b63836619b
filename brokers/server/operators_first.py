"""The loop's selector: few sockets in each of its rounds, and those of operators first.

A round of the loop serves every socket that is ready. When a thousand producers have filled theirs, that takes half a
second, and an operator's *stop all producers* would stand at its end. So a round gets `AT_ONCE` sockets of those that
are ready, in turns, and before them whatever is ready of those that management goes through. Readiness is by level, as
`selectors` has it: a socket that was not served is still ready, and one served for nothing does no harm.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Mapping
from selectors import SelectorKey
from typing import Any

#: Sockets in a round, beside the preferred ones.
AT_ONCE = 16


class OperatorsFirst(selectors.BaseSelector):
    """See the module. File objects are registered as with every selector; `prefer` picks out some of them."""

    def __init__(self) -> None:
        self._all = selectors.DefaultSelector()
        self._preferred = selectors.DefaultSelector()
        self._ready: deque[tuple[SelectorKey, int]] = deque()  # seen to be ready, and not served yet
        self.polls = 0  # how often all sockets were looked at
        self._served = 0  # the last of these looks whose sockets have all been served

    def prefer(self, fileobj: Any) -> None:
        """Serve this file object first for as long as it stays registered; one that is not is passed over."""
        key = self._all.get_map().get(fileobj)
        if key is not None and key.fd not in self._preferred.get_map():
            self._preferred.register(key.fd, key.events)

    def all_read_since(self, poll: int) -> bool:
        """Whether all that had come by some look after this one has been served: silence since then means silence of
        the peers, not that their bytes were not read."""
        return self._served > poll

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self._all.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        key = self._all.unregister(fileobj)
        if key.fd in self._preferred.get_map():
            self._preferred.unregister(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        key = self._all.modify(fileobj, events, data)
        if key.fd in self._preferred.get_map():
            self._preferred.modify(key.fd, events)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        keys = self._all.get_map()
        first: list[tuple[SelectorKey, int]] = []
        if self._preferred.get_map():
            first = [(keys[key.fd], events) for key, events in self._preferred.select(0)]
        if not self._ready:
            self._ready.extend(self._all.select(0 if first else timeout))
            self.polls += 1
        served = {key.fd for key, _ in first}
        while self._ready and len(first) < AT_ONCE + len(served):
            seen, events = self._ready.popleft()
            key = keys.get(seen.fd)
            # It may have been closed or changed since, and its number may be another's by now.
            if key is not None and key.fileobj is seen.fileobj and seen.fd not in served and events & key.events:
                first.append((key, events & key.events))
        if not self._ready:
            self._served = self.polls
        return first

    def close(self) -> None:
        self._ready.clear()
        self._preferred.close()
        self._all.close()

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._all.get_map()
