"""Managed objects of any type, by object name."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import AdminError, InvalidValue, ManagedObject, StaleVersion
from brokers.model import TYPES, ObjectName
from console import operations
from console.api import schema
from console.api.base_views import (
    MAX_PAGE_SIZE,
    BrokerView,
    number_in,
    path_name,
    type_in,
    where_in,
)
from console.links.link import BrokerLink
from console.links.object_shapes import object_of

_NOT_ATTRIBUTES = frozenset({"type", "search", "sort", "offset", "count", "broker", "format"})


class ObjectsView(BrokerView):
    @extend_schema(
        parameters=[
            schema.parameter("type", "Type of the objects.", required=True, enum=list(TYPES)),
            schema.SEARCH,
            schema.SORT,
            schema.parameter("offset", "Objects to skip.", int, default=0),
            schema.parameter("count", "Number of objects, 0 to 500.", int, default=100),
            schema.ATTRIBUTE,
        ],
        responses={200: schema.ObjectPage, **schema.READ_REFUSALS},
        operation_id="brokers_objects_list",
        summary="List managed objects of a type",
    )
    def get(self, request: Request, slug: str) -> Response:
        query = request.query_params
        wanted = type_in(query)
        where = where_in(query, wanted, reserved=_NOT_ATTRIBUTES)
        offset = number_in(query, "offset", 0, 0, 1 << 53)
        count = number_in(query, "count", 100, 0, MAX_PAGE_SIZE)
        page = self.link.call(
            lambda admin: admin.query(
                wanted.name,
                where=where,
                search=query.get("search", ""),
                sort=query.get("sort", ""),
                offset=offset,
                count=count,
            )
        )
        return Response({"total": page.total, "offset": page.offset, "items": [object_of(item) for item in page.items]})

    @extend_schema(
        request=schema.ObjectCreation,
        responses={201: schema.ManagedObject, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Create a managed object",
    )
    def post(self, request: Request, slug: str) -> Response:
        body = self.body
        created = operations.create_object(
            self.actor, self.link, body["object"], body["attributes"], reason=body["reason"]
        )
        return Response(object_of(created), status=status.HTTP_201_CREATED)


class ObjectView(BrokerView):
    @extend_schema(responses={200: schema.ManagedObject, **schema.READ_REFUSALS}, summary="Get a managed object")
    def get(self, request: Request, slug: str, name: str) -> Response:
        wanted = path_name(name)
        return Response(object_of(self.link.call(lambda admin: admin.read(wanted))))

    @extend_schema(
        request=schema.ObjectChange,
        responses={200: schema.ManagedObject, **schema.WRITE_REFUSALS, 409: schema.STALE},
        summary="Change attributes of a managed object",
    )
    def patch(self, request: Request, slug: str, name: str) -> Response:
        body = self.body
        changed = update(self, path_name(name), body["attributes"], version=body["version"], reason=body["reason"])
        return Response(object_of(changed))

    @extend_schema(
        parameters=[
            schema.parameter("version", "Delete only if this is the object's current version.", int),
            schema.parameter("reason", "Why, in the operator's words."),
        ],
        responses={204: None, **schema.WRITE_REFUSALS, 409: schema.STALE},
        summary="Delete a managed object",
    )
    def delete(self, request: Request, slug: str, name: str) -> Response:
        query = request.query_params
        version = number_in(query, "version", -1, 0, 1 << 62)
        operations.delete_object(
            self.actor,
            self.link,
            path_name(name),
            version=None if version < 0 else version,
            reason=query.get("reason", ""),
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


class OperationView(BrokerView):
    @extend_schema(
        request=schema.OperationCall,
        responses={
            200: OpenApiResponse(
                {"type": "object", "additionalProperties": True}, description="Result of the operation"
            ),
            **schema.WRITE_REFUSALS,
        },
        summary="Call an operation of a managed object",
        description="brokers/{slug}/types/ lists the operations of each type and their arguments. An operation with"
        " the effect `read` needs no operator.",
    )
    def post(self, request: Request, slug: str, name: str, operation: str) -> Response:
        arguments = self.body["arguments"]
        if not isinstance(arguments.get("reason", ""), str):
            raise InvalidValue({"reason": "reason must be text"})
        answer = operations.call_operation(self.actor, self.link, path_name(name), operation, arguments)
        return Response(dict(answer))


def update(
    view: BrokerView, name: ObjectName, attributes: dict[str, Any], *, version: int, reason: str
) -> ManagedObject:
    """Change attributes of an object. Raises StaleVersion with `current_object`: the object's current state."""
    if not attributes:
        raise InvalidValue({"attributes": "no attribute is given: name those to change"})
    try:
        return operations.update_object(view.actor, view.link, name, attributes, version=version, reason=reason)
    except StaleVersion as stale:
        stale.current_object = _current(view.link, name, stale)  # type: ignore[attr-defined]
        raise


def _current(link: BrokerLink, name: ObjectName, stale: StaleVersion) -> dict[str, Any]:
    try:
        return object_of(link.call(lambda admin: admin.read(name)))
    except AdminError:
        return {"name": str(name), "version": stale.current}
