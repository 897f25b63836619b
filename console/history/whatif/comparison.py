"""Simulate limits for what was recorded of a queue: a range over the reconstructions of demand that the record allows.
Pure.

`demand.py` describes the reconstructions; `CAVEAT` is their text for users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from console.history.whatif.recording import Recording
from console.history.whatif.replay import Limits, Outcome, replay

#: Shown beside every simulated figure: the demand model.
CAVEAT = (
    "A simulation of recorded traffic, not a forecast. What blocked producers wanted to send is not recorded. It is"
    " inferred"
    " from the rates at which messages arrived just before and just after each block, under two assumptions:"
    " producers drop"
    " what they could not send, or they send all of it later, as fast as the record shows. An assumption that"
    " contradicts the"
    " record is excluded; where both remain possible, or the record leaves the moment of a change open, the result"
    " is a range."
    " Consumers are assumed to take the messages that they took when recorded, and at most those of their best half"
    " minute"
    " when the queue was empty. One-minute values do not show when messages arrived within a minute, so ranges of"
    " more than"
    " two days are wider."
)

#: The depth within a minute is unknown: capacities that differ from the simulated one by this factor are simulated,
#: too.
_WITHIN_MINUTE = 1.4
#: The simulation of the limits in force may differ from the record by this share before the range is extended.
_AGREES = 0.02
#: The range is extended by this factor at most.
_MOST_EXTENDED = 3.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """The lowest and the highest value of each field over the reconstructions. Overfull time is `blocked_seconds` of
    `Outcome`."""

    low: Outcome
    high: Outcome


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulates limits for a recording. `extend_*`: factors by which the simulation of the limits in force would have
    to be extended to contain the recorded overfull time; 1: it contains it."""

    recording: Recording
    extend_low: float
    extend_high: float

    def of(self, limits: Limits) -> Simulated:
        """Return the simulated result of limits."""
        tried = [limits]
        if self.recording.source == "minutes" and limits.limited and self.recording.overfull_seconds > 0:
            tried += [limits.scaled(_WITHIN_MINUTE), limits.scaled(1 / _WITHIN_MINUTE)]
        found = _range(_outcomes(self.recording, tried))
        exact = found if len(tried) == 1 else _range(_outcomes(self.recording, [limits]))
        seconds = self.recording.observed_seconds
        return Simulated(
            _with_time(found.low, exact.low, self.extend_low, seconds),
            _with_time(found.high, exact.high, self.extend_high, seconds),
        )


def simulation_of(recording: Recording) -> Simulation:
    """Compare the simulation of the limits in force with the record, if they were effective in the whole range."""
    recorded = recording.overfull_seconds
    if not recording.is_constant or not recorded or not recording.current.limited:
        return Simulation(recording, 1.0, 1.0)
    found = _range(_outcomes(recording, [recording.current]))
    low, high = found.low.blocked_seconds, found.high.blocked_seconds
    extend_low = recorded / low if low > recorded * (1 + _AGREES) else 1.0
    extend_high = recorded / high if 0 < high < recorded * (1 - _AGREES) else 1.0
    return Simulation(recording, max(extend_low, 1 / _MOST_EXTENDED), min(extend_high, _MOST_EXTENDED))


def compare(recording: Recording, candidates: Sequence[Limits]) -> list[Simulated]:
    """Return the simulated result of the current limits, then of each candidate."""
    simulation = simulation_of(recording)
    return [simulation.of(limits) for limits in (recording.current, *candidates)]


def _outcomes(recording: Recording, tried: Iterable[Limits]) -> list[Outcome]:
    return [replay(each, limits) for limits in tried for demand in recording.demands for each in demand.traffics]


def _range(outcomes: Sequence[Outcome]) -> Simulated:
    def each(of: Callable[[Iterable[Any]], Any]) -> Outcome:
        return Outcome(*(of(getattr(one, field.name) for one in outcomes) for field in fields(Outcome)))

    return Simulated(each(min), each(max))


def _with_time(found: Outcome, exact: Outcome, factor: float, most: float) -> Outcome:
    """Return the outcome with extended times, and with the peaks of the limits themselves."""
    return Outcome(
        found.episodes,
        min(found.blocked_seconds * factor, most),
        min(found.longest_seconds * factor, most),
        exact.peak_messages,
        exact.peak_bytes,
    )
