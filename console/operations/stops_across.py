"""Stop and start the producers of several brokers in one call: separately, and all at the same time.

Each broker has its own permission check, audit row and result. One that does not answer delays no other: the call ends
after a bounded time, and its result says that the outcome is unknown. A stop that does not hold producers somewhere
changes nothing anywhere unless the effect is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.core.exceptions import PermissionDenied

from brokers.admin import AdminError, BrokerAdmin, EffectNotConfirmed, InvalidValue
from brokers.model import TYPES, ManagedType, Operation
from console.access.actor import Actor
from console.audit.models import Outcome
from console.links.registry import BrokerLink
from console.operations.operation_calls import OperationCall
from console.operations.stop_facts import END, made_of, stop_in, stops_of
from console.operations.stops import (
    READ_SECONDS,
    STOP_SECONDS,
    Aim,
    ability_of,
    clients_impact_in,
    impact_of,
    known_sum,
    lacking,
    operation_in,
    progress_in,
    remaining_ms,
    start_arguments,
    stop_arguments,
)
from console.permissions.rights import needed

T = TypeVar("T")
Entry = dict[str, Any]

#: Values of a broker that are summed over all of them, if they are in its result.
_TOTALS = ("queues", "producers", "already_stopped", "stopped", "draining", "missing", "unstoppable")


class EffectsNotConfirmed(EffectNotConfirmed):
    """Nothing was changed: on some brokers a stop does not hold producers, and the request does not name what it does.
    `brokers`: each of them as {broker, title, effect, sentence}."""

    def __init__(self, brokers: Sequence[Mapping[str, str]]) -> None:
        one = len(brokers) == 1
        sentences = [each["sentence"] if one else f"{each['title']}: {each['sentence']}" for each in brokers]
        super().__init__(" ".join(sentences), brokers[0]["effect"])
        self.brokers = [dict(each) for each in brokers]


class NowhereDone(AdminError):
    """The call has succeeded on no broker. `brokers`: their results. `denied`: all for lack of permission; `refused`:
    all by the brokers or the console, so that another attempt is in vain."""

    def __init__(self, brokers: Sequence[Entry], *, denied: bool) -> None:
        one = len(brokers) == 1
        super().__init__("; ".join(e["error"] if one else f"{e['title']}: {e['error']}" for e in brokers))
        self.brokers = list(brokers)
        self.denied = denied
        self.refused = all(entry["outcome"] == Outcome.REFUSED for entry in brokers)


@dataclass
class _Part:
    """One broker's part of a call."""

    link: BrokerLink
    types: Mapping[str, ManagedType] | None = None
    fault: Exception | None = None
    call: OperationCall | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def entry(self) -> Entry:
        return {"broker": self.link.slug, "title": self.link.title}

    def operation(self, aim: Aim, name: str) -> Operation | None:
        """Return the operation as the broker has it, or None with a fault."""
        if self.types is None:
            return None
        found = operation_in(self.types, aim.scope, name)
        if isinstance(found, str):
            self.fault = InvalidValue({"scope": found})
            return None
        return found


def stop_across(
    by: Actor,
    links: Sequence[BrokerLink],
    aim: Aim,
    *,
    reason: str,
    for_ms: int = 0,
    until: int = 0,
    below: int = 0,
    effects: Collection[str] = (),
) -> dict[str, Any]:
    """Stop the producers of several brokers, with an end as that of `stop_producers`. `effects`: what a stop may do to
    producers besides holding them. Returns totals and `brokers`: the result of each, see `_result`. Raises
    EffectsNotConfirmed, NowhereDone, InvalidValue."""
    times, passed = {link.slug: for_ms for link in links}, dict[str, InvalidValue]()
    for link in links if until else ():
        try:
            times[link.slug] = remaining_ms(link, until)
        except InvalidValue as error:  # by the clock of this broker
            passed[link.slug] = error
    if len(passed) == len(links) > 0:
        raise next(iter(passed.values()))
    arguments = {**stop_arguments(reason=reason, for_ms=max(times.values()), below=below), **aim.arguments()}
    parts = _parts(by, links, aim, "stop-producers", arguments)
    unconfirmed = []
    for part in parts:
        part.fault = part.fault or passed.get(part.link.slug)
        if until:
            part.arguments["for_ms"] = times[part.link.slug]
        stop = part.operation(aim, "stop-producers") if part.fault is None else None
        if stop is None or stop.producer_effect in ("", "hold"):
            continue
        part.arguments["effect"] = stop.producer_effect
        if stop.producer_effect not in effects:
            unconfirmed.append((part, stop))
    if unconfirmed:
        raise _refused(by, aim, unconfirmed)
    return _combined(aim, _called(by, aim, "stop-producers", parts))


def start_across(
    by: Actor,
    links: Sequence[BrokerLink],
    aim: Aim,
    *,
    reason: str,
    only: bool = False,
    stage: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Start the producers of several brokers; results as those of `stop_across`. Raises NowhereDone, InvalidValue."""
    arguments = {**start_arguments(reason=reason, only=only, stage=stage), **aim.arguments()}
    return _combined(aim, _called(by, aim, "start-producers", _parts(by, links, aim, "start-producers", arguments)))


def preview_across(by: Actor, links: Sequence[BrokerLink], aim: Aim, action: str = "stop") -> dict[str, Any]:
    """Return the impact on several brokers: totals over those where a stop can be made, and `brokers`: of each, as
    `preview_stop` returns it, with `connected`. `cannot`: why nothing can be done there, also for the user's
    permissions; `error`: why it does not answer, then nothing will be done there."""

    async def ability(link: BrokerLink) -> dict[str, Any]:
        able = await link.acall(lambda admin: ability_of(admin, aim, action), READ_SECONDS)
        return {**able, **await link.acall(lambda admin: clients_impact_in(admin, aim), READ_SECONDS)}

    entries: list[Entry] = []
    for link, found in zip(links, _together(links, ability), strict=True):
        entry: Entry = {"broker": link.slug, "title": link.title, "connected": link.connected}
        if isinstance(found, Exception):
            entries.append({**entry, "error": str(found)})
            continue
        try:
            entry = {**entry, **impact_of(link, aim), **found}
        except AdminError as error:  # it was lost meanwhile
            entries.append({**entry, "error": str(error)})
            continue
        if missing := by.rights.missing(link.slug, needed(aim.scope, "stop-producers", aim.arguments())):
            entry["cannot"] = f"that needs {missing}"
        entries.append(entry)
    able = [entry for entry in entries if not entry.get("error") and not entry["cannot"]]
    return {
        **_totals(able, ("queues", "producers", "already_stopped", "unstoppable")),
        "percent_used": max((e["percent_used"] for e in able if e["percent_used"] is not None), default=None),
        "largest": _largest(able),
        "brokers": entries,
    }


def progress_across(links: Sequence[BrokerLink], aim: Aim) -> dict[str, Any]:
    """Return the progress on several brokers: totals, and `brokers`: of each, as `progress` returns it, or `error`."""

    def read(link: BrokerLink) -> Awaitable[dict[str, Any]]:
        return link.acall(lambda admin: progress_in(admin, link, aim), READ_SECONDS)

    found = _together(links, read)
    entries = [
        {"broker": link.slug, "title": link.title, **({"error": str(each)} if isinstance(each, Exception) else each)}
        for link, each in zip(links, found, strict=True)
    ]
    answered = [entry for entry in entries if "error" not in entry]
    return {**_totals(answered, ("queues", "producers", "draining", "stopped")), "brokers": entries}


# -- inside -----------------------------------------------------------------------------------------------------------


def _together(links: Sequence[BrokerLink], request: Callable[[BrokerLink], Awaitable[T]]) -> list[T | AdminError]:
    """Send a request to each broker at the same time; return the answers or errors, in the order of the links."""

    async def caught(link: BrokerLink) -> T | AdminError:
        try:
            return await request(link)
        except AdminError as error:
            return error

    async def all_of_them() -> list[T | AdminError]:
        return list(await asyncio.gather(*(caught(link) for link in links)))

    return asyncio.run(all_of_them())


def _parts(
    by: Actor, links: Sequence[BrokerLink], aim: Aim, operation: str, arguments: Mapping[str, Any]
) -> list[_Part]:
    """Return the part of each broker, with a fault where nothing can be done."""
    aim.check()
    if not str(arguments["reason"]).strip():
        raise InvalidValue({"reason": "reason is required: it is shown to all users"})
    parts = []
    for link, found in zip(links, _together(links, lambda link: link.acall(_types, READ_SECONDS)), strict=True):
        part = _Part(link, arguments=dict(arguments))
        if missing := by.rights.missing(link.slug, needed(aim.scope, operation, arguments)):
            part.fault = PermissionDenied(f"that needs {missing}")
        elif isinstance(found, Exception):
            part.fault = found
        else:
            part.types = found
            declared = part.operation(aim, operation)
            if declared is not None and (sentence := lacking(declared, [a for a in arguments if a != "reason"])):
                part.fault = InvalidValue({"": sentence})
        parts.append(part)
    return parts


async def _types(admin: BrokerAdmin) -> Mapping[str, ManagedType]:
    return await admin.types()


def _refused(by: Actor, aim: Aim, unconfirmed: Sequence[tuple[_Part, Operation]]) -> EffectsNotConfirmed:
    """Record the refusal on each broker whose effect is not named, and return it."""
    found = []
    for part, stop in unconfirmed:
        sentence = stop.remark or f"on this broker a stop has the effect {stop.producer_effect}"
        found.append({**part.entry, "effect": stop.producer_effect, "sentence": sentence})
        part.arguments.pop("effect")
        _finish(by, aim, "stop-producers", part, EffectNotConfirmed(sentence, stop.producer_effect))
    return EffectsNotConfirmed(found)


def _called(by: Actor, aim: Aim, operation: str, parts: Sequence[_Part]) -> list[_Part]:
    """Call the operation on the brokers without a fault, at the same time; then write the audit rows of all."""
    declared = TYPES[aim.scope.type].operation(operation)
    assert declared is not None  # `Aim.check` has found it
    sent = []
    for part in parts:
        part.call = OperationCall(by, part.link, aim.scope, declared, part.arguments)
        if part.fault is None:
            sent.append(part.call)

    async def send() -> None:
        await asyncio.gather(*(call.send(STOP_SECONDS) for call in sent))

    asyncio.run(send())
    for part in parts:
        _finish(by, aim, operation, part, part.fault)
    return list(parts)


def _finish(by: Actor, aim: Aim, operation: str, part: _Part, fault: Exception | None) -> None:
    """Write the audit row of one broker; what was raised becomes its fault."""
    declared = TYPES[aim.scope.type].operation(operation)
    assert declared is not None
    call = part.call or OperationCall(by, part.link, aim.scope, declared, part.arguments)
    call.fault = call.fault or fault
    part.call = call
    try:
        call.finish()
    except (AdminError, PermissionDenied) as error:
        part.fault = error


def _result(aim: Aim, part: _Part) -> Entry:
    """Return the result of one broker: the answer of its operation, or `error`, a sentence; `outcome`: done, refused
    or failed (nothing was changed), or unknown (it did not answer in time: it was done or not). `earlier`: the end of
    a stop of this scope that was in force before, {until, below, replaced, since, after}, or None; see `stops_of`, and
    for `after` `stop_producers`. Of an unknown outcome it is missing if it is not known. `made`: the stop that the call
    has made, {since, until, below}; None: it has made none, or that is not known."""
    call = part.call
    assert call is not None
    if part.fault is not None:
        named = {"effect": part.fault.effect} if isinstance(part.fault, EffectNotConfirmed) else {}
        before = {"earlier": _earlier(aim, call)} if call.outcome == Outcome.UNKNOWN and call.before is not None else {}
        return {**part.entry, "outcome": str(call.outcome), "error": str(part.fault), **named, **before}
    answer, (found, after) = call.answer or {}, [stops_of((each or {}).get("stops"), aim) for each in _states(call)]
    made = [{name: stop[name] for name in ("since", *END)} for stop in made_of(answer, found, after, call.reason)]
    extra = {"earlier": _earlier(aim, call), "made": made[0] if made else None}
    return {**part.entry, "outcome": str(call.outcome), **answer, **extra}


def _states(call: OperationCall) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    return call.before, call.after


def _earlier(aim: Aim, call: OperationCall) -> dict[str, Any] | None:
    before, now = (stop_in((each or {}).get("stops"), aim) for each in _states(call))
    if before is None:
        return None
    after = None if now is None else {name: now[name] for name in END}
    return {**{name: before[name] for name in (*END, "replaced", "since")}, "after": after}


def _combined(aim: Aim, parts: Sequence[_Part]) -> dict[str, Any]:
    """Return totals over the brokers where it was done, and the results. Raises NowhereDone if there is none, and the
    one InvalidValue if all of them refuse the same."""
    entries = [_result(aim, part) for part in parts]
    done = [entry for entry in entries if entry["outcome"] == Outcome.DONE]
    if not done:
        faults = [part.fault for part in parts]
        unconfirmed = [
            {**part.entry, "effect": part.fault.effect, "sentence": str(part.fault)}
            for part in parts
            if isinstance(part.fault, EffectNotConfirmed)
        ]
        if len(unconfirmed) == len(parts):  # the brokers have changed since their types were read
            raise EffectsNotConfirmed(unconfirmed)
        invalid = [fault.errors for fault in faults if isinstance(fault, InvalidValue)]
        if len(invalid) == len(faults) and all(each == invalid[0] for each in invalid) and "" not in invalid[0]:
            raise InvalidValue(invalid[0])
        raise NowhereDone(entries, denied=all(isinstance(fault, PermissionDenied) for fault in faults))
    return {
        **_totals(done, _TOTALS),
        "changed": any(entry["changed"] for entry in done),
        "brokers": entries,
    }


def _totals(entries: Sequence[Entry], names: Sequence[str]) -> dict[str, Any]:
    """Return the sums over the brokers, and `at_least`: the names of those that miss an unknown value."""
    found: dict[str, Any] = {}
    at_least = set()
    for name in names:
        found[name], whole = known_sum([entry.get(name) for entry in entries])
        if not whole or any(name in entry.get("at_least", ()) for entry in entries):
            at_least.add(name)
    return {**found, "at_least": sorted(at_least)}


def _largest(entries: Sequence[Entry]) -> list[Entry]:
    found = [{**queue, "broker": entry["broker"]} for entry in entries for queue in entry["largest"]]
    return sorted(found, key=lambda queue: -(queue["producers"] or 0))[:5]
