"""Limits of a queue of Broker-J, and the requests that change them in an order that loses nothing. Pure.

Two orders matter (seen with 7.1 and 10.1). A queue that drops its oldest messages (RING) must get the policy that
blocks producers before it gets a lower maximum, or it drops messages. And one that blocks producers must get no other
policy while sessions are blocked: they would stay blocked. So its maximum is lifted first, which releases them, then
the policy is changed, and then the maximum is set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from brokers.adapters.observation import Attributes
from brokers.admin import InvalidValue

BLOCKS, REJECTS, RING, NONE = "PRODUCER_FLOW_CONTROL", "REJECT", "RING", "NONE"

#: Context variable with the resume level, a percentage of the maximum, and its default.
RESUME, RESUME_DEFAULT = "queue.queueFlowResumeLimit", 80.0

#: A maximum that is no limit.
UNLIMITED = -1

_MESSAGES, _BYTES, _POLICY = "maximumQueueDepthMessages", "maximumQueueDepthBytes", "overflowPolicy"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """`policy`: Broker-J's overflow policy. `messages`, `bytes`: its maxima, negative for none."""

    policy: str
    messages: int
    bytes: int

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> QueueLimits:
        """Return the limits from attributes in Broker-J's names; those that are absent are its defaults."""
        policy = values.get(_POLICY) or NONE
        return cls(str(policy), _maximum(values.get(_MESSAGES)), _maximum(values.get(_BYTES)))

    def as_json(self) -> dict[str, Any]:
        return {_POLICY: self.policy, _MESSAGES: self.messages, _BYTES: self.bytes}

    @property
    def is_stop(self) -> bool:
        """Whether this is what a stop sets. Headgate writes 0 for nothing else."""
        return self.policy == BLOCKS and self.messages == 0


def _maximum(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else UNLIMITED


def stopped(limits: QueueLimits) -> QueueLimits:
    """Return the limits that stop producers: they are blocked as soon as there is one message."""
    return replace(limits, policy=BLOCKS, messages=0)


def is_of_stop(now: QueueLimits, before: QueueLimits) -> bool:
    """Return whether the limits are those of a stop, or of one that was interrupted while it was made or undone.
    `before`: what the stop found. Others were set by another client since, and a start leaves them alone."""
    lifted = {replace(before, policy=BLOCKS), _lifted(BLOCKS), _lifted(before.policy)}
    return now.is_stop or now in lifted


def restored(now: QueueLimits, before: QueueLimits) -> QueueLimits:
    """Return the limits that a start gives. `before`: what the stop found. What another client has changed since stays,
    but the maximum of 0, which is the stop's also if that client set another policy with it."""
    if now.is_stop:
        return replace(before, bytes=now.bytes)
    if is_of_stop(now, before):
        return before
    return replace(now, messages=before.messages) if now.messages == 0 else now


def _lifted(policy: str) -> QueueLimits:
    return QueueLimits(policy, UNLIMITED, UNLIMITED)


@dataclass(frozen=True, slots=True)
class Step:
    """A request: attributes to set. `releases`: the next step must wait until no producer is blocked."""

    attributes: Mapping[str, Any]
    releases: bool = False


def steps(now: QueueLimits, wanted: QueueLimits) -> list[Step]:
    """Return the requests from one to the other, in the order that the module explains."""
    found: list[Step] = []
    if now.policy == BLOCKS != wanted.policy:
        now = _lifted(BLOCKS)
        found.append(Step({_MESSAGES: UNLIMITED, _BYTES: UNLIMITED}, releases=True))
    if now.policy != wanted.policy:
        found.append(Step({_POLICY: wanted.policy}))
    old, new = now.as_json(), wanted.as_json()
    if changed := {key: new[key] for key in (_MESSAGES, _BYTES) if new[key] != old[key]}:
        found.append(Step(changed))
    return found


def with_attributes(now: QueueLimits, attributes: Attributes) -> QueueLimits:
    """Return the limits after attributes in Headgate's words were set. A limit of None or 0 is none. A queue without an
    overflow policy that gets a limit blocks its producers at it, as Headgate's own queues do."""
    wanted = now
    if "capacity_messages" in attributes:
        wanted = replace(wanted, messages=attributes["capacity_messages"] or UNLIMITED)
    if "capacity_bytes" in attributes:
        wanted = replace(wanted, bytes=attributes["capacity_bytes"] or UNLIMITED)
    overflow = attributes.get("overflow", overflow_of(now.policy))
    limited = wanted.messages > 0 or wanted.bytes > 0
    if overflow == "ring":
        return replace(wanted, policy=RING)
    if overflow == "producers":
        return replace(wanted, policy=now.policy if now.policy == REJECTS else BLOCKS)
    if "overflow" in attributes:
        return replace(wanted, policy=NONE)
    return replace(wanted, policy=BLOCKS) if now.policy == NONE and limited and wanted != now else wanted


def overflow_of(policy: str) -> str | None:
    """Return what an overfull queue does, in Headgate's words; None: nothing, or it moves messages to the disk."""
    return {BLOCKS: "producers", REJECTS: "producers", RING: "ring"}.get(policy)


def resume_context(context: Mapping[str, Any], level: int | str | None) -> dict[str, Any]:
    """Return the whole context of a queue with another resume level, since Broker-J replaces it as a whole. Raises
    InvalidValue for a level that is no percentage."""
    changed = {key: value for key, value in context.items() if key != RESUME}
    if level is None:
        return changed
    if not isinstance(level, str) or not level.endswith("%"):
        reason = "Broker-J has a resume level as a percentage of the limits, such as 80%"
        raise InvalidValue({"flow_resume_messages": reason})
    return {**changed, RESUME: level.removesuffix("%")}


def percent_of(*contexts: Mapping[str, Any]) -> float:
    """Return the resume level in percent, from the first of the contexts that sets a number."""
    for context in contexts:
        try:
            return float(context[RESUME])
        except (KeyError, TypeError, ValueError):
            continue
    return RESUME_DEFAULT


def resume_level(maximum: int, percent: float) -> int:
    return math.ceil(percent / 100 * maximum)
