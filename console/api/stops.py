"""Stop and start the producers of a scope, of named queues, or on several brokers; look beforehand at what that would
touch, and afterwards how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import AdminError, BrokerUnreachable, InvalidValue, NotFound
from console import operations
from console.api import schema, stops_schema
from console.api.reading import BrokerView
from console.links.link import BrokerLink
from console.links.queue_filter import matching
from console.links.visible import visible_link, visible_links
from console.operations import Aim
from console.permissions.rights import Rights

_SUMMED = ("queues", "producers", "already_stopped", "stopped", "draining", "missing")


class _AimView(BrokerView):
    """All take the same aim, about one broker or several, and give the same kind of answer."""

    def answer(self, ask: Callable[[BrokerLink, Aim], Mapping[str, Any]]) -> Response:
        aim = self.aim()
        if "brokers" not in self.body:
            return Response(dict(ask(self.link, aim)))
        wanted = _brokers(self.rights, self.body["brokers"])
        if aim.scope.type != "Broker" or aim.queues is not None:
            raise InvalidValue({"brokers": "several brokers can only be meant where the scope is the broker"})
        return Response(_together(wanted, lambda one: ask(one, aim)))

    def aim(self) -> Aim:
        body = self.body
        queues: Sequence[str] | None = body.get("queues")
        if "selection" in body:
            if "queues" in body:
                raise InvalidValue({"selection": "give selection or queues, not both"})
            found = operations.selection_of(self.actor, self.link, body["selection"])
            queues = operations.queues_of(self.link, found)
        return Aim(body["scope"], body["pattern"], None if queues is None else tuple(queues))


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
            lambda one, aim: operations.stop_producers(
                self.actor,
                one,
                aim,
                reason=self.body["reason"],
                for_ms=self.body["for_ms"],
                below=self.body["below"],
            )
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
            lambda one, aim: operations.start_producers(
                self.actor,
                one,
                aim,
                reason=self.body["reason"],
                only=self.body["only"],
                stage={name: self.body[name] for name in ("rate", "step_ms", "halt")},
            )
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
        if "selection" in self.body:
            aim = self.aim()
            return Response({**operations.preview_stop(self.link, aim), "objects": list(aim.queues or ())})
        if "match" not in self.body:
            return self.answer(operations.preview_stop)
        objects = _matching(self.link, self.body["match"])
        aim = Aim(self.body["scope"], queues=tuple(objects))
        return Response({**operations.preview_stop(self.link, aim), "objects": objects})


class StopProgressView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StopScope,
        responses={200: stops_schema.StopProgress, **schema.READ_REFUSALS},
        summary="Tell how far a stop has come",
    )
    def post(self, request: Request) -> Response:
        return self.answer(operations.progress)


def _matching(one: BrokerLink, match: Mapping[str, Any]) -> list[str]:
    one.require_current()
    rows = matching(one.queues(), search=match["search"], states=match["states"])
    if not rows:
        raise NotFound("no queue matches any more")
    return sorted(row["object"] for row in rows)


def _brokers(rights: Rights, slugs: Sequence[str]) -> list[BrokerLink]:
    """Of these slugs, or of `["*"]` for all. Raises UnknownBroker."""
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
