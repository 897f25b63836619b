"""Encode an event as the JSON text for pages, once for all pages."""

from __future__ import annotations

from collections import OrderedDict

from brokers.admin import Event
from console.live.snapshot_cache import encode
from console.live.watching import event_json

#: Cached texts: as many events as pages may lag behind.
_CACHED = 5000

#: By identity, since event numbers are unique only per broker. The event is stored with its text, so that its identity
#: is not reused.
_texts: OrderedDict[int, tuple[Event, str]] = OrderedDict()


def event_text(event: Event) -> str:
    """Return the text of an event. Only for the event loop of the sockets."""
    cached = _texts.get(id(event))
    if cached is not None:
        return cached[1]
    text = encode(event_json(event))
    _texts[id(event)] = event, text
    while len(_texts) > _CACHED:
        _texts.popitem(last=False)
    return text
