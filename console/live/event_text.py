"""An event as the JSON text that pages get: encoded once, however many pages there are."""

from __future__ import annotations

from collections import OrderedDict

from brokers.admin import Event
from console.live.snapshot_cache import encode
from console.live.watching import event_shown

#: Events whose text is kept: those that pages may be behind by.
_KEPT = 5000

#: By identity: brokers count their events each for itself. The event is kept with its text, so that no other can have
#: its identity meanwhile.
_texts: OrderedDict[int, tuple[Event, str]] = OrderedDict()


def event_text(event: Event) -> str:
    """For the event loop of the sockets only."""
    known = _texts.get(id(event))
    if known is not None:
        return known[1]
    text = encode(event_shown(event))
    _texts[id(event)] = event, text
    while len(_texts) > _KEPT:
        _texts.popitem(last=False)
    return text
