"""Stop and start the producers of a scope, of named queues, or on several brokers: impact preview and progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import AdminError, BrokerUnreachable, EffectNotConfirmed, InvalidValue, NotFound
from console import operations
from console.api import schema, stops_schema
from console.api.base_views import BrokerView
from console.links.link import BrokerLink
from console.links.queue_filter import matching
from console.links.visible import visible_link, visible_links
from console.operations import Aim
from console.permissions.rights import Rights

_TOTALS = ("queues", "producers", "already_stopped", "stopped", "draining", "missing")


class _AimView(BrokerView):
    """Base of calls on a scope of one broker, or on several brokers with a combined response."""

    def answer(self, call: Callable[[BrokerLink, Aim], Mapping[str, Any]]) -> Response:
        aim = self.aim()
        if "brokers" not in self.body:
            return Response(dict(call(self.link, aim)))
        wanted = _brokers(self.rights, self.body["brokers"])
        if aim.scope.type != "Broker" or aim.queues is not None:
            raise InvalidValue({"brokers": "brokers needs type=Broker as the scope, and no queues"})
        return Response(_call_all(wanted, lambda link: call(link, aim)))

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
        responses={200: stops_schema.StopAnswer, **schema.WRITE_REFUSALS, 409: stops_schema.EFFECT},
        summary="Stop all producers of a scope",
        description="Idempotent, and audited with its reason. Stops survive restarts of the broker. With `for_ms` or",
    )
    def post(self, request: Request) -> Response:
        return self.answer(
            lambda link, aim: operations.stop_producers(
                self.actor,
                link,
                aim,
                reason=self.body["reason"],
                for_ms=self.body["for_ms"],
                below=self.body["below"],
                effect=self.body["effect"],
            )
        )


class StartProducersView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StartRequest,
        responses={200: stops_schema.StopAnswer, **schema.WRITE_REFUSALS},
        summary="Start all producers of a scope",
        description="Lifts the stops of the scope and those nested in it; with `only`, nested stops stay. An overfull"
        " queue still blocks its producers.",
    )
    def post(self, request: Request) -> Response:
        return self.answer(
            lambda link, aim: operations.start_producers(
                self.actor,
                link,
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
        summary="Preview the impact of a stop",
        description="With `match` instead of `queues`, `objects` lists the matching queues, so that a stop can name"
        " exactly the queues that were previewed.",
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
        summary="Get stop progress",
    )
    def post(self, request: Request) -> Response:
        return self.answer(operations.progress)


def _matching(link: BrokerLink, match: Mapping[str, Any]) -> list[str]:
    """Return the object names of matching queues, sorted. Raises NotFound if there are none."""
    link.require_current()
    rows = matching(link.queues(), search=match["search"], states=match["states"])
    if not rows:
        raise NotFound("no queue matches")
    return sorted(row["object"] for row in rows)


def _brokers(rights: Rights, slugs: Sequence[str]) -> list[BrokerLink]:
    """Return the links of these slugs; `["*"]` means all. Raises UnknownBroker."""
    return visible_links(rights) if "*" in slugs else [visible_link(rights, slug) for slug in dict.fromkeys(slugs)]


def _call_all(wanted: Sequence[BrokerLink], call: Callable[[BrokerLink], Mapping[str, Any]]) -> dict[str, Any]:
    """Call every broker and combine the results; a failed call becomes an `error` of its broker and does not stop the
    others. Raises BrokerUnreachable if all calls failed, and the broker's own error if there is only one broker."""
    entries: list[dict[str, Any]] = []
    good: list[Mapping[str, Any]] = []
    failures: list[AdminError] = []
    for link in wanted:
        entry: dict[str, Any] = {"broker": link.slug, "title": link.title}
        try:
            answer = dict(call(link))
        except AdminError as error:
            if len(wanted) == 1:
                raise
            unconfirmed = {"effect": error.effect} if isinstance(error, EffectNotConfirmed) else {}
            entries.append({**entry, "error": str(error), **unconfirmed})
            failures.append(error)
            continue
        good.append(answer)
        entries.append({**entry, **answer})
    if not good:
        if all(isinstance(error, EffectNotConfirmed) for error in failures):
            raise failures[0]
        raise BrokerUnreachable("; ".join(f"{entry['title']}: {entry['error']}" for entry in entries))
    totals = {name: sum(answer[name] or 0 for answer in good) for name in _TOTALS if name in good[0]}
    largest = [{**queue, "broker": e["broker"]} for e in entries for queue in e.get("largest", ())]
    return {
        **totals,
        **({"changed": any(answer["changed"] for answer in good)} if "changed" in good[0] else {}),
        **({"largest": sorted(largest, key=lambda q: -(q["producers"] or 0))[:5]} if "largest" in good[0] else {}),
        "brokers": entries,
    }
