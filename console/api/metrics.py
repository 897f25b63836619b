"""Metrics of brokers, and of queues on request, for Prometheus. Never open by default: they need a token, a session,
or an address of a network in the settings."""

from __future__ import annotations

import ipaddress
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request

from brokers.admin import InvalidValue
from brokers.model import QUEUE_STATES
from brokers.model.patterns import matches, pattern_fault
from console.api import schema
from console.api.base_views import PersonalView, choices_in
from console.api.permission import HasAnyRole
from console.links.visible import visible_link, visible_links
from console.permissions.rights import Grant, Rights, Role

#: Queues in one response: each has about 20 series.
MAX_QUEUES = 20_000
#: Length of the parameter `queue`, in characters.
MAX_PATTERN = 255

_READS_ALL = Rights.of([Grant(Role.VIEWER)])


def from_allowed_network(request: Request) -> bool:
    """Return whether the request has no credentials and comes from a network of HEADGATE_METRICS_NETWORKS."""
    if request.auth is not None or (request.user and request.user.is_authenticated):
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in network for network in settings.HEADGATE_METRICS_NETWORKS)


class MayScrape(HasAnyRole):
    """Permission to read metrics: any role, or an address of the networks in the settings."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return from_allowed_network(request) or super().has_permission(request, view)


class _AnyMediaType(DefaultContentNegotiation):
    """Prometheus accepts no JSON, which errors are: they are sent regardless."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class _ExpositionView(PersonalView):
    permission_classes = [MayScrape]
    content_negotiation_class = _AnyMediaType

    @property
    def rights(self) -> Rights:
        return _READS_ALL if from_allowed_network(self.request) else super().rights

    def answer(self, collector: Any) -> HttpResponse:
        from console.metrics.exposition import encoded

        content, media = encoded(collector, self.request.headers.get("Accept", ""))
        return HttpResponse(content, content_type=media, headers={"Cache-Control": "no-store"})


def _responses(description: str) -> dict[Any, Any]:
    text = OpenApiResponse({"type": "string"}, description=description)
    refusals = {code: schema.READ_REFUSALS[code] for code in (400, 403)}
    return {(200, "text/plain"): text, (200, "application/openmetrics-text"): text, **refusals}


class MetricsView(_ExpositionView):
    @extend_schema(
        responses=_responses("Gauges by `broker`"),
        operation_id="metrics",
        summary="Metrics of brokers for Prometheus",
        description="One set of series for each visible broker. A broker that is not connected has only"
        " `headgate_broker_up` 0. Unknown values and absent limits have no series. OpenMetrics if `Accept` names it.",
    )
    def get(self, request: Request) -> HttpResponse:
        from console.metrics.exposition import BrokerMetrics

        return self.answer(BrokerMetrics(visible_links(self.rights)))


class QueueMetricsView(_ExpositionView):
    @extend_schema(
        parameters=[
            schema.parameter("broker", "Slug of a broker; omitted: all visible ones."),
            schema.parameter("virtualhost", "Virtual hosts; repeated: any of them.", many=True),
            schema.parameter("queue", "Pattern of names, as in policies: `*` is one word, `#` at the end any words."),
            schema.parameter("state", "States; repeated: any of them.", enum=list(QUEUE_STATES), many=True),
        ],
        responses={**_responses("Series by `broker`, `virtualhost` and `queue`"), 404: schema.READ_REFUSALS[404]},
        operation_id="metrics_queues",
        summary="Metrics of queues for Prometheus",
        description=f"Refused with 400 if more than {MAX_QUEUES:,} queues match. Queues of brokers that are not"
        " connected have no series.",
    )
    def get(self, request: Request) -> HttpResponse:
        from console.metrics.exposition import QueueMetrics

        query = request.query_params
        pattern = query.get("queue", "")
        if len(pattern) > MAX_PATTERN:
            raise InvalidValue({"queue": f"queue has {len(pattern):,} characters: at most {MAX_PATTERN} are allowed"})
        if fault := pattern_fault(pattern):
            raise InvalidValue({"queue": fault})
        hosts, states = frozenset(query.getlist("virtualhost")), frozenset(choices_in(query, "state", QUEUE_STATES))
        slug = query.get("broker", "")
        links = [visible_link(self.rights, slug)] if slug else visible_links(self.rights)
        found = [
            (link.slug, row)
            for link in links
            if link.connected
            for row in link.queues()
            if (not hosts or row["virtualhost"] in hosts)
            and (not states or row.get("state") in states)
            and matches(pattern, row["name"])
        ]
        if len(found) > MAX_QUEUES:
            sentence = f"{len(found):,} queues match, and at most {MAX_QUEUES:,} are allowed: select fewer"
            raise InvalidValue({"queue": f"{sentence} by queue, virtualhost, state or broker"})
        return self.answer(QueueMetrics(found))
