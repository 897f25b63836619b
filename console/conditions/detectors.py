"""What looks wrong in a queue, a store or the broker's memory, seen at one moment. Pure: values in, findings out.

A finding says what was seen and what to do. How long it must last before anybody is told stands in `DETECTORS`;
`standing.py` keeps that time. A detector sees attributes as brokers declare them, and does without those that a broker
does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.conditions.trends import NO_RATES, Rates

Row = Mapping[str, Any]

UNITS = ("messages", "bytes")

#: A queue that fills up within this time at the present rates is shown, ms.
SOON = 5 * 60_000
#: Less than this is no inflow, messages/s: what is left of a burst in the smoothed rate fades, and is never 0.
LEAST_INFLOW = 0.1
#: After this long without a message in, ms, the queue does not fill up, whatever its smoothed rate still says.
NO_INFLOW = 5000
#: So often overfull within so long (ms) is flapping.
FLAPS, FLAPPING = 4, 5 * 60_000
#: How long the client that broke flow control is told, ms.
BROKEN = 5 * 60_000
#: From this part of its limit on a store or memory is near it, in percent.
NEAR = 80
#: Rates of a queue that was looked at for less are no trend, ms.
_TREND = 6000
#: Messages that queues without any limit may hold before their growth is told.
_MANY = 1000


SEVERITIES = ("trouble", "warning")


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of a queue besides its attributes. Times in ms since the epoch, by the broker's clock.
    `overfull`: when it became overfull lately. `broken`: (when, what the broker said) of links that it ended since
    they broke flow control. `short`: something its broker or virtual host has run short of holds its producers."""

    now: int
    rates: Rates = NO_RATES
    overfull: Sequence[int] = ()
    broken: Sequence[tuple[int, str]] = ()
    short: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: a key of `DETECTORS`. `object`: text of the object's name. `severity`: `trouble` if producers are held
    or messages endangered now, else `warning`."""

    kind: str
    object: str
    severity: str
    saw: str
    advice: str


@dataclass(frozen=True, slots=True)
class Detector:
    """`title` for people; `after`: how long it must be seen before it is told, ms; `keep`: for how long after it was
    seen last it is still told, so that it does not flicker. `ended`: whether a queue's attributes contradict it, so
    that it is not kept for any longer."""

    title: str
    after: int
    keep: int
    find: Callable[[Row, Sight], tuple[str, str, str] | None] | None = None
    ended: Callable[[Row], bool] = lambda row: False


def of_queue(row: Row, sight: Sight) -> Iterator[Finding]:
    """What looks wrong in a queue; `row` has its attributes and `object`."""
    for kind, detector in DETECTORS.items():
        found = detector.find(row, sight) if detector.find is not None else None
        if found is not None:
            yield Finding(kind, row["object"], *found)


def of_broker(broker: Row) -> Iterator[Finding]:
    """Its memory and stores near their limits."""
    for what, words in (("memory", "messages in memory"), ("store", "stored messages"), ("temp", "spooled messages")):
        used, limit = broker.get(f"{what}_used_bytes") or 0, broker.get(f"{what}_limit_bytes") or 0
        over = f"{what}-overfull" in (broker.get("shortages") or ())
        if limit and (over or 100 * used >= NEAR * limit):
            yield _near("type=Broker", f"The broker's {words}", used, limit, over=over, instead=f"raise {what}_limit")


def of_host(host: Row) -> Iterator[Finding]:
    """The store of a virtual host near its limit; `host` has its attributes and `object`."""
    used, limit = host.get("store_used_bytes") or 0, host.get("store_overfull_bytes") or 0
    over = bool(host.get("store_overfull"))
    if over and (not limit or used < (host.get("store_underfull_bytes") or limit)):
        saw = f"The disk refuses the store of virtual host {host['name']}: all its producers are held."
        yield Finding(
            "near-limit", host["object"], "trouble", saw, "Make room on the disk, or consume messages that are stored."
        )
    elif limit and (over or 100 * used >= NEAR * limit):
        yield _near(
            host["object"],
            f"The store of virtual host {host['name']}",
            used,
            limit,
            over=over,
            instead="raise store_overfull_bytes",
        )


def _near(name: str, what: str, used: int, limit: int, *, over: bool, instead: str) -> Finding:
    part = f"{100 * used // limit} % of its limit ({used:,} of {limit:,} bytes)"
    if over:
        saw = f"{what}: {part}. Producers are held until it is below."
    else:
        saw = f"{what}: {part}. Above it every producer is held."
    advice = f"Consume or purge the deepest queues, or {instead}."
    return Finding("near-limit", name, "trouble" if over else "warning", saw, advice)


# -- queues ---------------------------------------------------------------------------------------------------------


def _blocked_without_consumer(row: Row, sight: Sight) -> tuple[str, str, str] | None:
    if not row["blocked_producers"] or row["consumers"] or not row["state"].startswith("OVERFULL"):
        return None
    return (
        "trouble",
        f"{_producers(row['blocked_producers'])} held and nobody consumes: {row['depth_messages']:,} messages wait.",
        "Start a consumer. If its messages are of no use, purge it; a higher capacity only buys time.",
    )


def _underfull_yet_blocked(row: Row, sight: Sight) -> tuple[str, str, str] | None:
    blocked, state = row["blocked_producers"], row["state"]
    if not blocked or state.endswith("STOPPED") or sight.short:
        return None
    limited = [unit for unit in UNITS if row.get(f"effective_stop_{unit}")]
    at_resume = all(row[f"depth_{u}"] <= (row.get(f"effective_resume_{u}") or 0) for u in limited)
    if state == "NORMAL" or at_resume:
        return (
            "trouble",
            f"{_producers(blocked)} held, though the queue is neither overfull nor stopped, and nothing is short.",
            "Look at the producers' reasons. If they do not go, close their connections: the clients come back free.",
        )
    below_stop = all(row[f"depth_{u}"] <= row[f"effective_stop_{u}"] for u in limited)
    holding = [u for u in limited if row[f"depth_{u}"] > (row.get(f"effective_resume_{u}") or 0)]
    if not below_stop or not row["consumers"] or sight.rates.seen_ms < _TREND:
        return None
    if any(sight.rates.net(unit) < -0.05 for unit in holding):
        return None
    unit = holding[0]
    return (
        "trouble",
        f"{_producers(blocked)} held at {row[f'depth_{unit}']:,} {unit}, below the stop level"
        f" of {row[f'effective_stop_{unit}']:,}: it resumes at {row[f'effective_resume_{unit}']:,} and does not come"
        " down.",
        "See what its consumers are doing: they may hold messages unacknowledged. A higher resume level frees the"
        " producers at once.",
    )


def _flapping(row: Row, sight: Sight) -> tuple[str, str, str] | None:
    lately = [at for at in sight.overfull if sight.now - at <= FLAPPING]
    if len(lately) < FLAPS:
        return None
    shares = [
        100 * (row.get(f"effective_resume_{unit}") or 0) // row[f"effective_stop_{unit}"]
        for unit in UNITS
        if row.get(f"effective_stop_{unit}")
    ]
    if shares and max(shares) > 85:
        advice = (
            f"It resumes at {max(shares)} % of its stop level already. Lower the resume level, to 70 % say: its"
            " producers are then held less often, and longer."
        )
    else:
        advice = "Its consumers cannot keep up with the peaks: add consumers, or raise its capacity to ride them out."
    return ("warning", f"It became overfull {len(lately)} times in {FLAPPING // 60_000} minutes.", advice)


def _full_soon(row: Row, sight: Sight) -> tuple[str, str, str] | None:
    rates = sight.rates
    if row["state"] != "NORMAL" or rates.seen_ms < _TREND or row.get("overflow") == "ring":
        return None
    if rates.messages_in < LEAST_INFLOW or rates.quiet_ms >= NO_INFLOW:
        return None
    left = []
    for unit in UNITS:
        stop, depth, net = row.get(f"effective_stop_{unit}"), row[f"depth_{unit}"], rates.net(unit)
        if stop and net > 0 and depth >= 0.05 * stop:
            left.append((max(0.0, (stop - depth) / net), unit))
    if not left or min(left)[0] * 1000 >= SOON:
        return None
    seconds, unit = min(left)
    return (
        "warning",
        f"Full in about {_duration(seconds)} at the present rates: {row[f'depth_{unit}']:,} of"
        f" {row[f'effective_stop_{unit}']:,} {unit}, growing by {_rate(rates.net(unit), unit)};"
        f" {_rate(rates.messages_in)} in, {_rate(rates.messages_out)} out.",
        "Add consumers now, or raise its capacity if this is a peak that will pass.",
    )


def _outside_flow_control(row: Row, sight: Sight) -> tuple[str, str, str] | None:
    broken = [said for at, said in sight.broken if sight.now - at <= BROKEN]
    if broken:
        return (
            "warning",
            f"The broker ended {len(broken)} {'link' if len(broken) == 1 else 'links'} that broke flow control;"
            f" the last: {broken[-1]}",
            "That client sends without credit, or breaks the protocol otherwise: have it repaired or updated.",
        )
    rates, trend = sight.rates, sight.rates.seen_ms >= _TREND
    for unit in UNITS:
        capacity, stop = row.get(f"effective_capacity_{unit}") or 0, row.get(f"effective_stop_{unit}") or 0
        depth = row[f"depth_{unit}"]
        if capacity and not stop and depth > capacity and row["producers"]:
            return (
                "trouble",
                f"It holds {depth:,} {unit}, its capacity is {capacity:,}, and flow control is off for it: nothing"
                f" holds its {_attached(row['producers'])}.",
                "Turn flow_control on for it, or stop its producers until it is empty enough.",
            )
        if stop and depth > 1.05 * stop + 10 and trend and rates.net(unit) > 0.5 and rates.messages_in > 0.5:
            return (
                "trouble",
                f"It holds {depth:,} {unit}, {depth - stop:,} above its stop level, and still grows:"
                f" {_rate(rates.messages_in)} come in.",
                "Its mechanism takes messages in while it is full (hold, spool), or what comes in is not held by credit"
                " (routed or dead-lettered messages). Stop its producers if it must not grow further.",
            )
    unlimited = not any(row.get(f"effective_{what}_{unit}") for what in ("capacity", "stop") for unit in UNITS)
    if unlimited and trend and row["producers"] and row["depth_messages"] > _MANY and rates.messages_net > 1:
        return (
            "warning",
            f"It has no capacity and grows by {_rate(rates.messages_net)}, to {row['depth_messages']:,} messages now.",
            "Give it a capacity, by a policy for its pattern: nothing holds its producers before the broker's memory"
            " or store does.",
        )
    return None


def _halted_start(row: Row, sight: Sight) -> tuple[str, str, str] | None:
    """Of the queue that made it halt, whose stops tell it: whoever sees that queue may know, and nobody else."""
    for stop in row.get("stops") or ():
        halted = stop.get("halted")
        if halted and halted["queue"] == row["object"]:
            by = f" that {halted['actor']} began" if halted["actor"] else ""
            return (
                "trouble",
                f"The staged start{by} ({stop['scope']}) halted, since this queue is at {halted['percent']}%, above"
                f" {halted['limit']}%: the producers of {stop['scope']} are stopped again.",
                "Let its consumers catch up, then begin the staged start again: slower, or with a higher limit.",
            )
    return None


DETECTORS: Mapping[str, Detector] = {
    "halted-start": Detector("Staged start halted", 0, 0, _halted_start),
    "blocked-without-consumer": Detector("Blocked, and no consumer", 4000, 2000, _blocked_without_consumer),
    "underfull-yet-blocked": Detector("Underfull, yet blocked", 6000, 2000, _underfull_yet_blocked),
    "outside-flow-control": Detector("Outside flow control", 0, 5000, _outside_flow_control),
    "near-limit": Detector("Near its limit", 0, 5000),
    "full-soon": Detector("Filling up", 3000, 3000, _full_soon, lambda row: row["state"] != "NORMAL"),
    "flapping": Detector("Flapping", 0, 5000, _flapping),
}


def _producers(count: int) -> str:
    return "1 producer is" if count == 1 else f"{count:,} producers are"


def _attached(count: int) -> str:
    return "1 producer" if count == 1 else f"{count:,} producers"


def _rate(per_second: float, unit: str = "messages") -> str:
    """With its unit: beside bytes "3.1/s" would read as bytes a second."""
    return f"{per_second:,.0f} {unit}/s" if per_second >= 10 or unit == "bytes" else f"{per_second:.1f} {unit}/s"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
