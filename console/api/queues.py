"""Queues and their policies, and producers, of one broker: filtered, sorted and in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from brokers.model import TYPES, ObjectName, object_name
from console.api import policies_schema, schema
from console.api.base_views import (
    MAX_PAGE_SIZE,
    BrokerView,
    choice_in,
    choices_in,
    number_in,
    snapshot_of,
    where_in,
)
from console.api.objects import update
from console.links.object_shapes import row_of, rows_of
from console.links.queue_filter import QUICK_FILTERS, matching
from console.links.queue_groups import GROUPINGS, grouped
from console.links.queue_table import Row
from console.live.overview import BadSort, queue_key
from console.operations import check_update

_NOT_ATTRIBUTES = frozenset({"broker", "search", "only", "sort", "page", "page_size", "format", "by"})


def _attribute_filters(type_name: str, *names: str) -> list[Any]:
    """Return query parameters that filter by these attributes, described as the type declares them."""
    found = []
    for name in names:
        attribute = TYPES[type_name].attribute(name)
        assert attribute is not None
        description = f"Objects with this value; repeated: with any of the values. {attribute.description}"
        found.append(schema.parameter(name, description, enum=list(attribute.choices) or None, many=True))
    return found


class _RowsView(BrokerView):
    """A list of objects of one type, in pages."""

    type_name: str

    def rows(self, request: Request) -> Response:
        query = request.query_params
        where = where_in(query, TYPES[self.type_name], reserved=_NOT_ATTRIBUTES)
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        page = self.link.call(
            lambda admin: admin.query(
                self.type_name,
                where=where,
                search=query.get("search", ""),
                sort=query.get("sort", ""),
                offset=(number - 1) * size,
                count=size,
            )
        )
        rows = rows_of(page.items)
        return Response({"count": page.total, "page": number, "page_size": size, "results": rows})


class QueuesView(_RowsView):
    type_name = "Queue"

    @extend_schema(
        parameters=[
            schema.BROKER,
            *_attribute_filters("Queue", "state", "virtualhost"),
            schema.ATTRIBUTE,
            schema.QUICK_FILTERS,
            schema.SEARCH,
            schema.SORT,
            *schema.PAGE,
        ],
        responses={200: schema.page_of(schema.Queue), **schema.READ_REFUSALS},
        operation_id="queues_list",
        summary="List queues",
        description="With `only`, from the console's current snapshot, without a request to the broker.",
    )
    def get(self, request: Request) -> Response:
        only = choices_in(request.query_params, "only", QUICK_FILTERS)
        return self._filtered(request, only) if only else self.rows(request)

    def _filtered(self, request: Request, only: Sequence[str]) -> Response:
        """Return the queues that match quick filters: these compare attributes, which the broker's queries do not."""
        query = request.query_params
        where = where_in(query, TYPES["Queue"], reserved=_NOT_ATTRIBUTES)
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        try:
            key = queue_key(query.get("sort", ""))
        except BadSort as error:
            raise InvalidValue({"sort": str(error)}) from None
        self.link.require_current()
        rows = matching(self.link.queues(), search=query.get("search", ""), only=only)
        found = sorted((row for row in rows if _has(row, where)), key=key)
        results = found[(number - 1) * size : number * size]
        return Response({"count": len(found), "page": number, "page_size": size, "results": results})


class QueueGroupsView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            schema.parameter("by", "What groups the queues.", required=True, enum=list(GROUPINGS)),
            *_attribute_filters("Queue", "state", "virtualhost"),
            schema.ATTRIBUTE,
            schema.QUICK_FILTERS,
            schema.SEARCH,
            schema.SORT,
            *schema.PAGE,
        ],
        responses={200: schema.QueueGroups, **schema.READ_REFUSALS},
        operation_id="queue_groups_list",
        summary="List groups of queues with their totals",
        description="By virtual host, or by the prefix of names up to the first `.`, `-`, `/` or `_`. Totals are over"
        " all queues of the group that match the filter, as of the console's snapshot of the broker. Sorted by a value"
        " that is summed, groups are in the order of their sums, else in that of their first queues.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        by = choice_in(query, "by", GROUPINGS)
        if not by:
            raise InvalidValue({"by": f"by is missing: it must be one of {', '.join(GROUPINGS)}"})
        only = choices_in(query, "only", QUICK_FILTERS)
        where = where_in(query, TYPES["Queue"], reserved=_NOT_ATTRIBUTES)
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        sort = query.get("sort", "")
        try:
            key = queue_key(sort)
        except BadSort as error:
            raise InvalidValue({"sort": str(error)}) from None
        snapshot = snapshot_of(self.link)
        rows = matching(self.link.queues(), search=query.get("search", ""), only=only)
        groups = grouped([row for row in rows if _has(row, where)], by, sort, key)
        results = [group.as_json() for group in groups[(number - 1) * size : number * size]]
        return Response({"count": len(groups), "page": number, "page_size": size, **snapshot, "results": results})


class ProducersView(_RowsView):
    type_name = "Producer"

    @extend_schema(
        parameters=[
            schema.BROKER,
            *_attribute_filters("Producer", "queue", "state", "virtualhost"),
            schema.ATTRIBUTE,
            schema.SEARCH,
            schema.SORT,
            *schema.PAGE,
        ],
        responses={200: schema.page_of(schema.Producer), **schema.READ_REFUSALS},
        operation_id="producers_list",
        summary="List producers, with the causes of blocks",
    )
    def get(self, request: Request) -> Response:
        return self.rows(request)


class QueueView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER], responses={200: schema.Queue, **schema.READ_REFUSALS}, summary="Get a queue"
    )
    def get(self, request: Request, virtualhost: str, name: str) -> Response:
        wanted = _queue(virtualhost, name)
        return Response(row_of(self.link.call(lambda admin: admin.read(wanted))))

    @extend_schema(
        parameters=[schema.BROKER],
        request=policies_schema.PolicyChange,
        responses={200: schema.Queue, **schema.WRITE_REFUSALS, 409: schema.STALE},
        summary="Change a queue's flow-control policy",
        description="Changes the given fields; null means inherited. Takes effect at once.",
    )
    def patch(self, request: Request, virtualhost: str, name: str) -> Response:
        wanted, version, reason = _queue(virtualhost, name), self.body["version"], self.body["reason"]
        return Response(row_of(update(self, wanted, _policy(self.body), version=version, reason=reason)))


class QueueCheckView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=policies_schema.PolicyCheck,
        responses={200: policies_schema.PolicyChecked, **schema.READ_REFUSALS},
        summary="Check a change of a queue's policy without making it",
        description="Returns the effective values after the change, including inherited values.",
    )
    def post(self, request: Request, virtualhost: str, name: str) -> Response:
        return Response(check_update(self.link, _queue(virtualhost, name), _policy(self.body)))


def _has(row: Row, where: Mapping[str, Any]) -> bool:
    return all(row.get(name) in (wanted if isinstance(wanted, list) else [wanted]) for name, wanted in where.items())


def _queue(virtualhost: str, name: str) -> ObjectName:
    return object_name("Queue", virtualhost=virtualhost, name=name)


def _policy(body: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in body.items() if field not in ("version", "reason")}
