"""The loop's selector: a limited number of sockets per round, those of operators first.

A round of the loop serves every ready socket. With a thousand producers' full sockets that takes half a second, and an
operator's *stop all producers* would come last. So a round gets `AT_ONCE` of the ready sockets, in turns, after all
ready sockets of management. Readiness is level-triggered, as in `selectors`: a socket that was not served is still
ready, and one served in vain does no harm.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Mapping
from selectors import SelectorKey
from typing import Any

#: Sockets per round, besides the preferred ones.
AT_ONCE = 16


class OperatorsFirst(selectors.BaseSelector):
    """See the module. File objects are registered as with every selector; `prefer` marks some of them."""

    def __init__(self) -> None:
        self._all = selectors.DefaultSelector()
        self._preferred = selectors.DefaultSelector()
        self._ready: deque[tuple[SelectorKey, int]] = deque()  # ready, and not served yet
        self.polls = 0  # number of polls of all sockets
        self._served = 0  # the last poll whose sockets have all been served

    def prefer(self, fileobj: Any) -> None:
        """Serve this file object first while it is registered; ignored if it is not."""
        key = self._all.get_map().get(fileobj)
        if key is not None and key.fd not in self._preferred.get_map():
            self._preferred.register(key.fd, key.events)

    def all_read_since(self, poll: int) -> bool:
        """Return whether all sockets that were ready at a poll after this one have been served: then silence means that
        the peers are silent, not that their bytes are unread."""
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
            # It may have been closed or changed since, and its descriptor may be reused.
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
