"""Brokers of this console: connection state and types of managed objects."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.model import ManagedType
from console.api import schema
from console.api.base_views import BrokerView, PersonalView
from console.links.link import BrokerLink
from console.links.visible import visible_links


class BrokersView(PersonalView):
    @extend_schema(responses={200: schema.Broker(many=True)}, summary="List brokers")
    def get(self, request: Request) -> Response:
        return Response([_shown(link) for link in visible_links(self.rights)])


class BrokerDetailView(BrokerView):
    @extend_schema(responses={200: schema.BrokerDetail, 404: schema.READ_REFUSALS[404]}, summary="Get a broker")
    def get(self, request: Request, slug: str) -> Response:
        return Response({**_shown(self.link), "attributes": self.link.broker})


class TypesView(BrokerView):
    @extend_schema(
        responses={
            200: OpenApiResponse({"type": "array", "items": {"type": "object"}}, description="The managed model"),
            **schema.READ_REFUSALS,
        },
        summary="List the types of managed objects of a broker",
        description="Each type with its keys, attributes (kind, unit, writable, nullable, choices), operations"
        " (arguments, returns, effect) and notifications.",
    )
    def get(self, request: Request, slug: str) -> Response:
        types = self.link.call(lambda admin: admin.types())
        return Response([_type(managed_type) for managed_type in types.values()])


def _shown(link: BrokerLink) -> dict[str, Any]:
    return {
        "slug": link.slug,
        "title": link.title,
        **asdict(link.status),
        "as_of": link.as_of,
        "stale": link.as_of is not None and not link.connected,
    }


def _type(managed_type: ManagedType) -> dict[str, Any]:
    return {
        "name": managed_type.name,
        "description": managed_type.description,
        "keys": managed_type.keys,
        "creatable": managed_type.creatable,
        "deletable": managed_type.deletable,
        "attributes": [asdict(attribute) for attribute in managed_type.attributes],
        "operations": [asdict(operation) for operation in managed_type.operations],
        "notifications": [asdict(notification) for notification in managed_type.notifications],
    }
