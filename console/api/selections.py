"""Saved selections of queues: the user's own, and shared ones."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console import operations
from console.api import schema, stops_schema
from console.api.base_views import BrokerView
from console.selections.models import SavedSelection


class _SelectionView(BrokerView):
    def shown(self, found: SavedSelection) -> dict[str, Any]:
        """Return the selection as JSON, without queues that are deleted or not visible."""
        link = self.link
        queues = found.queues
        if queues is not None:
            link.require_snapshot()
        return {
            "id": found.pk,
            "name": found.name,
            "shared": found.shared,
            "owner": found.owner.get_username(),
            "own": found.owner_id == self.request.user.pk,
            "search": found.search,
            "states": found.states,
            "only": found.only,
            "queues": None if queues is None else [name for name in queues if link.queue(name) is not None],
        }


class SelectionsView(_SelectionView):
    @extend_schema(
        parameters=[schema.BROKER],
        responses={200: stops_schema.Selection(many=True), **schema.READ_REFUSALS},
        operation_id="selections_list",
        summary="List saved selections: own and shared",
    )
    def get(self, request: Request) -> Response:
        found = operations.selections_for(self.actor, self.link).select_related("owner")
        return Response([self.shown(each) for each in found])

    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.SelectionGiven,
        responses={201: stops_schema.Selection, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Save a selection",
        description="Either a filter (search, states, only), which is re-evaluated on use, or a list of queues.",
    )
    def post(self, request: Request) -> Response:
        made = operations.save_selection(self.actor, self.link, self.body)
        return Response(self.shown(made), status=201)


class SelectionView(_SelectionView):
    @extend_schema(
        parameters=[schema.BROKER],
        responses={200: stops_schema.Selection, **schema.READ_REFUSALS},
        summary="Get a saved selection",
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(self.shown(operations.selection_of(self.actor, self.link, number)))

    @extend_schema(
        parameters=[schema.BROKER],
        request=stops_schema.SelectionChange,
        responses={200: stops_schema.Selection, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a saved selection",
    )
    def patch(self, request: Request, number: int) -> Response:
        return Response(self.shown(operations.change_selection(self.actor, self.link, number, self.body)))

    @extend_schema(
        parameters=[schema.BROKER],
        responses={204: None, **schema.WRITE_REFUSALS},
        summary="Delete a saved selection",
    )
    def delete(self, request: Request, number: int) -> Response:
        operations.delete_selection(self.actor, self.link, number)
        return Response(status=204)
