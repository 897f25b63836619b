"""Stop and start the producers of a scope, of named queues, or on several brokers; look beforehand at what that would
touch, and afterwards how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import AdminError, BrokerUnreachable, InvalidValue, NotFound
from brokers.model import QUEUE_STATES
from console import operations
from console.api import schema, stops_schema
from console.api.reading import BrokerView, body_of, name_in, text_in
from console.links.link import BrokerLink
from console.links.queue_filter import matching
from console.links.visible import visible_link, visible_links
from console.operations import Aim
from console.permissions.rights import Rights

_SUMMED = ("queues", "producers", "already_stopped", "stopped", "draining", "missing")


class _AimView(BrokerView):
    """All take the same aim, about one broker or several, and give the same kind of answer."""

    def answer(self, request: Request, ask: Callable[[BrokerLink, Aim, dict[str, Any]], Mapping[str, Any]]) -> Response:
        body = body_of(request)
        aim = self.aim(body)
        if "brokers" not in body:
            return Response(dict(ask(self.link, aim, body)))
        wanted = _brokers(self.rights, body)
        if aim.scope.type != "Broker" or aim.queues is not None:
            raise InvalidValue({"brokers": "several brokers can only be meant where the scope is the broker"})
        return Response(_together(wanted, lambda one: ask(one, aim, body)))

    def aim(self, body: Mapping[str, Any]) -> Aim:
        if "selection" not in body:
            return _aim(body)
        number = body["selection"]
        if isinstance(number, bool) or not isinstance(number, int):
            raise InvalidValue({"selection": f"selection is {number!r}: it must be the number of a saved one"})
        if "queues" in body:
            raise InvalidValue({"selection": "give selection or queues, not both"})
        found = operations.selection_of(self.actor, self.link, number)
        return _aim({**body, "queues": operations.queues_of(self.link, found)})


class StopProducersView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StopRequest,
        responses={200: stops_schema.StopAnswer, **schema.WRITE_REFUSALS},
        summary="Stop all producers of a scope",
        description="Idempotent, kept across restarts of the broker, and audited with its reason. With `for_ms` or"
        " `below` the broker starts them again by itself.",
    )
    def post(self, request: Request) -> Response:
        return self.answer(
            request,
            lambda one, aim, body: operations.stop_producers(
                self.actor,
                one,
                aim,
                reason=text_in(body, "reason"),
                for_ms=_count(body, "for_ms"),
                below=_count(body, "below"),
            ),
        )


class StartProducersView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StartRequest,
        responses={200: stops_schema.StopAnswer, **schema.WRITE_REFUSALS},
        summary="Start all producers of a scope",
        description="Lifts the operator's stops of the scope, with `only` this very stop and none inside it; an"
        " overfull queue still holds its producers.",
    )
    def post(self, request: Request) -> Response:
        return self.answer(
            request,
            lambda one, aim, body: operations.start_producers(
                self.actor,
                one,
                aim,
                reason=text_in(body, "reason"),
                only=body.get("only") is True,
                stage={name: _count(body, name) for name in ("rate", "step_ms", "halt")},
            ),
        )


class StopPreviewView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StopPreviewRequest,
        responses={200: stops_schema.StopPreview, **schema.READ_REFUSALS},
        summary="Tell what a stop would touch",
        description="With `match` instead of `queues`, the queues that match are told as `objects`, so that what was"
        " previewed is what is stopped.",
    )
    def post(self, request: Request) -> Response:
        body = body_of(request)
        if "selection" in body:
            aim = self.aim(body)
            return Response({**operations.preview_stop(self.link, aim), "objects": list(aim.queues or ())})
        if "match" not in body:
            return self.answer(request, lambda one, aim, _: operations.preview_stop(one, aim))
        objects = _matching(self.link, body)
        aim = Aim(name_in(body, "scope"), queues=tuple(objects))
        return Response({**operations.preview_stop(self.link, aim), "objects": objects})


class StopProgressView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StopScope,
        responses={200: stops_schema.StopProgress, **schema.READ_REFUSALS},
        summary="Tell how far a stop has come",
    )
    def post(self, request: Request) -> Response:
        return self.answer(request, lambda one, aim, _: operations.progress(one, aim))


def _aim(body: Mapping[str, Any]) -> Aim:
    queues = body.get("queues")
    if queues is not None and not (isinstance(queues, list) and all(isinstance(text, str) for text in queues)):
        raise InvalidValue({"queues": "queues must be a list of object names"})
    return Aim(name_in(body, "scope"), text_in(body, "pattern"), None if queues is None else tuple(queues))


def _matching(one: BrokerLink, body: Mapping[str, Any]) -> list[str]:
    match = body["match"]
    states = match.get("states", []) if isinstance(match, dict) else None
    if states is None or not isinstance(states, list) or any(state not in QUEUE_STATES for state in states):
        raise InvalidValue({"match": f"match must have search (text) and states (of {', '.join(QUEUE_STATES)})"})
    one.require_current()
    rows = matching(one.queues(), search=text_in(match, "search"), states=states)
    if not rows:
        raise NotFound("no queue matches any more")
    return sorted(row["object"] for row in rows)


def _brokers(rights: Rights, body: Mapping[str, Any]) -> list[BrokerLink]:
    """`brokers`: slugs, or `["*"]` for all. Raises InvalidValue, UnknownBroker."""
    slugs = body["brokers"]
    if not isinstance(slugs, list) or not slugs or not all(isinstance(slug, str) and slug for slug in slugs):
        raise InvalidValue({"brokers": 'brokers must be a list of slugs, or ["*"] for every broker'})
    return visible_links(rights) if "*" in slugs else [visible_link(rights, slug) for slug in dict.fromkeys(slugs)]


def _together(wanted: Sequence[BrokerLink], ask: Callable[[BrokerLink], Mapping[str, Any]]) -> dict[str, Any]:
    """Ask every broker; one that cannot be reached does not keep the others from it. Raises BrokerUnreachable if none
    answered, and whatever the only one refused."""
    told: list[dict[str, Any]] = []
    good: list[Mapping[str, Any]] = []
    for one in wanted:
        entry: dict[str, Any] = {"broker": one.slug, "title": one.title}
        try:
            answer = dict(ask(one))
        except AdminError as error:
            if len(wanted) == 1:
                raise
            told.append({**entry, "error": str(error)})
            continue
        good.append(answer)
        told.append({**entry, **answer})
    if not good:
        raise BrokerUnreachable("; ".join(f"{entry['title']}: {entry['error']}" for entry in told))
    summed = {name: sum(answer[name] for answer in good) for name in _SUMMED if name in good[0]}
    largest = [{**queue, "broker": e["broker"]} for e in told for queue in e.get("largest", ())]
    return {
        **summed,
        **({"changed": any(answer["changed"] for answer in good)} if "changed" in good[0] else {}),
        **({"largest": sorted(largest, key=lambda q: -q["producers"])[:5]} if "largest" in good[0] else {}),
        "brokers": told,
    }


def _count(body: Mapping[str, Any], field: str) -> int:
    value = body.get(field) or 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidValue({field: f"{field} is {value!r}: it must be a whole number of 0 or more"})
    return value
