"""Brokers of this console: connection state, types of managed objects; add, test, change and remove others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.adapters.kinds import KINDS
from brokers.admin import AdminError
from brokers.model import ManagedType
from console.api import brokers_schema as shapes
from console.api import schema
from console.api.base_views import BrokerView, PersonalView, choice_in
from console.brokers.configured import configured
from console.brokers.models import ForeignBroker
from console.links.link import BrokerLink
from console.links.visible import visible_links
from console.operations import brokers as operations


class BrokersView(PersonalView):
    @extend_schema(responses={200: shapes.ListedBroker(many=True)}, summary="List brokers")
    def get(self, request: Request) -> Response:
        entries = {entry["slug"]: entry for entry in configured()}
        return Response([_listed(link, entries.get(link.slug, {})) for link in visible_links(self.rights)])

    @extend_schema(
        request=shapes.BrokerGiven,
        responses={201: shapes.AddedBroker, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Add a broker",
        description="For administrators of all brokers. The broker itself is not contacted: test it first.",
    )
    def post(self, request: Request) -> Response:
        return Response(added_json(operations.add_broker(self.actor, *_split(self.body))), status=201)


class BrokerKindsView(PersonalView):
    @extend_schema(
        operation_id="brokers_kinds",
        responses={200: shapes.BrokerKind(many=True)},
        summary="List the kinds of brokers that can be added",
    )
    def get(self, request: Request) -> Response:
        return Response([{"kind": name, "title": kind.title, "url": kind.url} for name, kind in KINDS.items()])


class BrokerTestView(PersonalView):
    @extend_schema(
        operation_id="brokers_test",
        request=shapes.BrokerTest,
        responses={200: shapes.BrokerTestAnswer, **schema.WRITE_REFUSALS},
        summary="Test a broker before it is added",
        description="Connects, signs in, and reports what is missing, in a sentence each. Nothing is saved.",
    )
    def post(self, request: Request) -> Response:
        return Response(operations.probe_broker(self.actor, self.body))


class StoredBrokerTestView(PersonalView):
    @extend_schema(
        operation_id="brokers_test_stored",
        request=shapes.StoredBrokerTest,
        responses={200: shapes.BrokerTestAnswer, **schema.WRITE_REFUSALS},
        summary="Test an added broker",
        description="With the stored values, and those that are given instead. A new URL requires the password.",
    )
    def post(self, request: Request, slug: str) -> Response:
        return Response(operations.probe_broker(self.actor, self.body, slug))


LEAVE_STOPS = schema.parameter("leave_stops", "true: also with stops in force, which stay so on the broker.")


class BrokerDetailView(BrokerView):
    @extend_schema(responses={200: schema.BrokerDetail, 404: schema.READ_REFUSALS[404]}, summary="Get a broker")
    def get(self, request: Request, slug: str) -> Response:
        return Response({**_shown(self.link), "attributes": self.link.broker})

    @extend_schema(
        request=shapes.BrokerChange,
        responses={200: shapes.AddedBroker, **schema.WRITE_REFUSALS, 409: shapes.STOPS},
        summary="Change, pause or resume an added broker",
        description="For administrators of all brokers. A new URL requires the password again.",
    )
    def patch(self, request: Request, slug: str) -> Response:
        given, reason = _split(self.body)
        leave = given.pop("leave_stops", False)
        return Response(added_json(operations.change_broker(self.actor, slug, given, reason, leave_stops=leave)))

    @extend_schema(
        parameters=[LEAVE_STOPS],
        responses={204: None, **schema.WRITE_REFUSALS, 409: shapes.STOPS},
        summary="Remove an added broker",
        description="For administrators of all brokers. On the broker itself nothing changes: start stopped producers"
        " first. Its history, events and audit trail stay.",
    )
    def delete(self, request: Request, slug: str) -> Response:
        leave = choice_in(request.query_params, "leave_stops", ("true", "false")) == "true"
        operations.remove_broker(self.actor, slug, leave_stops=leave)
        return Response(status=204)


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
    status = link.status
    return {
        "slug": link.slug,
        "title": link.title,
        "connected": status.connected,
        "since": status.since,
        "error": status.error,
        "as_of": link.as_of,
        "stale": link.as_of is not None and not link.connected,
    }


def _split(body: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the fields of the broker, and the reason."""
    return {name: value for name, value in body.items() if name != "reason"}, body.get("reason", "")


def _listed(link: BrokerLink, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_shown(link),
        "kind": entry.get("kind", "headgate"),
        "tags": entry.get("tags", []),
        "paused": entry.get("paused", False),
        "added": "kind" in entry,
        "capabilities": capabilities(link),
    }


def capabilities(link: BrokerLink) -> dict[str, Any] | None:
    """Return what a broker has, by its types; None while it is disconnected."""
    if not link.connected:
        return None
    try:
        types = link.call(lambda admin: admin.types(), timeout=2)
    except AdminError:
        return None
    return {
        "types": list(types),
        "operations": [
            {
                "object_type": each.name,
                "operation": operation.name,
                "producer_effect": operation.producer_effect,
                "remark": operation.remark,
            }
            for each in types.values()
            for operation in each.operations
        ],
    }


def added_json(row: ForeignBroker) -> dict[str, Any]:
    """Return an added broker without its password."""
    return {"slug": row.slug, **row.for_audit(), "has_password": bool(row.encrypted)}


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
