"""The operations that stop and start producers, preview a stop and report its progress, for each managed type that is a
scope of stops."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from brokers.admin import InvalidValue
from brokers.engine.broker import Broker
from brokers.engine.flow.explanation import percent_used
from brokers.engine.management.resources.resource import OperationCall, Values
from brokers.engine.queues.queue import Queue
from brokers.engine.values.clients import Client
from brokers.engine.values.stage import stage
from brokers.engine.values.stops import End, Scope, StopOutcome
from brokers.model import ObjectName
from brokers.model.stop_operations import MOST_FULLEST

T = TypeVar("T")


def stop_operations(broker: Broker, scope_of: Callable[[T, Values], Scope]) -> dict[str, OperationCall[T]]:
    """Return the operations `stop-producers`, `start-producers`, `preview-stop` and `stop-progress` for objects with
    the scope that `scope_of` returns.
    A request may name queues instead (`queues`): then each of them is a scope of its own. It may restrict each scope to
    clients."""

    def stop(thing: T, given: Values) -> dict[str, Any]:
        if (given.get("effect") or "hold") != "hold":
            raise InvalidValue({"effect": f"effect is {given['effect']!r}: on this broker a stop holds the producers"})
        scopes, missing = _scopes(broker, scope_of(thing, given), given)
        for_ms = given.get("for_ms", 0)
        end = End(broker.turn.now + for_ms if for_ms else None, given.get("below", 0))
        outcome = broker.stopping.stop_all(scopes, given.get("reason", ""), given["actor"], end)
        return _answer(outcome, missing)

    def start(thing: T, given: Values) -> dict[str, Any]:
        scopes, missing = _scopes(broker, scope_of(thing, given), given)
        staged = stage(given.get("rate", 0), given.get("step_ms", 0), given.get("halt", 0), broker.turn.now)
        only = given.get("only", False)
        outcome = broker.stopping.start_all(scopes, given.get("reason", ""), given["actor"], only=only, stage=staged)
        return _answer(outcome, missing)

    def preview(thing: T, given: Values) -> dict[str, Any]:
        scopes, _ = _scopes(broker, scope_of(thing, given), given)
        found = broker.stopping.progress(scopes)
        return {"queues": found.queues, "producers": found.producers, "unstoppable": 0, "fault": ""}

    def progress(thing: T, given: Values) -> dict[str, Any]:
        scopes, _ = _scopes(broker, scope_of(thing, given), given)
        return {**_figures(broker.stopping.progress(scopes)), **_depth_end(broker.stopping.awaited(scopes))}

    return {"stop-producers": stop, "start-producers": start, "preview-stop": preview, "stop-progress": progress}


def _scopes(broker: Broker, whole: Scope, given: Values) -> tuple[list[Scope], int]:
    """Return the scopes of a request, and how many of the named queues do not exist. Raises InvalidValue."""
    client = Client.of(given)
    if "queues" not in given:
        return [replace(whole, client=client)], 0
    if given.get("pattern"):
        raise InvalidValue({"queues": "queues and pattern are both given: name the queues, or give a pattern"})
    scopes, texts = [], {str(text): None for text in given["queues"]}
    for name in _queue_names(texts):
        host = broker.virtualhosts.get(name["virtualhost"])
        if host is not None and name["name"] in host.queues:
            scopes.append(Scope(host.name, queue=name["name"], client=client))
    return scopes, len(texts) - len(scopes)


def _queue_names(texts: Iterable[str]) -> Iterable[ObjectName]:
    for text in texts:
        try:
            name = ObjectName.parse(text)
        except ValueError as error:
            raise InvalidValue({"queues": str(error)}) from None
        if name.type != "Queue":
            raise InvalidValue({"queues": f"queues has {text}: each must be the name of a queue"})
        yield name


def _answer(outcome: StopOutcome, missing: int) -> dict[str, Any]:
    return {
        **_figures(outcome),
        "changed": outcome.changed,
        "changed_queues": [str(scope.object) for scope in outcome.scopes if scope.queue],
        "missing": missing,
        "unstoppable": 0,
    }


def _depth_end(awaited: Iterable[tuple[Queue, int]] | None) -> dict[str, Any]:
    """Return what a stop that ends at a depth waits for. Queues without a capacity are ignored, as for its end."""
    if awaited is None:
        return {"queues_above": None, "fullest": None}
    used = [(percent, queue, below) for queue, below in awaited if (percent := percent_used(queue.gate)) is not None]
    fullest = heapq.nlargest(MOST_FULLEST, used, key=lambda each: each[0])
    # Rounded up: a queue at 40.2% is above 40%, and must not be reported as at 40%.
    return {
        "queues_above": sum(percent > below for percent, _, below in used),
        "fullest": [{"queue": str(queue.object_name), "percent": math.ceil(percent)} for percent, queue, _ in fullest],
    }


def _figures(outcome: StopOutcome) -> dict[str, Any]:
    return {
        "queues": outcome.queues,
        "producers": outcome.producers,
        "stopped": outcome.stopped,
        "draining": outcome.draining,
    }
