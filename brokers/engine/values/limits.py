"""Capacity, stop and resume levels: from policy settings to the numbers that the depth is compared with.

A level is absolute or a percentage of its capacity. A queue becomes overfull *above* the stop level, in bytes or in
messages, and underfull *at or below* the resume level, in both (DOMAIN.md sections 1 and 2). 0 for a capacity or a stop
level means no limit; any other stop percentage is a level of at least 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from brokers.engine.values.names import name_fault
from brokers.engine.values.policy import BROKER, BUILT, OWN, VIRTUALHOST, Setting

#: "No limit" in `Limits.stop_*` and `resume_*`: above every depth, so that comparisons need no special case.
UNLIMITED = 1 << 63

#: With `hold`, an overfull queue accepts one part in this many of its stop level more, and withholds the settlements.
WITHHELD_PART = 10

#: The most credit that a link can carry: Proton counts it in a signed 32 bit number.
LARGEST_WINDOW = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one queue in bytes and messages. `capacity_*`: 0 = no limit. `stop_*`, `resume_*`: UNLIMITED =
    no limit. `window`, `window_bytes`: the most credit that one producer may have, in messages, and in bytes (0: no
    limit). `overflow`: the name of the overflow policy in `flow/overflow.py`; `reject_after_ms`: how long reject-after
    parks messages. `maximum_deliveries`: 0 = no limit. `dead_letter_queue`: "" = none. `when_short`: what happens to
    messages during a shortage of the broker or the virtual host: block, reject or reject-after."""

    capacity_bytes: int = 0
    stop_bytes: int = UNLIMITED
    resume_bytes: int = UNLIMITED
    capacity_messages: int = 0
    stop_messages: int = UNLIMITED
    resume_messages: int = UNLIMITED
    window: int = 1000
    window_bytes: int = 0
    overflow: str = "block"
    reject_after_ms: int = 1000
    maximum_deliveries: int = 0
    dead_letter_queue: str = ""
    when_short: str = "block"

    @property
    def ring(self) -> bool:
        """Whether the queue drops its oldest messages, and so is never overfull."""
        return self.overflow == "ring"

    @property
    def spools(self) -> bool:
        """Whether messages above the stop level go to the temp store."""
        return self.overflow == "spool"

    @property
    def bounded(self) -> bool:
        """Whether the free capacity bounds the credit of producers."""
        return self.overflow in ("block", "hold")

    @property
    def withheld_messages(self) -> int:
        """How many messages more a limited queue accepts while it is overfull: a tenth of the stop level with `hold`,
        else 0."""
        return self._withheld(self.stop_messages)

    @property
    def withheld_bytes(self) -> int:
        """`withheld_messages` in bytes."""
        return self._withheld(self.stop_bytes)

    def _withheld(self, stop: int) -> int:
        return max(1, stop // WITHHELD_PART) if self.overflow == "hold" else 0


class InvalidPolicy(ValueError):
    """Contradictory settings. `errors`: field -> a sentence that names both values."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


def resolve(settings: Mapping[str, Setting]) -> Limits:
    """Return the limits of a queue with these settings. Raises InvalidPolicy if they contradict each other."""
    errors: dict[str, str] = {}
    ring = settings["overflow"].value == "ring"
    if ring:
        _refuse_beside_ring(settings, errors)
    stop_bytes, resume_bytes = _levels("bytes", settings, errors)
    stop_messages, resume_messages = _levels("messages", settings, errors)
    window = _number(settings["producer_window_messages"]) or 1000
    if window > LARGEST_WINDOW:
        errors["producer_window_messages"] = (
            f"producer_window_messages is {window}{_from(settings['producer_window_messages'])}:"
            f" a link can carry a credit of {LARGEST_WINDOW} at most"
        )
    dead_letters = settings["dead_letter_queue"]
    if dead_letters.value and (fault := name_fault("queue", str(dead_letters.value))):
        errors["dead_letter_queue"] = f"dead_letter_queue{_from(dead_letters)}: {fault}"
    if errors:
        raise InvalidPolicy(errors)
    mechanism = settings["mechanism"].value
    return Limits(
        capacity_bytes=_number(settings["capacity_bytes"]),
        stop_bytes=stop_bytes,
        resume_bytes=resume_bytes,
        capacity_messages=_number(settings["capacity_messages"]),
        stop_messages=stop_messages,
        resume_messages=resume_messages,
        window=window,
        window_bytes=_number(settings["producer_window_bytes"]),
        overflow="ring" if ring else "spool" if settings["spool"].value == "disk" else str(settings["mechanism"].value),
        reject_after_ms=_number(settings["reject_after_ms"]),
        maximum_deliveries=_number(settings["maximum_deliveries"]),
        dead_letter_queue=str(settings["dead_letter_queue"].value),
        when_short=str(mechanism) if mechanism in ("reject", "reject-after") else "block",
    )


#: Fields that a ring queue cannot have.
_NOT_WITH_RING = ("flow_stop_bytes", "flow_stop_messages", "flow_resume_bytes", "flow_resume_messages", "mechanism")


def _refuse_beside_ring(settings: Mapping[str, Setting], errors: dict[str, str]) -> None:
    """Refuse flow thresholds on a ring queue (Qpid C++), which blocks no producer. Inherited thresholds are ignored if
    `ring` comes from a more specific layer."""
    overflow = settings["overflow"]
    for field in _NOT_WITH_RING:
        setting = settings[field]
        if setting.origin != BUILT and setting.rank <= overflow.rank:
            errors[field] = (
                f"overflow is ring{_from(overflow)} and {field} is {setting.value}{_from(setting)}: a ring queue drops"
                " its oldest messages and has no flow control, so only one of the two may be set"
            )


def _levels(unit: str, settings: Mapping[str, Setting], errors: dict[str, str]) -> tuple[int, int]:
    """(stop, resume) in `unit`."""
    capacity, stop, resume = (settings[f] for f in (f"capacity_{unit}", f"flow_stop_{unit}", f"flow_resume_{unit}"))
    limit = _number(capacity)
    if settings["flow_control"].value == "off" and settings["overflow"].value != "ring":
        return UNLIMITED, UNLIMITED
    if settings["overflow"].value == "ring":  # drops at its capacity, whatever thresholds it inherits
        return limit or UNLIMITED, limit or UNLIMITED
    stop_at = _level(stop, capacity)
    if stop_at == 0 and stop.value not in (0, "0%"):
        stop_at = 1  # a small percentage of a small capacity is still a limit
    if not stop_at:
        return UNLIMITED, UNLIMITED
    if limit and stop_at > limit:
        errors[f"flow_stop_{unit}"] = (
            f"flow_stop_{unit} is {stop.value}{_from(stop)} and capacity_{unit} is {limit}{_from(capacity)}:"
            " the stop level must not be above the capacity"
        )
    resume_at = _level(resume, capacity) if resume.value is not None else stop_at
    if resume_at is None:
        resume_at = stop_at
    if resume_at > stop_at:
        errors[f"flow_resume_{unit}"] = (
            f"flow_resume_{unit} is {_shown(resume, resume_at)}{_from(resume)} and the stop level is"
            f" {_shown(stop, stop_at)}{_from(stop)}: resume above stop would lock flow control on"
        )
    return stop_at, resume_at


def _level(setting: Setting, capacity: Setting) -> int | None:
    """Return a level as a number; None for a percentage without a capacity."""
    if isinstance(setting.value, str):
        limit = _number(capacity)
        return int(limit * Fraction(setting.value[:-1]) / 100) if limit else None
    return setting.value


def _number(setting: Setting) -> int:
    assert isinstance(setting.value, int)
    return setting.value


def _shown(setting: Setting, level: int) -> str:
    return f"{setting.value} = {level}" if isinstance(setting.value, str) else f"{level}"


def _from(setting: Setting) -> str:
    if setting.origin in (OWN, BUILT):
        return ""
    layer = f"the {setting.origin}'s defaults" if setting.origin in (VIRTUALHOST, BROKER) else setting.origin
    return f" (from {layer})"
