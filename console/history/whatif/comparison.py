"""Compare the outcome of candidate limits for a queue's recorded traffic, and derive a recommendation. Pure.

`compare` serves the page of one queue; `recommendation_row` returns a row of `ADVICE`, which the nightly job computes
for every queue. `replay.py` lists the assumptions; `CAVEAT` is their text for users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from console.history.whatif.replay import Limits, Outcome, Traffic, replay

#: Shown beside every simulated figure.
CAVEAT = (
    "A replay of recorded traffic, not a forecast. The demand of blocked producers is unknown. It is assumed that they"
    " would have continued at the rate of the minute before, and did not send the missing messages later. If they"
    " had more to send, these figures are optimistic. Consumers are assumed to take the messages that they took when"
    " recorded."
)

#: Share of the blocked time that a recommended capacity avoids.
AVOIDED = 0.95
#: Capacities that are tried, as multiples of the current one.
_FACTORS = tuple(round(2 ** (n / 4), 3) for n in range(1, 33))  # 1.19 to 256
#: Resume levels that are tried, as shares of the stop level.
_RESUMES = (0.9, 0.8, 0.7, 0.5)
#: A queue flaps if it has at least this many episodes, shorter than this many seconds on average.
_FLAP_SECONDS, _FLAP_EPISODES = 5.0, 20
#: A capacity of which the queue never used more than this share is too large to protect anything.
_NEVER_REACHED = 0.25
#: Seconds of recorded traffic required before a capacity counts as never reached.
_LONG_ENOUGH = 7 * 86_400.0

ADVICE = pa.schema(
    [
        ("kind", pa.string()),  # raise-capacity, add-consumers, lower-resume, never-reached, no-limit, none
        ("text", pa.string()),  # the recommendation as a sentence
        ("observed_seconds", pa.float64()),
        ("recorded_blocked_seconds", pa.float64()),
        (
            "replayed_blocked_seconds",
            pa.float64(),
        ),  # simulated with the current limits; the closer to the recorded value, the better the model
        ("replayed_episodes", pa.int64()),
        ("peak_messages", pa.float64()),  # recorded
        ("peak_bytes", pa.float64()),
        # The current and the recommended limits (null: no change). 0: no limit.
        ("stop_messages", pa.float64()),
        ("resume_messages", pa.float64()),
        ("stop_bytes", pa.float64()),
        ("resume_bytes", pa.float64()),
        ("recommended_stop_messages", pa.float64()),
        ("recommended_resume_messages", pa.float64()),
        ("recommended_stop_bytes", pa.float64()),
        ("recommended_resume_bytes", pa.float64()),
        ("recommended_blocked_seconds", pa.float64()),
        ("recommended_episodes", pa.int64()),
        ("recommended_peak_bytes", pa.float64()),  # required memory or disk
    ]
)


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation. `limits`: the recommended limits with their simulated `outcome`; None: no change of limits."""

    kind: str
    text: str
    limits: Limits | None = None
    outcome: Outcome | None = None


def compare(recorded: Traffic, current: Limits, candidates: Sequence[Limits]) -> list[Outcome]:
    """Return the outcome of the current limits, then of each candidate."""
    return [replay(recorded, limits) for limits in (current, *candidates)]


def smallest_capacity(recorded: Traffic, current: Limits, avoided: float = AVOIDED) -> tuple[Limits, Outcome] | None:
    """Return the smallest tried capacity that avoids this share of the blocked time, as does every larger one (with
    distinct stop and resume levels, a larger capacity may block longer by chance); None if the largest does not."""
    allowed = (1 - avoided) * replay(recorded, current).blocked_seconds
    found = None
    for factor in reversed(_FACTORS):
        limits = current.scaled(factor)
        outcome = replay(recorded, limits)
        if outcome.blocked_seconds > allowed:
            break
        found = limits, outcome
    return found


def advise(recorded: Traffic, current: Limits, peak_messages: float, peak_bytes: float) -> Advice:
    """Return the most important recommendation. `peak_*`: highest recorded depth."""
    if not current.limited:
        return Advice("no-limit", f"No capacity is set. Highest depth: {_amount(peak_messages, peak_bytes)}.")
    now = replay(recorded, current)
    if now.blocked_seconds <= 0:
        return _unblocked(recorded, current, peak_messages, peak_bytes)
    mean = now.blocked_seconds / max(now.episodes, 1)
    if now.episodes >= _FLAP_EPISODES and mean < _FLAP_SECONDS and (calm := _less_flapping(recorded, current, now)):
        limits, outcome = calm
        share = limits.resume_messages / limits.stop_messages if limits.stop_messages else _share_of_bytes(limits)
        return Advice(
            "lower-resume",
            f"The queue flaps: {now.episodes:,} episodes of {mean:.1f} s on average, since the resume level is too"
            " close"
            f" to the capacity. Simulated, a resume level of {share:.0%} reduces them to {outcome.episodes:,}.",
            limits,
            outcome,
        )
    if found := smallest_capacity(recorded, current):
        limits, outcome = found
        # The recorded peak is needed in any case, even if the simulated one is lower.
        outcome = replace(
            outcome,
            peak_messages=max(outcome.peak_messages, peak_messages),
            peak_bytes=max(outcome.peak_bytes, peak_bytes),
        )
        return Advice(
            "raise-capacity",
            f"Recommendation: capacity {_levels(limits)}. Simulated, it avoids {AVOIDED:.0%} of the overfull time;"
            f" peak use {_bytes(outcome.peak_bytes)}.",
            limits,
            outcome,
        )
    return Advice(
        "add-consumers",
        f"No capacity up to {_FACTORS[-1]:.0f} times the current one avoids {AVOIDED:.0%} of the overfull time: the"
        " consumers are too slow for the incoming traffic. Add consumers.",
    )


def _unblocked(recorded: Traffic, current: Limits, peak_messages: float, peak_bytes: float) -> Advice:
    used = max(
        peak_messages / current.stop_messages if current.stop_messages else 0.0,
        peak_bytes / current.stop_bytes if current.stop_bytes else 0.0,
    )
    if used < _NEVER_REACHED and recorded.observed_seconds >= _LONG_ENOUGH:
        return Advice(
            "never-reached",
            f"The capacity of {_levels(current)} was never reached: the highest depth was {used:.1%} of it. The limit"
            " has"
            " no effect.",
        )
    return Advice("none", "The queue was not overfull.")


def _less_flapping(recorded: Traffic, current: Limits, now: Outcome) -> tuple[Limits, Outcome] | None:
    """Return the highest resume level that reduces the episodes to a third or less; None if none does."""
    for share in _RESUMES:
        limits = current.scaled(1.0, share)
        if (limits.resume_messages, limits.resume_bytes) >= (current.resume_messages, current.resume_bytes):
            continue
        outcome = replay(recorded, limits)
        if outcome.episodes <= now.episodes / 3:
            return limits, outcome
    return None


_LEVELS = ("stop_messages", "resume_messages", "stop_bytes", "resume_bytes")


def recommendation_row(recorded: Traffic, current: Limits, peak_messages: float, peak_bytes: float) -> dict[str, Any]:
    """Return a row of `ADVICE`. `current`: the current limits; `peak_*`: highest recorded depth."""
    now = replay(recorded, current)
    advice = advise(recorded, current, peak_messages, peak_bytes)
    row: dict[str, Any] = dict.fromkeys(ADVICE.names)
    row |= {
        "kind": advice.kind,
        "text": advice.text,
        "observed_seconds": recorded.observed_seconds,
        "recorded_blocked_seconds": float(recorded.blocked.sum()),
        "replayed_blocked_seconds": now.blocked_seconds,
        "replayed_episodes": now.episodes,
        "peak_messages": peak_messages,
        "peak_bytes": peak_bytes,
        **{name: getattr(current, name) for name in _LEVELS},
    }
    if advice.limits is not None and advice.outcome is not None:
        row |= {f"recommended_{name}": getattr(advice.limits, name) for name in _LEVELS}
        row |= {
            "recommended_blocked_seconds": advice.outcome.blocked_seconds,
            "recommended_episodes": advice.outcome.episodes,
            "recommended_peak_bytes": advice.outcome.peak_bytes,
        }
    return row


def _share_of_bytes(limits: Limits) -> float:
    return limits.resume_bytes / limits.stop_bytes


def _levels(limits: Limits) -> str:
    levels = []
    if limits.stop_messages:
        levels.append(f"{limits.stop_messages:,.0f} messages")
    if limits.stop_bytes:
        levels.append(_bytes(limits.stop_bytes))
    return " and ".join(levels)


def _amount(messages: float, size: float) -> str:
    return f"{messages:,.0f} messages, {_bytes(size)}"


def _bytes(count: float) -> str:
    """Format a size in decimal units."""
    power = min(int(np.log10(max(count, 1)) // 3), 4)
    unit = ("B", "kB", "MB", "GB", "TB")[power]
    shown = count / 1000**power
    return f"{shown:,.0f} {unit}" if power == 0 or shown >= 100 else f"{shown:,.1f} {unit}"
