"""The flow-control attributes that other brokers do not report, derived from what they do report. Pure.

An adapter says whether a queue is `overfull` and whether a producer is `blocked` (True, False, or None if the broker
does not say); since when, for how long and how often follows from one observation to the next. Rates follow from
counters. A time derived like this is the time of the observation: the change happened since the one before. What is
unknown for a while has not ended: a queue that is overfull when its node fails, and when it returns, was so throughout.
"""

from __future__ import annotations

from typing import Any

from brokers.adapters.observation import Attributes

#: Counter -> the rate that follows from it.
RATES = {"enqueued_messages": "rate_in", "dequeued_messages": "rate_out"}

#: Counters within a shorter time give no useful rate, ms.
SHORTEST = 500

#: A rate from counters that have not been read for longer is not of the last second any more, ms.
LONGEST = 15_000


def queue_state(*, overfull: bool | None, stopped: bool) -> str | None:
    """Return the state of a queue; None if the broker does not say whether it is overfull and it is not stopped."""
    if stopped:
        return "OVERFULL_STOPPED" if overfull else "STOPPED"
    if overfull is None:
        return None
    return "OVERFULL" if overfull else "NORMAL"


#: Of a queue that no stop covers: the core knows all stops, so this is known. One for all queues.
_NO_STOPS: list[dict[str, Any]] = []


def derive(type_name: str, before: Attributes | None, read: Attributes, at: int) -> dict[str, Any]:
    """Return the attributes of an object that was `before` (None: new) after `read` was read of it, completed. `at`: ms
    since the epoch."""
    after = {**(before or {}), **read}
    if type_name == "Queue":
        _queue(before, after, at)
        after["counted"] = dict(after.get("counted", {}))
        for counter, rate in RATES.items():
            _rate(before, after, at, counter, rate, counted=counter in read)
    elif type_name == "Producer":
        _producer(before, after, at)
    return after


def is_at_rest(type_name: str, before: dict[str, Any], read: Attributes, at: int) -> bool:
    """Return whether `derive` would change nothing of an object: that of nearly all that are read each second, which
    this spares most of its cost. The times of a queue's counters are brought up to date."""
    if not read.items() <= before.items():
        return False
    if type_name == "Producer":
        return "state" in before
    if type_name != "Queue":
        return True
    if "state" not in before or "stops" not in before:
        return False  # remembered by an earlier process
    marks, still = before.get("counted", {}), {}
    for counter, rate in RATES.items():
        value = before.get(counter)
        if value is None:
            continue
        last, last_value = marks.get(counter, (at, None))
        if before.get(rate) != 0.0 or value != last_value or not 0 <= at - last <= LONGEST:
            return False
        if counter in read and at - last >= SHORTEST:
            still[counter] = (at, value)
    if still:
        before["counted"] = {**marks, **still}
    return True


def _queue(before: Attributes | None, after: dict[str, Any], at: int) -> None:
    _since(before, after, at, fact="overfull")
    after.setdefault("stops", _NO_STOPS)
    after["state"] = queue_state(overfull=after.get("overfull"), stopped=after.get("stopped_since") is not None)


def _producer(before: Attributes | None, after: dict[str, Any], at: int) -> None:
    blocked = after.get("blocked")
    _since(before, after, at, fact="blocked")
    after["state"] = None if blocked is None else "BLOCKED" if blocked else "RUNNING"


def is_so(attributes: Attributes | None, fact: str) -> bool:
    """Return whether an object is overfull or blocked, by what was last known of it."""
    if attributes is None:
        return False
    known = attributes.get(fact)
    return attributes.get(f"{fact}_since") is not None if known is None else bool(known)


def _since(before: Attributes | None, after: dict[str, Any], at: int, *, fact: str) -> None:
    """Set FACT_since, FACT_count and FACT_ms, the last without the present time."""
    was, now = is_so(before, fact), is_so(after, fact)
    since = before.get(f"{fact}_since") if before else None
    count, total = (before.get(f"{fact}_count", 0), before.get(f"{fact}_ms", 0)) if before else (0, 0)
    if now and not was:
        since, count = at, count + 1
    elif was and not now:
        total += max(0, at - (since if since is not None else at))
        since = None
    after[f"{fact}_since"], after[f"{fact}_count"], after[f"{fact}_ms"] = since, count, total


def _rate(before: Attributes | None, after: dict[str, Any], at: int, counter: str, rate: str, *, counted: bool) -> None:
    """Set the rate from two readings of its counter. The attribute `counted` of the inventory's own has the last ones
    used: counter -> (ms, value); it is brought up to date. `counted`: the counter was read."""
    marks: dict[str, tuple[int, int]] = after["counted"]
    value = after.get(counter)
    if value is None:
        return
    last, last_value = marks.get(counter, (at, value))
    known = before.get(rate) if before else None
    if value < last_value or at < last or at - last > LONGEST or counter not in marks:
        known = None  # the broker has restarted, or was not read for long
        if counted:
            marks[counter] = (at, value)
    elif counted and at - last >= SHORTEST:
        known, marks[counter] = (value - last_value) * 1000 / (at - last), (at, value)
    after[rate] = known
