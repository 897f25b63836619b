"""All brokers together: their states and totals, queues, conditions and newest events."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from brokers.model import QUEUE_STATES
from console.api import fleet_schema, schema
from console.api.base_views import MAX_PAGE_SIZE, PersonalView, choice_in, choices_in, number_in
from console.conditions.detectors import DETECTORS, SEVERITIES
from console.links.queue_filter import QUICK_FILTERS
from console.links.queue_groups import GROUPINGS
from console.live.conditions import MOST
from console.live.fleet.brokers import broker_rows, fleet_totals, snapshot_of
from console.live.fleet.groups import groups_page
from console.live.fleet.members import Member, MemberFilter, members_of
from console.live.fleet.queues import check_sort, queues_page
from console.live.fleet.stream import conditions_page, newest_events
from console.live.overview import BadSort

_MOST_EVENTS = 500
_REFUSALS = {status: schema.READ_REFUSALS[status] for status in (400, 403, 404)}


class _FleetView(PersonalView):
    """A view of the brokers that the user sees and the parameters `broker`, `tag` and `broker_kind` select."""

    @property
    def members(self) -> list[Member]:
        """Raises UnknownBroker."""
        query, everything = self.request.query_params, members_of(self.rights)
        brokers, tags = frozenset(query.getlist("broker")) - {""}, frozenset(query.getlist("tag")) - {""}
        chosen = MemberFilter(brokers, tags, frozenset(query.getlist("broker_kind")) - {""})
        chosen.check(everything)
        return chosen.matching(everything)


class FleetView(_FleetView):
    @extend_schema(
        parameters=fleet_schema.MEMBERS,
        responses={200: fleet_schema.Fleet, **_REFUSALS},
        summary="Get the state of all brokers, and totals",
        description="From the console's snapshots: brokers are not contacted. What is not known is null, never 0.",
    )
    def get(self, request: Request) -> Response:
        members = self.members
        rows = broker_rows(members)
        return Response({**snapshot_of(members), "totals": fleet_totals(rows), "brokers": rows})


class FleetQueuesView(_FleetView):
    @extend_schema(
        parameters=[
            *fleet_schema.MEMBERS,
            schema.parameter("state", "Queues in this state; repeated: in any.", enum=list(QUEUE_STATES), many=True),
            schema.QUICK_FILTERS,
            schema.SEARCH,
            schema.parameter(
                "sort",
                "Attributes of queues separated by commas; a leading - sorts in descending order. Or `broker`. Omitted:"
                " the most severe states first.",
            ),
            *schema.PAGE,
        ],
        responses={200: fleet_schema.FleetQueues, **_REFUSALS},
        operation_id="fleet_queues_list",
        summary="List the queues of all brokers",
        description="From the console's snapshots. Brokers without a snapshot have no queues here.",
    )
    def get(self, request: Request) -> Response:
        members = self.members
        return Response(snapshot_of(members) | queues_page(members, **_selection(request.query_params)))


class FleetQueueGroupsView(_FleetView):
    @extend_schema(
        parameters=[
            *fleet_schema.MEMBERS,
            schema.parameter("by", "What groups the queues.", required=True, enum=list(GROUPINGS)),
            schema.parameter("state", "Queues in this state; repeated: in any.", enum=list(QUEUE_STATES), many=True),
            schema.QUICK_FILTERS,
            schema.SEARCH,
            schema.parameter("sort", "As for the queues of all brokers."),
            *schema.PAGE,
        ],
        responses={200: fleet_schema.FleetQueueGroups, **_REFUSALS},
        operation_id="fleet_queue_groups_list",
        summary="List groups of the queues of all brokers with their totals",
        description="Groups as those of one broker: each has the queues of all brokers whose virtual host, or prefix,"
        " has its name. From the console's snapshots. Brokers without a snapshot have no queues here.",
    )
    def get(self, request: Request) -> Response:
        query, members = request.query_params, self.members
        by = choice_in(query, "by", GROUPINGS)
        if not by:
            raise InvalidValue({"by": f"by is missing: it must be one of {', '.join(GROUPINGS)}"})
        return Response(snapshot_of(members) | groups_page(members, by, **_selection(query)))


def _selection(query: QueryDict) -> dict[str, Any]:
    """Return which queues are requested, in which order, and the page. Raises InvalidValue."""
    sort = query.get("sort", "")
    try:
        check_sort(sort)
    except BadSort as error:
        raise InvalidValue({"sort": str(error)}) from None
    return {
        "search": query.get("search", ""),
        "states": choices_in(query, "state", QUEUE_STATES),
        "only": choices_in(query, "only", QUICK_FILTERS),
        "sort": sort,
        "page": number_in(query, "page", 1, 1, 1 << 31),
        "size": number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE),
    }


class FleetConditionsView(_FleetView):
    @extend_schema(
        parameters=[
            *fleet_schema.MEMBERS,
            schema.parameter("kind", "Conditions of this kind.", enum=list(DETECTORS)),
            schema.parameter("severity", "Conditions of this severity.", enum=list(SEVERITIES)),
            schema.parameter("sort", "Order; omitted: most severe first.", enum=["newest"]),
            schema.SEARCH,
            *schema.PAGE,
        ],
        responses={200: fleet_schema.FleetConditions, **_REFUSALS},
        operation_id="fleet_conditions_list",
        summary="List the active conditions of all brokers",
    )
    def get(self, request: Request) -> Response:
        query, members = request.query_params, self.members
        return Response(
            snapshot_of(members)
            | conditions_page(
                members,
                newest=choice_in(query, "sort", ["newest"]) == "newest",
                kind=choice_in(query, "kind", DETECTORS),
                severity=choice_in(query, "severity", SEVERITIES),
                search=query.get("search", ""),
                page=number_in(query, "page", 1, 1, 1 << 31),
                size=number_in(query, "page_size", 100, 1, MOST),
            )
        )


class FleetEventsView(_FleetView):
    @extend_schema(
        parameters=[
            *fleet_schema.MEMBERS,
            schema.parameter("count", f"Number of events, 1 to {_MOST_EVENTS}.", int, default=100),
        ],
        responses={200: fleet_schema.FleetEvents, **_REFUSALS},
        summary="List the newest events of all brokers",
        description="Merged by time, by the clocks of the brokers. To read all events of a broker without gaps, use"
        " /api/v1/events/ with its slug.",
    )
    def get(self, request: Request) -> Response:
        count = number_in(request.query_params, "count", 100, 1, _MOST_EVENTS)
        members = self.members
        return Response({**snapshot_of(members), "events": newest_events(members, count)})
