"""Recommend limits for what was recorded of a queue, or say why other limits are no remedy. Pure.

The page of one queue and the nightly job for all queues use it. A recommended capacity is a whole number, fits into
the broker's memory and store if these are known, and is compared with what was recorded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from console.history.whatif.causes import cause_of
from console.history.whatif.comparison import Simulated, Simulation, simulation_of
from console.history.whatif.recording import Recording
from console.history.whatif.replay import Limits

#: Shares of the recorded overfull time that a recommended capacity avoids, at least: the first that one reaches.
AVOIDED = (0.95, 0.5)
#: Capacities that are tried, as multiples of the current one: 1.19 to 256.
_FACTORS = tuple(2 ** (n / 4) for n in range(1, 33))
#: Of minutes, the recommended capacity is this many tried ones above the smallest that is enough: 1.4 times as large.
_SPARE = 2
#: Resume levels that are tried, as shares of the stop level.
_RESUMES = (0.9, 0.8, 0.7, 0.5)
#: A queue flaps if it has at least this many episodes, shorter than this many seconds on average.
_FLAP_SECONDS, _FLAP_EPISODES = 5.0, 20
#: A capacity of which the queue never used more than this share is too large to protect anything.
_NEVER_REACHED = 0.25
#: Seconds of recorded traffic required before a capacity counts as never reached.
_LONG_ENOUGH = 7 * 86_400.0
#: A resume level that divides the episodes by this is recommended.
_CALMER = 3

ADVICE = pa.schema(
    [
        ("kind", pa.string()),  # one of `kinds.KINDS`
        ("text", pa.string()),  # the recommendation as a sentence
        ("observed_seconds", pa.float64()),
        ("recorded_blocked_seconds", pa.float64()),  # blocked producer time, as in the top lists
        ("recorded_overfull_seconds", pa.float64()),
        # Blocked producer time, simulated with the current limits: the closer to the recorded value, the better the
        # model.
        ("simulated_blocked_low_seconds", pa.float64()),
        ("simulated_blocked_high_seconds", pa.float64()),
        ("peak_messages", pa.float64()),  # recorded
        ("peak_bytes", pa.float64()),
        # The current and the recommended limits (null: no change). 0: no limit.
        ("stop_messages", pa.float64()),
        ("resume_messages", pa.float64()),
        ("stop_bytes", pa.float64()),
        ("resume_bytes", pa.float64()),
        ("recommended_stop_messages", pa.int64()),
        ("recommended_resume_messages", pa.int64()),
        ("recommended_stop_bytes", pa.int64()),
        ("recommended_resume_bytes", pa.int64()),
        ("recommended_blocked_low_seconds", pa.float64()),
        ("recommended_blocked_high_seconds", pa.float64()),
        ("recommended_peak_bytes", pa.float64()),  # required memory or disk
    ]
)


@dataclass(frozen=True, slots=True)
class Room:
    """What is left of a broker's memory or store. `what`: memory or store; `free_bytes`: below its limit, now."""

    what: str
    free_bytes: float


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation. `limits`: the recommended limits with their `simulated` result; None: no change of limits."""

    kind: str
    text: str
    limits: Limits | None = None
    simulated: Simulated | None = None


def recommend(recording: Recording, rooms: tuple[Room, ...] = (), *, resumes: bool = True) -> Advice:
    """Return the most important recommendation. `rooms`: what the broker has left, if it is known. `resumes`: resume
    levels can be set there."""
    current = recording.current
    if not current.limited:
        peak = f"{recording.peak_messages:,.0f} messages, {_bytes(recording.peak_bytes)}"
        return Advice("no-limit", f"No capacity is set. Highest depth: {peak}.")
    simulation = simulation_of(recording)
    now = simulation.of(current)
    if recording.overfull_seconds <= 0 and now.low.blocked_seconds <= 0:
        return _unblocked(recording)
    if cause := cause_of(recording):
        return Advice(cause.kind, cause.text)
    if now.high.blocked_seconds <= 0:
        return Advice(
            "none",
            f"The queue was overfull for {_duration(recording.overfull_seconds)}, under other limits: simulated with"
            " the current limits, it was not.",
        )
    mean = _compared_with(recording, now)[0] / max(now.high.episodes, 1)
    flaps = resumes and now.low.episodes >= _FLAP_EPISODES and mean < _FLAP_SECONDS
    if flaps and (calm := _less_flapping(simulation, now)):
        limits, simulated = calm
        share = (limits.resume_messages or limits.resume_bytes) / (limits.stop_messages or limits.stop_bytes)
        return Advice(
            "lower-resume",
            f"The queue flaps: {now.high.episodes:,} episodes of {mean:.1f} s on average, since the resume level is"
            f" too close to"
            f" the capacity. Simulated, a resume level of {share:.0%} reduces them to {simulated.high.episodes:,}.",
            limits,
            simulated,
        )
    return _capacity(recording, simulation, now, rooms)


def recommendation_row(recording: Recording, *, resumes: bool = True) -> dict[str, Any]:
    """Return a row of `ADVICE`. `resumes`: as for `recommend`."""
    advice = recommend(recording, resumes=resumes)
    current, producers = recording.current, recording.blocked.per_overfull_second
    now = simulation_of(recording).of(current)
    row: dict[str, Any] = dict.fromkeys(ADVICE.names)
    row |= {
        "kind": advice.kind,
        "text": advice.text,
        "observed_seconds": recording.observed_seconds,
        "recorded_blocked_seconds": recording.blocked.seconds,
        "recorded_overfull_seconds": recording.overfull_seconds,
        "simulated_blocked_low_seconds": now.low.blocked_seconds * producers,
        "simulated_blocked_high_seconds": now.high.blocked_seconds * producers,
        "peak_messages": recording.peak_messages,
        "peak_bytes": recording.peak_bytes,
        **{name: getattr(current, name) for name in _LEVELS},
    }
    if advice.limits is not None and advice.simulated is not None:
        row |= {f"recommended_{name}": round(getattr(advice.limits, name)) for name in _LEVELS}
        row |= {
            "recommended_blocked_low_seconds": advice.simulated.low.blocked_seconds * producers,
            "recommended_blocked_high_seconds": advice.simulated.high.blocked_seconds * producers,
            "recommended_peak_bytes": advice.simulated.high.peak_bytes,
        }
    return row


_LEVELS = ("stop_messages", "resume_messages", "stop_bytes", "resume_bytes")


def _unblocked(recording: Recording) -> Advice:
    current = recording.current
    used = max(
        recording.peak_messages / current.stop_messages if current.stop_messages else 0.0,
        recording.peak_bytes / current.stop_bytes if current.stop_bytes else 0.0,
    )
    if used < _NEVER_REACHED and recording.observed_seconds >= _LONG_ENOUGH:
        return Advice(
            "never-reached",
            f"The capacity of {_levels(current)} was never reached: the highest depth was {used:.1%} of it. The"
            f" limit has no"
            " effect.",
        )
    if recording.blocked.seconds > 0:
        return Advice(
            "none",
            f"The queue was not overfull. Its producers were blocked for {_duration(recording.blocked.seconds)}, by"
            f" stops, by"
            " other queues or by the broker's limits.",
        )
    return Advice("none", "The queue was not overfull.")


def _less_flapping(simulation: Simulation, now: Simulated) -> tuple[Limits, Simulated] | None:
    """Return the highest resume level that reduces the episodes enough; None if none does."""
    current = simulation.recording.current
    for share in _RESUMES:
        limits = _whole(current.scaled(1.0, share))
        if (limits.resume_messages, limits.resume_bytes) >= (current.resume_messages, current.resume_bytes):
            continue
        simulated = simulation.of(limits)
        if simulated.high.episodes <= now.high.episodes / _CALMER:
            return limits, simulated
    return None


def _compared_with(recording: Recording, now: Simulated) -> tuple[float, str]:
    """Return the overfull seconds that a recommendation has to avoid, and what they are: the recorded ones; the
    simulated ones if there are none, since the limits were lowered in the range."""
    if recording.overfull_seconds > 0:
        return recording.overfull_seconds, "recorded"
    return now.high.blocked_seconds, "simulated"


def _capacity(recording: Recording, simulation: Simulation, now: Simulated, rooms: tuple[Room, ...]) -> Advice:
    """Recommend the smallest tried capacity that avoids enough; if the broker has no room for it, say so."""
    current, (recorded, source) = recording.current, _compared_with(recording, now)
    tried = [_whole(current.scaled(factor)) for factor in _FACTORS]
    found = next(
        (each for avoided in AVOIDED if (each := _smallest(simulation, tried, (1 - avoided) * recorded))), None
    )
    if found is None:
        return Advice(
            "add-consumers",
            f"No capacity up to {_FACTORS[-1]:.0f} times the current one certainly avoids {AVOIDED[-1]:.0%} of the"
            f" overfull time of"
            f" {_duration(recorded)}: the consumers are too slow for the incoming traffic, or the record leaves open"
            f" what producers"
            " wanted to send. Add consumers, or simulate a range of up to two days.",
        )
    limits, simulated = found
    # The recorded peak is needed in any case, even if the simulated one is lower.
    high = replace(
        simulated.high,
        peak_messages=max(simulated.high.peak_messages, recording.peak_messages),
        peak_bytes=max(simulated.high.peak_bytes, recording.peak_bytes),
    )
    simulated = Simulated(simulated.low, high)
    more = high.peak_bytes - recording.peak_bytes
    avoided = _share(1 - high.blocked_seconds / recorded, 1 - simulated.low.blocked_seconds / recorded)
    gain = f"avoids {avoided} of the {source} overfull time of {_duration(recorded)}"
    cost = f"peak use {_bytes(high.peak_bytes)}, {_bytes(more)} more than recorded"
    for room in rooms:
        if more > room.free_bytes:
            return Advice(
                "no-room",
                f"A capacity of {_levels(limits)} {gain} in the simulation, but needs {_bytes(more)} more, and the"
                f" broker's"
                f" {room.what} has {_bytes(max(room.free_bytes, 0))} free below its limit. Raise that limit first,"
                f" or add"
                " consumers.",
            )
    return Advice(
        "raise-capacity",
        f"Recommendation: capacity {_levels(limits)}, now {_levels(current)}. Simulated, it {gain}; {cost}.",
        limits,
        simulated,
    )


def _smallest(simulation: Simulation, tried: list[Limits], allowed: float) -> tuple[Limits, Simulated] | None:
    """Return the smallest of the ascending limits `tried` with at most `allowed` overfull seconds in every
    reconstruction, by bisection; None if the largest has more."""
    best = simulation.of(tried[-1])
    if best.high.blocked_seconds > allowed:
        return None
    too_small, enough = -1, len(tried) - 1
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        simulated = simulation.of(tried[middle])
        if simulated.high.blocked_seconds <= allowed:
            enough, best = middle, simulated
        else:
            too_small = middle
    if simulation.recording.source == "samples":
        return tried[enough], best
    # Minutes show less than they hide: one capacity that is enough must be found, and a larger one is recommended.
    larger = simulation.of(tried[min(enough + _SPARE, len(tried) - 1)])
    high = replace(best.high, peak_messages=larger.high.peak_messages, peak_bytes=larger.high.peak_bytes)
    return tried[min(enough + _SPARE, len(tried) - 1)], Simulated(larger.low, high)


def _whole(limits: Limits) -> Limits:
    """Return limits of two significant digits, whole numbers: stop levels rounded up, resume levels in the same
    proportion."""

    def rounded(stop: float, resume: float) -> tuple[float, float]:
        if stop <= 0:
            return 0.0, 0.0
        unit = 10 ** max(math.floor(math.log10(stop)) - 1, 0)
        whole = float(math.ceil(stop / unit - 1e-9) * unit)
        return whole, float(math.floor(whole * resume / stop + 1e-9))

    return Limits(
        *rounded(limits.stop_messages, limits.resume_messages), *rounded(limits.stop_bytes, limits.resume_bytes)
    )


def _share(low: float, high: float) -> str:
    low, high = (math.floor(min(max(share, 0.0), 1.0) * 100) for share in (low, high))
    return f"{low}%" if low == high else f"{low} to {high}%"


def _duration(seconds: float) -> str:
    """Return seconds as the console's pages do: 98 s are "1 min 38 s"."""
    whole = round(seconds)
    for length, unit, part, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= length:
            return f"{whole // length:,} {unit} {whole % length // part} {name}"
    return f"{whole} s"


def _levels(limits: Limits) -> str:
    levels = []
    if limits.stop_messages:
        levels.append(f"{limits.stop_messages:,.0f} {'message' if limits.stop_messages == 1 else 'messages'}")
    if limits.stop_bytes:
        levels.append(_bytes(limits.stop_bytes))
    return " and ".join(levels)


def _bytes(count: float) -> str:
    """Format a size in decimal units."""
    power = min(int(math.log10(max(count, 1)) // 3), 4)
    unit = ("B", "kB", "MB", "GB", "TB")[power]
    shown = count / 1000**power
    return f"{shown:,.0f} {unit}" if power == 0 or shown >= 100 else f"{shown:,.1f} {unit}"
