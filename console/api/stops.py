"""Stop and start the producers of a scope, of named queues, or on several brokers: impact preview and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue, NotFound
from console import operations
from console.api import schema, stops_schema
from console.api.base_views import BrokerView
from console.brokers.configured import configured
from console.links.link import BrokerLink
from console.links.queue_filter import matching
from console.links.visible import visible_link, visible_links
from console.operations import Aim
from console.permissions.rights import Rights


class _AimView(BrokerView):
    """Base of calls on a scope of one broker, or on several brokers with a result for each."""

    def aim(self) -> Aim:
        body = self.body
        queues: Sequence[str] | None = body.get("queues")
        if "selection" in body:
            if "queues" in body:
                raise InvalidValue({"selection": "give selection or queues, not both"})
            found = operations.selection_of(self.actor, self.link, body["selection"])
            queues = operations.queues_of(self.link, found)
        named = {name: body[name] for name in ("user", "container_id", "link")}
        return Aim(body["scope"], body["pattern"], None if queues is None else tuple(queues), **named)

    def brokers(self, aim: Aim) -> list[BrokerLink]:
        """Return the links of the brokers that the body names; empty: it names none. Raises InvalidValue,
        UnknownBroker."""
        slugs, tags = self.body.get("brokers"), self.body.get("tags")
        if slugs is None and tags is None:
            return []
        field = "tags" if slugs is None else "brokers"
        if slugs is not None and tags is not None:
            raise InvalidValue({"tags": "give brokers or tags, not both"})
        if aim.scope.type != "Broker" or aim.queues is not None:
            raise InvalidValue({field: f"{field} needs type=Broker as the scope, and no queues"})
        return _brokers(self.rights, slugs) if slugs is not None else _tagged(self.rights, tags or ())


class StopProducersView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StopRequest,
        responses={200: stops_schema.StopAnswer, **schema.WRITE_REFUSALS, 409: stops_schema.EFFECT},
        summary="Stop all producers of a scope",
        description="Idempotent, and audited with its reason. Stops survive restarts of the broker. With `brokers` or"
        " `tags`, all of them are stopped at the same time, and each has its result; if an effect is not named, nothing"
        " is changed anywhere.",
    )
    def post(self, request: Request) -> Response:
        body, aim = self.body, self.aim()
        if body["for_ms"] and body["until"]:
            raise InvalidValue({"until": "give until or for_ms, not both"})
        end = {name: body[name] for name in ("reason", "for_ms", "until", "below")}
        if links := self.brokers(aim):
            effects = {*body["effects"], body["effect"]}
            return Response(operations.stop_across(self.actor, links, aim, **end, effects=effects))
        answer = operations.stop_producers(
            self.actor, self.link, aim, **end, effect=body["effect"], effects=body["effects"]
        )
        return Response(dict(answer))


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
        body, aim = self.body, self.aim()
        stage = {name: body[name] for name in ("rate", "step_ms", "halt")}
        how = {"reason": body["reason"], "only": body["only"], "stage": stage}
        if links := self.brokers(aim):
            return Response(operations.start_across(self.actor, links, aim, **how))
        return Response(dict(operations.start_producers(self.actor, self.link, aim, **how)))


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
        aim, action = self.aim(), self.body["action"]
        if links := self.brokers(aim):
            return Response(operations.preview_across(self.actor, links, aim, action))
        if "selection" in self.body:
            return Response({**operations.preview_stop(self.link, aim, action), "objects": list(aim.queues or ())})
        if "match" not in self.body:
            return Response(operations.preview_stop(self.link, aim, action))
        objects = _matching(self.link, self.body["match"])
        aim = replace(aim, queues=tuple(objects))
        return Response({**operations.preview_stop(self.link, aim, action), "objects": objects})


class StopProgressView(_AimView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.StopScope,
        responses={200: stops_schema.StopProgress, **schema.READ_REFUSALS},
        summary="Get stop progress",
    )
    def post(self, request: Request) -> Response:
        aim = self.aim()
        if links := self.brokers(aim):
            return Response(operations.progress_across(links, aim))
        return Response(operations.progress(self.link, aim))


def _matching(link: BrokerLink, match: Mapping[str, Any]) -> list[str]:
    """Return the object names of matching queues, sorted. Raises NotFound if there are none."""
    link.require_current()
    rows = matching(link.queues(), search=match["search"], states=match["states"], only=match["only"])
    if not rows:
        raise NotFound("no queue matches")
    return sorted(row["object"] for row in rows)


def _brokers(rights: Rights, slugs: Sequence[str]) -> list[BrokerLink]:
    """Return the links of these slugs; `["*"]` means all. Raises UnknownBroker."""
    return visible_links(rights) if "*" in slugs else [visible_link(rights, slug) for slug in dict.fromkeys(slugs)]


def _tagged(rights: Rights, tags: Sequence[str]) -> list[BrokerLink]:
    """Return the links of the visible brokers that have one of the tags. Raises InvalidValue for a tag of no broker: a
    misspelt one must not silently match nothing."""
    tags_of = {entry["slug"]: set(entry.get("tags", ())) for entry in configured()}
    links = visible_links(rights)
    known = {tag for link in links for tag in tags_of.get(link.slug, ())}
    if unknown := [tag for tag in tags if tag not in known]:
        raise InvalidValue({"tags": f"no broker has the tag {unknown[0]}"})
    return [link for link in links if tags_of.get(link.slug, set()) & set(tags)]
