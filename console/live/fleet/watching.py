"""What the page of the fleet watches, and its snapshots: cached as JSON text for all users who see the same.

Computed in a thread, at most once a second, and less often the longer it takes: a fifth of a core at most.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.model import QUEUE_STATES
from console.links.queue_groups import Grouping
from console.live import overview
from console.live.fleet.brokers import broker_rows, fleet_totals
from console.live.fleet.groups import grouped_queues_page
from console.live.fleet.members import Member, MemberFilter
from console.live.fleet.queues import check_sort, queues_page
from console.live.fleet.stream import conditions_page, stream
from console.live.snapshot_cache import encode
from console.live.watching import BadWatch, grouping_of, quick_filters_of, whole_number_of

#: Shortest interval between snapshots, s.
EVERY = 1.0
#: Conditions and events in a snapshot, and the most severe conditions.
STREAMED = 100
_MOST_SEVERE = 5
#: Cached texts: distinct watches and visibilities at the same time.
_CACHED = 64
_UNUSED_AFTER = 3.0


@dataclass(frozen=True, slots=True)
class FleetWatch:
    """`members`: the brokers of the whole page. The other fields are those of a page of queues."""

    members: MemberFilter
    search: str = ""
    states: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    sort: str = ""
    page: int = 1
    size: int = overview.USUAL
    grouping: Grouping | None = None

    @classmethod
    def parse(cls, message: Mapping[str, Any]) -> FleetWatch:
        """Return the watch of a message. Raises BadWatch."""
        if message.get("watch") != "fleet":
            raise BadWatch(f"watch is {message.get('watch')!r}: it must be fleet")
        search, sort = message.get("search", ""), message.get("sort", "")
        if not isinstance(search, str) or not isinstance(sort, str):
            raise BadWatch("search and sort must be text")
        states = _texts(message, "states")
        for state in states:
            if state not in QUEUE_STATES:
                raise BadWatch(f"states has {state!r}: it must contain only {', '.join(QUEUE_STATES)}")
        try:
            check_sort(sort)
        except overview.BadSort as error:
            raise BadWatch(str(error)) from None
        brokers, tags, kinds = (frozenset(_texts(message, name)) for name in ("brokers", "tags", "kinds"))
        page = whole_number_of(message, "page", 1, 1_000_000)
        size = whole_number_of(message, "page_size", overview.USUAL, overview.MOST)
        only = quick_filters_of(message)
        grouping = grouping_of(message)
        return cls(MemberFilter(brokers, tags, kinds), search, tuple(states), only, sort, page, size, grouping)


def _texts(message: Mapping[str, Any], name: str) -> list[str]:
    found = message.get(name, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise BadWatch(f"{name} must be a list of texts")
    return found


def fleet_data(members: Sequence[Member], watch: FleetWatch) -> dict[str, Any]:
    """Return the data of a snapshot. `choices`: all brokers, tags and kinds, to filter by. `of`: those of the watch, so
    that a page can match the answer to its request. Brokers of the filter that
    do not exist match nothing, since one may be removed while a page shows it. With a grouping also what
    `grouped_queues_page` returns of groups."""
    chosen = watch.members.matching(members)
    rows = broker_rows(chosen)
    wanted: dict[str, Any] = {
        "search": watch.search,
        "states": watch.states,
        "only": watch.only,
        "sort": watch.sort,
        "page": watch.page,
        "size": watch.size,
    }
    groups: dict[str, Any] = {}
    if watch.grouping is None:
        queues = queues_page(chosen, **wanted)
    else:
        queues = grouped_queues_page(chosen, watch.grouping, **wanted)
        groups = {name: queues[name] for name in ("group", "groups", "groups_total", "lines")}
    worst = conditions_page(chosen, size=_MOST_SEVERE)
    return {
        "of": {name: sorted(getattr(watch.members, name)) for name in ("brokers", "tags", "kinds")},
        "choices": {
            "brokers": [{"slug": member.slug, "title": member.title} for member in members],
            "tags": sorted({tag for member in members for tag in member.tags}),
            "kinds": sorted({member.kind for member in members}),
        },
        "totals": fleet_totals(rows),
        "brokers": rows,
        "queues": queues["results"],
        **groups,
        "total": queues["count"],
        "page": queues["page"],
        "page_size": queues["page_size"],
        "conditions": worst["results"],
        "conditions_total": worst["count"],
        "stream": stream(chosen, STREAMED),
    }


@dataclass(slots=True)
class _Text:
    """A cached text. `of`: the state that it shows. `cost`: computation time, s. `made`, `used`: s (monotonic)."""

    of: Hashable
    text: str
    cost: float
    made: float
    used: float


class FleetSnapshots:
    """The cached snapshots of the fleet, for sockets of one loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one computation at a time
        self._texts: dict[Hashable, _Text] = {}
        self._making: dict[Hashable, asyncio.Future[str]] = {}

    async def text(self, members: Sequence[Member], watch: FleetWatch) -> str:
        """Return a snapshot as JSON text; not the newest if it is expensive."""
        key = (watch, tuple((member.slug, member.link.only_hosts) for member in members))
        now = time.monotonic()
        cached = self._texts.get(key)
        if cached is not None:
            cached.used = now
            if now - cached.made < max(EVERY, 4 * self._cost(now)) or cached.of == _state_of(members):
                return cached.text
        making = self._making.get(key)
        if making is None or making.get_loop() is not asyncio.get_running_loop():
            making = asyncio.ensure_future(asyncio.to_thread(self._make, key, tuple(members), watch))
            making.add_done_callback(lambda _: self._making.pop(key, None))
            self._making[key] = making
        return await asyncio.shield(making)

    def _cost(self, now: float) -> float:
        return sum(text.cost for text in list(self._texts.values()) if now - text.used < _UNUSED_AFTER)

    def _make(self, key: Hashable, members: tuple[Member, ...], watch: FleetWatch) -> str:
        with self._lock:
            of, began = _state_of(members), time.monotonic()
            text = encode(fleet_data(members, watch))
            ended = time.monotonic()
            self._texts.pop(key, None)
            self._texts[key] = _Text(of, text, ended - began, ended, ended)
            while len(self._texts) > _CACHED:
                del self._texts[next(iter(self._texts))]
            return text


def _state_of(members: Sequence[Member]) -> Hashable:
    """Return a value that is unequal to the previous one if a snapshot may have changed."""
    return tuple(
        (m.slug, m.title, m.tags, m.state, m.link.revision, m.link.newest_event, m.link.as_of is None) for m in members
    )
