"""Detect problems of a queue, a store or the broker's memory from one sample. Pure: values in, findings out.

A finding describes the problem and says what to do. `DETECTORS` has how long a finding must last before it is a
condition; `active.py` measures that time. Detectors read attributes as brokers declare them; a number that a broker
does not report counts as 0, and a queue whose state or depth is unknown has no findings. Advice names only what the
broker can do (`remedies.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from brokers.model import ObjectName, scope_label
from brokers.model.reasons import RESOURCES, Shortage
from console.conditions.remedies import ALL, Remedies
from console.conditions.trends import NO_RATES, Rates

Row = Mapping[str, Any]

UNITS = ("messages", "bytes")

#: Each unit with the names of capacity, stop level and depth: detectors read them thousands of times per second.
_LEVELS = tuple((unit, f"effective_capacity_{unit}", f"effective_stop_{unit}", f"depth_{unit}") for unit in UNITS)

#: A queue is filling up if it reaches its stop level within this time at current rates, ms.
SOON = 5 * 60_000
#: A lower smoothed rate counts as no inflow, messages/s: the rate decays after a burst but never reaches 0.
LEAST_INFLOW = 0.1
#: A queue without an enqueued message for this long is not filling up, whatever its smoothed rate, ms.
NO_INFLOW = 5000
#: A queue is flapping if it became overfull FLAPS times within FLAPPING ms.
FLAPS, FLAPPING = 4, 5 * 60_000
#: For how long a violation of flow control is reported, ms.
BROKEN = 5 * 60_000
#: A store or memory is near its limit at this utilization, in percent.
NEAR = 80
#: Rates need at least this observation time to be a trend, ms.
_TREND = 6000
#: Depth above which growth of a queue without limits is reported, messages.
_MANY = 1000


#: Numbers of a queue that some kinds of brokers do not report.
_NUMBERS = (
    "depth_bytes",
    "producers",
    "blocked_producers",
    "unacknowledged_messages",
    *(f"effective_{level}_{unit}" for level in ("capacity", "stop", "resume") for unit in UNITS),
)

_numbers_of = itemgetter(*_NUMBERS)

SEVERITIES = ("trouble", "warning")


class Observation(NamedTuple):
    """Facts about a queue besides its attributes. Times in ms since the epoch, by the broker's clock.
    `overfull`: recent times at which it became overfull. `broken`: (time, text of the event) of links that the broker
    closed because they violated flow control. `short`: a shortage of the broker or virtual host, or an operator's stop
    of some clients, blocks producers.
    `remedies`: what can be done about it on this broker."""

    now: int
    rates: Rates = NO_RATES
    overfull: Sequence[int] = ()
    broken: Sequence[tuple[int, str]] = ()
    short: bool = False
    remedies: Remedies = ALL


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: a key of `DETECTORS`. `object`: text of the object's name. `severity`: `trouble` if producers are
    blocked or messages at risk now, else `warning`. `saw`: the problem, in a sentence."""

    kind: str
    object: str
    severity: str
    saw: str
    advice: str


@dataclass(frozen=True, slots=True)
class Detector:
    """`title`: for people. `after`: how long a finding must last before it is a condition, ms. `retain`: how long a
    condition stays active after it was last found, so that it does not flicker, ms. `ended`: whether a queue's
    attributes contradict the condition, which then ends at once."""

    title: str
    after: int
    retain: int
    find: Callable[[Row, Observation], tuple[str, str, str] | None] | None = None
    ended: Callable[[Row], bool] = lambda row: False


def queue_findings(row: Row, observed: Observation) -> list[Finding]:
    """Return the problems of a queue; `row` has its attributes and `object`."""
    if row.get("state") is None or row.get("depth_messages") is None:
        return []
    if _lacks_numbers(row):
        row = {**row, **{name: 0 for name in _NUMBERS if row.get(name) is None}}
    findings = []
    for kind, find in _OF_QUEUES:
        found = find(row, observed)
        if found is not None:
            findings.append(Finding(kind, row["object"], *found))
    return findings


def is_ordinary(row: Row, growth: tuple[float, float]) -> bool:
    """Return whether no detector can find a problem of the queue from its attributes and its growth in messages and
    bytes per second, or less: that of nearly all queues that change, thousands of times per second. Detectors of events
    (`overfull`, `broken`) are not considered."""
    if row.get("state") != "NORMAL" or row.get("blocked_producers") or row.get("stops"):
        return False
    for (unit, capacity_of, stop_level, depth_of), net in zip(_LEVELS, growth, strict=True):
        depth = row.get(depth_of)
        if not depth:
            continue
        stop = row.get(stop_level)
        if stop:
            if net > 0 and depth >= 0.05 * stop and 1000 * (stop - depth) < SOON * net:
                return False
            continue
        grows = unit == "messages" and depth > _MANY and net > 1
        if grows or depth > (row.get(capacity_of) or math.inf):
            return False
    return True


def _lacks_numbers(row: Row) -> bool:
    try:
        return None in _numbers_of(row)
    except KeyError:
        return True


def broker_findings(broker: Row, remedies: Remedies = ALL) -> Iterator[Finding]:
    """Yield resources of the broker that are near or above their limits."""
    short = [found for text in broker.get("shortages") or () if (found := Shortage.parse(text)) is not None]
    for what in (*RESOURCES, *sorted({each.resource for each in short} - RESOURCES.keys())):
        used, limit = broker.get(f"{what}_used_bytes") or 0, broker.get(f"{what}_limit_bytes") or 0
        over = [each for each in short if each.resource == what]
        words = RESOURCES.get(what, what)
        advice = _advice(_raise(f"{what}_limit", remedies), remedies)
        if over and (not limit or any(each.node for each in over)):
            yield _short(over, words, advice)  # the numbers are unknown, or those of all nodes
        elif limit and (over or 100 * used >= NEAR * limit):
            yield _near("type=Broker", f"The broker's {words}", used, limit, over=bool(over), advice=advice)


def _raise(field: str, remedies: Remedies) -> str:
    return f"raise {field}" if remedies.sets(field) else "raise the limit in the configuration of the broker"


def _advice(instead: str, remedies: Remedies) -> str:
    return f"{remedies.removal.capitalize()} the messages of the deepest queues, or {instead}."


def _short(shortages: Sequence[Shortage], words: str, advice: str) -> Finding:
    """Return the finding of a resource of which the broker says only that it is above its limit."""
    nodes = ", ".join(each.node for each in shortages if each.node)
    where = f"Node {nodes}" if nodes else "The broker"
    what = shortages[0].resource if nodes and shortages[0].resource != "disk" else words
    saw = f"{where} is above its limit for {what}: producers are blocked until usage is below the limit."
    return Finding("near-limit", "type=Broker", "trouble", saw, advice)


def host_findings(host: Row, remedies: Remedies = ALL) -> Iterator[Finding]:
    """Yield the store of a virtual host if it is near or above its limit; `host` has its attributes and `object`."""
    used, limit = host.get("store_used_bytes") or 0, host.get("store_overfull_bytes") or 0
    over = bool(host.get("store_overfull"))
    if over and (not limit or used < (host.get("store_underfull_bytes") or limit)):
        saw = f"The disk has no space for the store of virtual host {host['name']}: all its producers are blocked."
        advice = f"Free disk space, or {remedies.removal} stored messages."
        yield Finding("near-limit", host["object"], "trouble", saw, advice)
    elif limit and (over or 100 * used >= NEAR * limit):
        advice = _advice(_raise("store_overfull_bytes", remedies), remedies)
        yield _near(host["object"], f"The store of virtual host {host['name']}", used, limit, over=over, advice=advice)


def _near(name: str, what: str, used: int, limit: int, *, over: bool, advice: str) -> Finding:
    part = f"{100 * used // limit}% of the limit ({used:,} of {limit:,} bytes)"
    if over:
        saw = f"{what}: {part}. Producers are blocked until usage is below the limit."
    else:
        saw = f"{what}: {part}. Above the limit, all producers are blocked."
    return Finding("near-limit", name, "trouble" if over else "warning", saw, advice)


# -- queues ---------------------------------------------------------------------------------------------------------


def _blocked_without_consumer(row: Row, observed: Observation) -> tuple[str, str, str] | None:
    if row.get("consumers") != 0 or not row["state"].startswith("OVERFULL"):  # unknown is not none
        return None
    if row["blocked_producers"]:
        blocked = f"{_producers(row['blocked_producers'])} blocked"
    elif row.get("mechanism") == "reject":
        blocked = "The queue rejects all messages"
    else:
        return None
    return (
        "trouble",
        f"{blocked} and the queue has no consumers. Depth: {_messages(row['depth_messages'])}.",
        "Start a consumer. Purge the queue if its messages are not needed; a higher capacity only delays the problem."
        if observed.remedies.purge
        else "Start a consumer. A higher capacity only delays the problem.",
    )


def _blocked_although_underfull(row: Row, observed: Observation) -> tuple[str, str, str] | None:
    blocked, state = row["blocked_producers"], row["state"]
    if not blocked or state.endswith("STOPPED") or observed.short:
        return None
    limited = [unit for unit in UNITS if row.get(f"effective_stop_{unit}")]
    at_resume = all(row[f"depth_{u}"] <= (row.get(f"effective_resume_{u}") or 0) for u in limited)
    if state == "NORMAL" or at_resume:
        return (
            "trouble",
            f"{_producers(blocked)} blocked, although the queue is neither overfull nor stopped and the broker has no"
            " shortage.",
            "Check the reasons of the producers. If they persist,"
            f" {'close the connections' if observed.remedies.close else 'restart the clients'}: clients that reconnect"
            " are not blocked.",
        )
    below_stop = all(row[f"depth_{u}"] <= row[f"effective_stop_{u}"] for u in limited)
    above_resume = [u for u in limited if row[f"depth_{u}"] > (row.get(f"effective_resume_{u}") or 0)]
    if not below_stop or not row.get("consumers") or observed.rates.observed_ms < _TREND:
        return None
    if any(observed.rates.net(unit) < -0.05 for unit in above_resume):
        return None
    unit = above_resume[0]
    return (
        "trouble",
        f"{_producers(blocked)} blocked at a depth of {row[f'depth_{unit}']:,} {unit}, below the stop level of"
        f" {row[f'effective_stop_{unit}']:,}; the depth does not fall to the resume level of"
        f" {row[f'effective_resume_{unit}']:,}.",
        "Check its consumers: they may have unacknowledged messages."
        + (
            " A higher resume level unblocks the producers at once."
            if observed.remedies.sets(f"flow_resume_{unit}")
            else ""
        ),
    )


def _flapping(row: Row, observed: Observation) -> tuple[str, str, str] | None:
    if len(observed.overfull) < FLAPS:
        return None
    lately = [at for at in observed.overfull if observed.now - at <= FLAPPING]
    if len(lately) < FLAPS:
        return None
    shares = [
        100 * (row.get(f"effective_resume_{unit}") or 0) // row[f"effective_stop_{unit}"]
        for unit in UNITS
        if row.get(f"effective_stop_{unit}")
    ]
    if shares and max(shares) > 85 and observed.remedies.sets("flow_resume_messages", "flow_resume_bytes"):
        advice = (
            f"The resume level is {max(shares)}% of the stop level. Lower it, for example to 70%: producers are then"
            " blocked less often, but for longer."
        )
    elif observed.remedies.sets("capacity_messages", "capacity_bytes"):
        advice = "The consumers cannot keep up with peaks: add consumers, or raise the capacity to absorb the peaks."
    else:
        advice = "The consumers cannot keep up with peaks: add consumers."
    return ("warning", f"The queue became overfull {len(lately)} times in {FLAPPING // 60_000} minutes.", advice)


def _filling_up(row: Row, observed: Observation) -> tuple[str, str, str] | None:
    rates = observed.rates
    if row["state"] != "NORMAL" or rates.observed_ms < _TREND or row.get("overflow") == "ring":
        return None
    if rates.messages_in < LEAST_INFLOW or rates.quiet_ms >= NO_INFLOW:
        return None
    left = []
    for unit, _, stop_level, depth_of in _LEVELS:
        stop, depth, net = row.get(stop_level), row[depth_of], rates.net(unit)
        if stop and net > 0 and depth >= 0.05 * stop:
            left.append((max(0.0, (stop - depth) / net), unit))
    if not left or min(left)[0] * 1000 >= SOON:
        return None
    seconds, unit = min(left)
    return (
        "warning",
        f"Full in about {_duration(seconds)} at current rates: {row[f'depth_{unit}']:,} of"
        f" {row[f'effective_stop_{unit}']:,} {unit}, growing by {_rate(rates.net(unit), unit)};"
        f" {_rate(rates.messages_in)} in, {_rate(rates.messages_out)} out.",
        "Add consumers now, or raise the capacity if this is a temporary peak."
        if observed.remedies.sets(f"capacity_{unit}")
        else "Add consumers now.",
    )


def _flow_control_bypassed(row: Row, observed: Observation) -> tuple[str, str, str] | None:
    if broken := [text for at, text in observed.broken if observed.now - at <= BROKEN]:
        return (
            "warning",
            f"The broker closed {len(broken)} {'link' if len(broken) == 1 else 'links'} that violated flow control;"
            f" the last: {broken[-1]}",
            "The client sends without credit or violates the protocol otherwise: fix or update the client.",
        )
    rates, trend, remedies = observed.rates, observed.rates.observed_ms >= _TREND, observed.remedies
    for unit, capacity_of, stop_level, depth_of in _LEVELS:
        capacity, stop, depth = row.get(capacity_of) or 0, row.get(stop_level) or 0, row[depth_of]
        if capacity and not stop and depth > capacity and row["producers"]:
            return (
                "trouble",
                f"Depth {depth:,} {unit} exceeds the capacity of {capacity:,}, and flow control is off: nothing blocks"
                f" the {_attached(row['producers'])}.",
                _either(
                    "turn on flow_control for the queue" if remedies.sets("flow_control") else "",
                    "stop its producers until the depth is below the capacity" if remedies.stop else "",
                ),
            )
        if stop and depth > 1.05 * stop + 10 and trend and rates.net(unit) > 0.5 and rates.messages_in > 0.5:
            return (
                "trouble",
                f"Depth {depth:,} {unit} is {depth - stop:,} above the stop level and still grows:"
                f" {_rate(rates.messages_in)} in.",
                "Either its mechanism accepts messages while the queue is overfull (hold, spool), or the messages are"
                " not limited by credit (routed or dead-lettered)."
                + (" Stop its producers if it must not grow further." if remedies.stop else ""),
            )
    grows = trend and row["producers"] and row["depth_messages"] > _MANY and rates.messages_net > 1
    if grows and not any(row.get(f"effective_{what}_{unit}") for what in ("capacity", "stop") for unit in UNITS):
        return (
            "warning",
            f"The queue has no capacity and grows by {_rate(rates.messages_net)}; depth {row['depth_messages']:,}"
            " messages.",
            _set_capacity(remedies),
        )
    return None


def _either(*possible: str) -> str:
    """Return advice to do one of these; an empty text is not possible here."""
    named = [text for text in possible if text] or ["add consumers"]
    advice = ", or ".join(named)
    return f"{advice[0].upper()}{advice[1:]}."


def _set_capacity(remedies: Remedies) -> str:
    without = "only a shortage of the broker's memory or store blocks its producers."
    if not remedies.sets("capacity_messages", "capacity_bytes"):
        return f"Add consumers: without a capacity, {without}"
    return f"Set a capacity{', for example in a pattern policy' if remedies.patterns else ''}: without one, {without}"


def covers_clients(stop: Mapping[str, Any], row: Row) -> bool:
    """Return whether an operator's stop is restricted to clients, and may cover producers of a queue. Patterns and
    bindings do not count: a queue that they leave out is taken as covered."""
    if not (stop.get("user") or stop.get("container_id") or stop.get("link")):
        return False
    name = ObjectName.parse(str(stop["object"]))
    if name.type == "Queue":
        return bool(str(name) == row["object"])
    return bool(name.type == "Broker" or row["virtualhost"] == name.get("virtualhost", name.get("name")))


def _halted_start(row: Row, observed: Observation) -> tuple[str, str, str] | None:
    """Report the halt on the queue that caused it, so that only users who see that queue see the condition."""
    for stop in row.get("stops") or ():
        halted = stop.get("halted")
        if halted and halted["queue"] == row["object"]:
            by = f" by {halted['actor']}" if halted["actor"] else ""
            scope = scope_label(stop["scope"])
            return (
                "trouble",
                f"The staged start{by} ({scope}) halted because this queue is at {halted['percent']}%, above"
                f" {halted['limit']}%: the producers of {scope} are stopped again.",
                "Wait until its consumers catch up, then repeat the staged start: slower, or with a higher limit.",
            )
    return None


DETECTORS: Mapping[str, Detector] = {
    "halted-start": Detector("Staged start halted", 0, 0, _halted_start),
    "blocked-without-consumer": Detector("Blocked without consumers", 4000, 2000, _blocked_without_consumer),
    "underfull-yet-blocked": Detector("Blocked although underfull", 6000, 2000, _blocked_although_underfull),
    "outside-flow-control": Detector("Flow control bypassed", 0, 5000, _flow_control_bypassed),
    "near-limit": Detector("Near its limit", 0, 5000),
    "full-soon": Detector("Filling up", 3000, 3000, _filling_up, lambda row: row["state"] != "NORMAL"),
    "flapping": Detector("Flapping", 0, 5000, _flapping),
}

#: Called for each queue that changes, thousands of times per second: what excludes most queues is tested first.
_OF_QUEUES = tuple((kind, detector.find) for kind, detector in DETECTORS.items() if detector.find is not None)


def _producers(count: int) -> str:
    return "1 producer is" if count == 1 else f"{count:,} producers are"


def _attached(count: int) -> str:
    return "1 producer" if count == 1 else f"{count:,} producers"


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _rate(per_second: float, unit: str = "messages") -> str:
    """Return a rate with its unit, which may differ from that of a depth in the same sentence."""
    return f"{per_second:,.0f} {unit}/s" if per_second >= 10 or unit == "bytes" else f"{per_second:.1f} {unit}/s"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
