"""Find why a queue was overfull, where no capacity is the remedy. Pure.

Three causes: no consumer, consumers that do not acknowledge, and consumers that are slower than the producers for the
whole range.
"""

from __future__ import annotations

from dataclasses import dataclass

from console.history.whatif.recording import Recording

#: A queue without consumption in this share of its overfull time was not consumed.
_IDLE_SHARE = 0.7
#: Shorter times without consumption, seconds, are pauses of the consumers, which a capacity can absorb.
_LONG = 600.0
#: Consumers that hold this share of the queue's messages do not acknowledge them.
_UNACKNOWLEDGED = 0.4
#: A rate below this, messages/s, is none.
_NO_RATE = 1e-3


@dataclass(frozen=True, slots=True)
class Cause:
    """`kind`: that of the recommendation; `text`: the cause and its remedy."""

    kind: str
    text: str


def cause_of(recording: Recording) -> Cause | None:
    """Return the cause of the overfull time; None if none of these is."""
    if recording.overfull_seconds <= 0:
        return None
    idle, longest = _without_consumption(recording)
    consumers = recording.consumers
    if consumers is not None and consumers.most == 0:
        return Cause(
            "no-consumer", "The queue had no consumer while it was overfull. Start one: no capacity is enough."
        )
    if idle >= _IDLE_SHARE:
        share = f"{idle:.0%} of the overfull time"
        if consumers is not None and consumers.unacknowledged_share >= _UNACKNOWLEDGED:
            return Cause(
                "unacknowledged",
                f"In {share} no message was acknowledged, while consumers had received"
                f" {consumers.unacknowledged_share:.0%} of the messages. Correct the consumers: no capacity is enough.",
            )
        if longest >= _LONG:
            return Cause(
                "no-consumer",
                f"In {share} no message was consumed: there was no consumer, or it did not acknowledge. Start or"
                f" correct the"
                " consumers: no capacity is enough.",
            )
    wanted, taken = _rates(recording)
    if wanted > taken:
        return Cause(
            "add-consumers",
            f"In the whole range producers sent more than the consumers could take: at least {wanted:,.3g}"
            f" messages/s against"
            f" {taken:,.3g}. Add consumers: no capacity is enough.",
        )
    return None


def _without_consumption(recording: Recording) -> tuple[float, float]:
    """Return the share of the overfull time without consumption, and the longest such time in seconds."""
    intervals = recording.intervals
    idle = (intervals.taken < _NO_RATE) & (intervals.overfull > 0)
    longest = lasting = 0.0
    for is_idle, seconds in zip(idle, intervals.overfull, strict=True):
        lasting = lasting + float(seconds) if is_idle else 0.0
        longest = max(longest, lasting)
    return float(intervals.overfull[idle].sum()) / recording.overfull_seconds, longest


def _rates(recording: Recording) -> tuple[float, float]:
    """Return the mean demand, the lowest of the reconstructions, and the mean rate that consumers could take,
    messages/s."""
    traffics = [each for demand in recording.demands for each in demand.traffics]
    seconds = recording.observed_seconds
    wanted = min(float((each.demand * each.seconds).sum()) for each in traffics)
    taken = max(float((each.service * each.seconds).sum()) for each in traffics)
    return wanted / seconds, taken / seconds
