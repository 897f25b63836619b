"""Which stops a broker has in force: those of exactly one scope, and those that a call has made. An undo compares them
with what is in force later, so that it leaves what others have decided since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from brokers.model import ObjectName

if TYPE_CHECKING:
    from console.operations.stops import Aim

#: What says when a stop ends.
END = ("until", "below")


def stop_in(stops: Any, aim: Aim) -> dict[str, Any] | None:
    """Return the stop of exactly this scope among the `stops` of a broker: {reason, actor, since, until, below,
    replaced}, see `stops_of`."""
    for stop in stops or ():
        if is_of(stop, aim):
            return _facts_of(stop)
    return None


def stops_of(stops: Any, aim: Aim) -> list[dict[str, Any]]:
    """Return the stops of exactly this scope, or of the queues that the aim names, among the `stops` of a managed
    object: {object, reason, actor, since, until, below, replaced} of each. `replaced`: it is in a staged start, or
    after a halted one, so that a new stop replaces it."""
    named = {str(ObjectName.parse(name)) for name in aim.queues or ()}
    single = replace(aim, queues=None)
    return [
        {"object": stop.get("object"), **_facts_of(stop)}
        for stop in stops or ()
        if (
            is_of(stop, single)
            if aim.queues is None
            else stop.get("object") in named and is_of(stop, replace(single, scope=ObjectName.parse(stop["object"])))
        )
    ]


def made_of(
    answer: Mapping[str, Any], before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], reason: str
) -> list[dict[str, Any]]:
    """Return the stops that a call has made, of those in force right `after` it: {object, since, until, below} of each.
    A stop without its object here was not seen after the call, or was changed at once."""
    found = {stop["object"] for stop in before}
    named = answer.get("changed_queues") or ()
    return [
        {name: stop[name] for name in ("object", "since", *END)}
        for stop in after
        if answer.get("changed")
        and stop["object"] not in found
        and (not named or stop["object"] in named)
        and stop["reason"] == reason
    ]


def _facts_of(stop: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: stop.get(name) for name in ("reason", "actor", "since", *END)}
    return {**facts, "replaced": bool(stop.get("stage") or stop.get("halted"))}


def is_of(stop: Mapping[str, Any], aim: Aim) -> bool:
    """Return whether a stop of a broker has exactly this scope."""
    named = {"pattern": aim.pattern, "user": aim.user, "container_id": aim.container_id, "link": aim.link}
    same = all((stop.get(name) or "") == value for name, value in named.items())
    return same and stop.get("object") == str(aim.scope)
