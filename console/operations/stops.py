"""Stop and start the producers of a scope of one broker, preview the impact of a stop, and report its progress."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from brokers.admin import AdminError, BrokerAdmin, InvalidValue, NotAllowed, NotFound
from brokers.model import TYPES, ObjectName, Operation, object_name
from brokers.model.patterns import matches, pattern_fault
from console.access.actor import Actor
from console.links.queue_table import Row
from console.links.registry import BrokerLink
from console.operations.operation_calls import OperationCall, declared_operation
from console.operations.stop_facts import END, made_of, stop_in, stops_of

_BROKER = object_name("Broker")
#: Queues that a preview lists.
_LARGEST = 5
#: Queues that one call can stop by name.
MOST_NAMED = 2000
#: Draining producers that are counted.
_MOST_DRAINING = 1000
#: Longest time for a stop or a start, s: RabbitMQ's queues report for up to half a minute whether they reject.
STOP_SECONDS = 40.0
#: Longest time for what a preview or the progress asks of a broker, s.
READ_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Aim:
    """The queues whose producers are stopped or started: those of a Broker, VirtualHost, Exchange or Queue, restricted
    to names that match `pattern`, or to `queues` (texts of object names; None: no restriction). `user`, `container_id`,
    `link`: only producers of clients with these; empty: of all."""

    scope: ObjectName
    pattern: str = ""
    queues: tuple[str, ...] | None = None
    user: str = ""
    container_id: str = ""
    link: str = ""

    @property
    def client(self) -> dict[str, str]:
        """The restriction to clients, without what does not restrict; empty: all producers."""
        names = ("user", "container_id", "link")
        return {name: value for name in names if (value := getattr(self, name))}

    def check(self) -> None:
        """Raise InvalidValue unless the combination of fields is valid."""
        operation = TYPES[self.scope.type].operation("stop-producers")
        if operation is None:
            raise InvalidValue(
                {"scope": f"scope is {self.scope}: it must be the broker, a virtual host, an exchange or a queue"}
            )
        accepted = {argument.name for argument in operation.arguments}
        if self.pattern and "pattern" not in accepted:
            raise InvalidValue({"pattern": f"pattern must be empty for {self.scope}"})
        if fault := pattern_fault(self.pattern):
            raise InvalidValue({"pattern": fault})
        if self.queues is None:
            return
        if "queues" not in accepted or self.pattern:
            raise InvalidValue({"queues": "queues requires the broker as scope and no pattern"})
        if not self.queues:
            raise InvalidValue({"queues": "queues is empty"})
        if len(self.queues) > MOST_NAMED:
            raise InvalidValue(
                {"queues": f"queues has {len(self.queues):,} names, at most {MOST_NAMED:,}: use a pattern"}
            )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the broker's operation."""
        return {
            **({"pattern": self.pattern} if self.pattern else {}),
            **({"queues": list(self.queues)} if self.queues is not None else {}),
            **self.client,
        }

    def covers(self, row: Row) -> bool:
        """Return whether a queue is in the scope."""
        scope = self.scope
        if self.queues is not None:
            return row["object"] in self.queues
        if scope.type == "Queue":
            return bool(row["object"] == str(scope))
        if scope.type == "Exchange":
            here = row["virtualhost"] == scope["virtualhost"]
            return here and any(binding["exchange"] == scope["name"] for binding in row.get("bindings", ()))
        if scope.type == "VirtualHost" and row["virtualhost"] != scope["name"]:
            return False
        return matches(self.pattern, row["name"])


def remaining_ms(link: BrokerLink, until: int) -> int:
    """Return the time from now to `until`, ms since the epoch, by the broker's clock. Raises InvalidValue unless that
    is to come."""
    left = until - link.broker_now
    if left <= 0:
        raise InvalidValue({"until": "until is in the past"})
    return left


def stop_arguments(*, reason: str, for_ms: int = 0, below: int = 0) -> dict[str, Any]:
    """Return the arguments of a stop besides its aim, without those that are not set."""
    return {"reason": reason, **{name: value for name, value in (("for_ms", for_ms), ("below", below)) if value}}


def start_arguments(*, reason: str, only: bool = False, stage: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return the arguments of a start besides its aim, without those that are not set."""
    staged = {name: value for name, value in (stage or {}).items() if value}
    return {"reason": reason, **({"only": True} if only else {}), **staged}


def stop_producers(
    by: Actor,
    link: BrokerLink,
    aim: Aim,
    *,
    reason: str,
    for_ms: int = 0,
    until: int = 0,
    below: int = 0,
    effect: str = "",
    effects: Collection[str] = (),
) -> Mapping[str, Any]:
    """Stop the producers of a scope: for `for_ms` ms or until the time `until` (ms since the epoch), until the queues
    are at or below `below` percent of their capacity, or, with none of them, until they are started. `effect`: what the
    stop does to producers here, if it does not hold them; or `effects`: any of these will do. Idempotent. Returns the
    answer of the operation, and `stops_before`: the stops of this scope that were in force, see `stops_of`, each with
    `after`: the {until, below} that it has since; None: not known; and `stops_made`, see `made_of`. Raises
    EffectNotConfirmed."""
    aim.check()
    if until:
        for_ms = remaining_ms(link, until)
    if effects:
        here = operation_of(link, aim.scope, "stop-producers").producer_effect
        effect = here if here in effects else effect
    arguments = stop_arguments(reason=reason, for_ms=for_ms, below=below)
    named = {"effect": effect} if effect not in ("", "hold") else {}
    given = {**arguments, **aim.arguments(), **named}
    shown = (link.broker or {}).get("stops")
    call = _called(by, link, aim, "stop-producers", given)
    before = stops_of((call.before or {}).get("stops"), aim)
    if (
        not before and aim.client and aim.scope.type == "Queue"
    ):  # a queue shows only the stops that block one of its own
        before = stops_of(shown, aim)
    after = _in_force_after(link, call, aim)
    ends = {stop["object"]: {name: stop[name] for name in END} for stop in after}
    return {
        **(call.answer or {}),
        "stops_before": [{**stop, "after": ends.get(stop["object"])} for stop in before],
        "stops_made": made_of(call.answer or {}, before, after, call.reason),
    }


def _in_force_after(link: BrokerLink, call: OperationCall, aim: Aim) -> list[dict[str, Any]]:
    """Return the stops of the scope that were in force right after a call; empty if that is not known."""
    found = stops_of(call.after.get("stops"), aim)
    if not found and aim.client and aim.scope.type == "Queue":  # the broker shows all, see `stop_producers`
        with suppress(AdminError):
            found = stops_of(link.call(lambda admin: admin.read(_BROKER), READ_SECONDS).attributes.get("stops"), aim)
    return found


def start_producers(
    by: Actor,
    link: BrokerLink,
    aim: Aim,
    *,
    reason: str,
    only: bool = False,
    stage: Mapping[str, int] | None = None,
) -> Mapping[str, Any]:
    """End the stop of a scope and, unless `only`, the stops of scopes inside it; producers of overfull queues stay
    blocked. `stage`: rate, step_ms and halt of a staged start, as the operation declares them. Returns the answer of
    the operation."""
    aim.check()
    given = {**start_arguments(reason=reason, only=only, stage=stage), **aim.arguments()}
    return _called(by, link, aim, "start-producers", given).answer or {}


def _called(by: Actor, link: BrokerLink, aim: Aim, name: str, given: Mapping[str, Any]) -> OperationCall:
    """Call an operation, and return the finished call. Where the broker's kind lacks an argument, the error says what
    to do instead."""
    try:
        call = OperationCall(by, link, aim.scope, declared_operation(aim.scope, name), given)
        call.send_and_wait(STOP_SECONDS)
        call.finish()
        return call
    except InvalidValue as error:
        if _LACKS.keys().isdisjoint(error.errors):
            raise
        here = operation_of(link, aim.scope, name)
        better = {key: lacking(here, [key]) for key in error.errors if key in _LACKS}
        raise InvalidValue({key: better.get(key) or sentence for key, sentence in error.errors.items()}) from None


def operation_of(link: BrokerLink, scope: ObjectName, name: str) -> Operation:
    """Return an operation as the broker has it. Raises InvalidValue if it has none for this type."""
    found = operation_in(link.call(lambda admin: admin.types(), READ_SECONDS), scope, name)
    if isinstance(found, str):
        raise InvalidValue({"scope": found})
    return found


def operation_in(types: Mapping[str, Any], scope: ObjectName, name: str) -> Operation | str:
    """Return an operation of a broker with these types, or a sentence that says that it has none."""
    declared = types.get(scope.type)
    found: Operation | None = declared.operation(name) if declared is not None else None
    if found is None:
        verb = name.removesuffix("-producers")
        return f"this broker cannot {verb} the producers of {_KINDS.get(scope.type, scope.type)}"
    return found


_KINDS = {
    "Broker": "all queues at once",
    "VirtualHost": "a virtual host",
    "Exchange": "an exchange",
    "Queue": "a queue",
}


def preview_stop(link: BrokerLink, aim: Aim, action: str = "stop") -> dict[str, Any]:
    """Return the impact of a stop or start, see `impact_of`, and what it does on this broker, see `ability_of`."""
    impact = impact_of(link, aim)
    return {**impact, **link.call(lambda admin: ability_of(admin, aim, action)), **clients_impact(link, aim)}


def clients_impact(link: BrokerLink, aim: Aim) -> dict[str, Any]:
    """Return the impact of a stop of clients where it differs from that on whole queues: {queues, producers,
    at_least, already_stopped, none_stopped, percent_used, largest}. Empty if the aim is not restricted to clients, or
    the broker cannot stop them. The queues are not listed: the broker counts only the producers in them."""
    return link.call(lambda admin: clients_impact_in(admin, aim)) if aim.client else {}


async def clients_impact_in(admin: BrokerAdmin, aim: Aim) -> dict[str, Any]:
    """See `clients_impact`."""
    operation = operation_in(await admin.types(), aim.scope, "stop-progress")
    if not aim.client or isinstance(operation, str) or lacking(operation, aim.arguments()):
        return {}
    found = await admin.call(aim.scope, "stop-progress", aim.arguments())
    return {
        "queues": found["queues"],
        "producers": found["producers"],
        "at_least": [],
        "already_stopped": 0,
        "none_stopped": False,
        "percent_used": None,
        "largest": [],
    }


def impact_of(link: BrokerLink, aim: Aim) -> dict[str, Any]:
    """Return the impact of a stop: {queues, producers, at_least, already_stopped, none_stopped, percent_used,
    largest: [...]}. `none_stopped`: whether it is known that none of the queues is stopped.
    `largest`: the queues with the most producers. `percent_used`: of the capacity of the fullest queue, None if it is
    unknown of all. `producers`: None if the broker does not report them. `at_least`: the names of the sums that do not
    have all their values, which are unknown. Raises BrokerUnreachable, NotFound."""
    covered = _covered(link, aim)
    largest = heapq.nlargest(
        _LARGEST, covered, key=lambda row: (row.get("producers") or 0, row.get("depth_messages") or 0)
    )
    shown = ("object", "virtualhost", "name", "state", "depth_messages", "depth_bytes", "producers")
    producers, whole = known_sum([row.get("producers") for row in covered])
    return {
        "queues": len(covered),
        "producers": producers,
        "at_least": [] if whole else ["producers"],
        "already_stopped": sum((row["state"] or "").endswith("STOPPED") for row in covered),
        "none_stopped": all(row["state"] and not row["state"].endswith("STOPPED") for row in covered),
        "percent_used": max((used for row in covered if (used := percent_used(row)) is not None), default=None),
        "largest": [{attribute: row.get(attribute) for attribute in shown} for row in largest],
    }


async def ability_of(admin: BrokerAdmin, aim: Aim, action: str) -> dict[str, Any]:
    """Return what a stop or a start (`action`) of these queues does on a broker: {effect, remark, arguments,
    unstoppable, cannot}. `remark`: a sentence about the effect. `arguments`: names of those that stops and starts have
    here. `unstoppable`: queues whose producers go on; None: unknown. `cannot`: why this cannot be done, "" if it can.
    """
    types = await admin.types()
    stop = operation_in(types, aim.scope, "stop-producers")
    if isinstance(stop, str):
        return {"effect": "", "remark": "", "arguments": [], "unstoppable": None, "cannot": stop}
    start = operation_in(types, aim.scope, "start-producers")
    arguments = {a.name for each in (stop, start) if isinstance(each, Operation) for a in each.arguments}
    found = {
        "effect": stop.producer_effect,
        "remark": stop.remark,
        "arguments": sorted(arguments - {"reason", "actor", "effect"}),
        "unstoppable": None,
        "cannot": lacking(stop, aim.arguments()),
    }
    if found["cannot"] or action == "start" or isinstance(operation_in(types, aim.scope, "preview-stop"), str):
        return found
    try:
        answer = await admin.call(aim.scope, "preview-stop", aim.arguments())
    except (NotAllowed, NotFound, InvalidValue):
        return found  # of a part that the user does not see; the stop itself says so
    return {**found, "unstoppable": answer["unstoppable"], "cannot": answer["fault"]}


_NOT_STAGED = "this broker has no staged start: start all producers at once"
_LACKS = {
    "pattern": "this broker cannot select queues by a pattern: stop all of it, or single queues",
    "queues": "this broker cannot stop several named queues at once: stop each of them",
    **dict.fromkeys(("user", "container_id", "link"), "this broker cannot stop the producers of single clients"),
    "for_ms": "a stop has no time limit on this broker",
    "below": "a stop does not end at a depth on this broker",
    **dict.fromkeys(("rate", "step_ms", "halt"), _NOT_STAGED),
}


def lacking(operation: Operation, given: Collection[str]) -> str:
    """Return a sentence about the first of the given arguments that an operation of a broker does not have, or ""."""
    names = {argument.name for argument in operation.arguments}
    missing = [name for name in given if name not in names]
    return _LACKS.get(missing[0], f"{operation.name} has no {missing[0]} on this broker") if missing else ""


def known_sum(values: Sequence[int | None]) -> tuple[int | None, bool]:
    """Return the sum of the known values and whether all are known; the sum is None if there are values and none is
    known."""
    known = [value for value in values if value is not None]
    return (sum(known) if known or not values else None), len(known) == len(values)


def progress(link: BrokerLink, aim: Aim) -> dict[str, Any]:
    """Return the progress of a stop, see `progress_in`."""
    aim.check()
    link.require_current()
    return link.call(lambda admin: progress_in(admin, link, aim))


async def progress_in(admin: BrokerAdmin, link: BrokerLink, aim: Aim) -> dict[str, Any]:
    """Return the progress of a stop: {queues, producers, draining, stopped, queues_above, fullest, stop}. `draining`:
    blocked producers whose messages in flight may still arrive. None: the broker does not report producers of queues.
    `queues_above`: how many queues its end at a depth waits for, and `fullest`: the fullest whose depth counts, {queue,
    percent}; None: it has no such end, or not known. `stop`: the stop of this scope that is in force: {reason, actor,
    since, until, below}, or None. Raises NotFound."""
    types = await admin.types()
    if isinstance(operation_in(types, aim.scope, "stop-progress"), Operation):
        figures = await admin.call(aim.scope, "stop-progress", aim.arguments())
    else:
        figures = await _counted(admin, types, _listed(link, aim))
    return {"queues_above": None, "fullest": None, **figures, "stop": stop_in((link.broker or {}).get("stops"), aim)}


async def _counted(admin: BrokerAdmin, types: Mapping[str, Any], queues: Sequence[Row]) -> dict[str, Any]:
    """Return the figures of `progress_in` from these rows of the snapshot, of a broker that does not count them."""
    rows = {row["object"]: row for row in queues}
    producers, _ = known_sum([row.get("producers") for row in queues])
    if producers is None:
        return {"queues": len(rows), "producers": None, "draining": None, "stopped": None}
    stopped, _ = known_sum([row.get("producers") for row in queues if (row["state"] or "").endswith("STOPPED")])
    declared = types.get("Producer")
    draining = 0
    if declared is not None and declared.attribute("draining") is not None:  # Headgate's broker of the release before
        page = await admin.query("Producer", where={"draining": True}, sort="id", count=_MOST_DRAINING)
        draining = sum(1 for producer in page.items if producer["queue"] in rows)
    stopped = max(0, (stopped or 0) - draining)
    return {"queues": len(rows), "producers": producers, "draining": draining, "stopped": stopped}


def percent_used(row: Row) -> int | None:
    """Return the used part of a queue's capacity in percent, the higher of messages and bytes; None without a
    capacity, and where the depth is unknown."""
    used = []
    for unit in ("messages", "bytes"):
        whole = row.get(f"effective_capacity_{unit}") or row.get(f"effective_stop_{unit}")
        depth = row.get(f"depth_{unit}")
        if whole and depth is not None:
            used.append(int(100 * depth / whole))
    return max(used, default=None)


def _covered(link: BrokerLink, aim: Aim) -> Sequence[Row]:
    aim.check()
    link.require_current()
    return _listed(link, aim)


def _listed(link: BrokerLink, aim: Aim) -> Sequence[Row]:
    """Return the queues of the aim in the snapshot. Raises NotFound."""
    if aim.scope.type == "Queue" and link.queue(aim.scope) is None:
        raise NotFound(f"there is no queue {aim.scope['name']} in virtual host {aim.scope['virtualhost']}")
    if aim.queues is not None:
        return [row for name in dict.fromkeys(aim.queues) if (row := link.queue(name)) is not None]
    return [row for row in link.queues() if aim.covers(row)]
