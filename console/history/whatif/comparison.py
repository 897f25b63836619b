"""What if: candidate limits over the recorded traffic of a queue, side by side, and the advice that follows. Pure.

`compare` answers for a page; `row_of` gives a row of `ADVICE`, which the nightly job computes for each queue of the
fleet. What the replay assumes stands in `replay.py` and, for people, in `CAVEAT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from console.history.whatif.replay import Limits, Outcome, Traffic, replay

#: In plain words, beside every number that comes from here.
CAVEAT = (
    "A replay of what was recorded, not a forecast. While producers were held, nobody knows what they wanted to"
    " send: it is assumed that they would have gone on at the rate of the minute before, and that what they could not"
    " send was not sent later. If they had more to send, these figures are too rosy. Consumers are assumed to take"
    " what they took."
)

#: Of the blocked time that a recommended capacity would have avoided.
AVOIDED = 0.95
#: Capacities that are tried, in times of the one in force.
_FACTORS = tuple(round(2 ** (n / 4), 3) for n in range(1, 33))  # 1.19 to 256
#: Resume levels that are tried, as parts of the stop level.
_RESUMES = (0.9, 0.8, 0.7, 0.5)
#: A queue whose producers are held for less than this on average, many times, does nothing but turn.
_FLAP_SECONDS, _FLAP_EPISODES = 5.0, 20
#: A queue that never had more than this part of its capacity is not protected by it.
_NEVER_REACHED = 0.25
#: Below so many seconds of record nothing is said about a capacity that was never reached.
_LONG_ENOUGH = 7 * 86_400.0

ADVICE = pa.schema(
    [
        ("kind", pa.string()),  # raise-capacity, add-consumers, lower-resume, never-reached, no-limit, none
        ("text", pa.string()),  # a sentence for people
        ("observed_seconds", pa.float64()),
        ("recorded_blocked_seconds", pa.float64()),  # what happened
        (
            "replayed_blocked_seconds",
            pa.float64(),
        ),  # what the replay makes of the limits in force: near to it, or beware
        ("replayed_episodes", pa.int64()),
        ("peak_messages", pa.float64()),  # recorded
        ("peak_bytes", pa.float64()),
        # The limits in force, and those recommended (null: leave it as it is). 0: no limit.
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
        ("recommended_peak_bytes", pa.float64()),  # the memory or disk that it needs
    ]
)


@dataclass(frozen=True, slots=True)
class Advice:
    """`limits`: what to set instead, and what that `would` have come to; None: nothing to set."""

    kind: str
    text: str
    limits: Limits | None = None
    would: Outcome | None = None


def compare(recorded: Traffic, current: Limits, candidates: Sequence[Limits]) -> list[Outcome]:
    """The outcome of the current limits, then of each candidate."""
    return [replay(recorded, limits) for limits in (current, *candidates)]


def smallest_capacity(recorded: Traffic, current: Limits, avoided: float = AVOIDED) -> tuple[Limits, Outcome] | None:
    """The smallest of the capacities tried that avoids this part of the blocked time, as does every larger one (with
    levels apart, a larger capacity may by chance hold longer once). None: not even the largest does."""
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
    """One piece of advice, the most important. `peak_*`: recorded."""
    if not current.limited:
        return Advice("no-limit", f"It has no capacity. Its deepest was {_amount(peak_messages, peak_bytes)}.")
    now = replay(recorded, current)
    if now.blocked_seconds <= 0:
        return _unblocked(recorded, current, peak_messages, peak_bytes)
    mean = now.blocked_seconds / max(now.episodes, 1)
    if now.episodes >= _FLAP_EPISODES and mean < _FLAP_SECONDS and (calmer := _calmer(recorded, current, now)):
        limits, outcome = calmer
        share = limits.resume_messages / limits.stop_messages if limits.stop_messages else _share_of_bytes(limits)
        return Advice(
            "lower-resume",
            f"It flaps: {now.episodes:,} times overfull, for {mean:.1f} s on average, since resume is too near to"
            f" capacity. Resuming at {share:.0%} would have made it {outcome.episodes:,} times.",
            limits,
            outcome,
        )
    if found := smallest_capacity(recorded, current):
        limits, outcome = found
        # What was recorded under the smaller capacity is needed at the least, whatever the model's own peak is.
        outcome = replace(
            outcome,
            peak_messages=max(outcome.peak_messages, peak_messages),
            peak_bytes=max(outcome.peak_bytes, peak_bytes),
        )
        return Advice(
            "raise-capacity",
            f"Recommendation: capacity {_levels(limits)}. Simulated, it avoids {AVOIDED:.0%} of the time for which the"
            f" queue was overfull; peak use {_bytes(outcome.peak_bytes)}.",
            limits,
            outcome,
        )
    return Advice(
        "add-consumers",
        f"No capacity up to {_FACTORS[-1]:.0f} times the present one avoids {AVOIDED:.0%} of the time for which the"
        " queue was overfull: its consumers take too little for what comes in.",
    )


def _unblocked(recorded: Traffic, current: Limits, peak_messages: float, peak_bytes: float) -> Advice:
    used = max(
        peak_messages / current.stop_messages if current.stop_messages else 0.0,
        peak_bytes / current.stop_bytes if current.stop_bytes else 0.0,
    )
    if used < _NEVER_REACHED and recorded.observed_seconds >= _LONG_ENOUGH:
        return Advice(
            "never-reached",
            f"Its capacity of {_levels(current)} was never reached: at its deepest it was {used:.1%} full. It protects"
            " nothing.",
        )
    return Advice("none", "It was not overfull.")


def _calmer(recorded: Traffic, current: Limits, now: Outcome) -> tuple[Limits, Outcome] | None:
    """The highest resume level that makes it overfull no more than a third as often."""
    for share in _RESUMES:
        limits = current.scaled(1.0, share)
        if (limits.resume_messages, limits.resume_bytes) >= (current.resume_messages, current.resume_bytes):
            continue
        outcome = replay(recorded, limits)
        if outcome.episodes <= now.episodes / 3:
            return limits, outcome
    return None


_LEVELS = ("stop_messages", "resume_messages", "stop_bytes", "resume_bytes")


def row_of(recorded: Traffic, current: Limits, peak_messages: float, peak_bytes: float) -> dict[str, Any]:
    """A row of `ADVICE`. `current`: the limits in force; `peak_*`: recorded."""
    now = replay(recorded, current)
    advice = advise(recorded, current, peak_messages, peak_bytes)
    row: dict[str, Any] = dict.fromkeys(ADVICE.names)
    row |= {
        "kind": advice.kind,
        "text": advice.text,
        "observed_seconds": recorded.observed_seconds,
        "recorded_blocked_seconds": float(recorded.held.sum()),
        "replayed_blocked_seconds": now.blocked_seconds,
        "replayed_episodes": now.episodes,
        "peak_messages": peak_messages,
        "peak_bytes": peak_bytes,
        **{name: getattr(current, name) for name in _LEVELS},
    }
    if advice.limits is not None and advice.would is not None:
        row |= {f"recommended_{name}": getattr(advice.limits, name) for name in _LEVELS}
        row |= {
            "recommended_blocked_seconds": advice.would.blocked_seconds,
            "recommended_episodes": advice.would.episodes,
            "recommended_peak_bytes": advice.would.peak_bytes,
        }
    return row


def _share_of_bytes(limits: Limits) -> float:
    return limits.resume_bytes / limits.stop_bytes


def _levels(limits: Limits) -> str:
    told = []
    if limits.stop_messages:
        told.append(f"{limits.stop_messages:,.0f} messages")
    if limits.stop_bytes:
        told.append(_bytes(limits.stop_bytes))
    return " and ".join(told)


def _amount(messages: float, size: float) -> str:
    return f"{messages:,.0f} messages, {_bytes(size)}"


def _bytes(count: float) -> str:
    """In decimal units, as everywhere in the console."""
    power = min(int(np.log10(max(count, 1)) // 3), 4)
    unit = ("B", "kB", "MB", "GB", "TB")[power]
    shown = count / 1000**power
    return f"{shown:,.0f} {unit}" if power == 0 or shown >= 100 else f"{shown:,.1f} {unit}"
