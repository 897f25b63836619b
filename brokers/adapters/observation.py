"""What was read of a broker: managed objects with those of their attributes that it reports. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.model import ObjectName

Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """One answer of a broker.

    `at`: when it arrived, ms since the epoch. `objects`: the attributes that were read; those of a known object that
    are absent here have not changed. `whole`: types of which the answer names every object, so that others of these
    types no longer exist. `unlisted`: types that could not be listed in this round: of their objects nothing is known.
    """

    at: int
    objects: Mapping[ObjectName, Attributes]
    whole: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reported:
    """An event that the broker itself reports, by its log or a notification: exact in time, unlike what a poll finds.

    `at`: the broker's time of it, ms since the epoch. `words`: without subject and code; "" for a change that is
    described as if a poll had found it, from what is `observed`. `attributes`: facts of this kind. `observed`: what it
    says about the object's attributes, for the inventory; None: the object is gone.
    """

    at: int
    kind: str
    object: ObjectName
    words: str = ""
    attributes: Attributes = field(default_factory=dict)
    observed: Attributes | None = field(default_factory=dict)
