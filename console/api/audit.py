"""The audit trail, newest first."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api import schema
from console.api.reading import MOST_AT_ONCE, number_in
from console.audit.models import AuditEntry, Outcome

_CONDITIONS = {
    "broker": "broker",
    "object": "object",
    "operation": "operation",
    "outcome": "outcome",
    "user": "user_name",
}


class AuditView(APIView):
    @extend_schema(
        parameters=[
            schema.asked("broker", "Only of this broker."),
            schema.asked("object", "Only about this object, by its object name."),
            schema.asked("operation", "Only attempts of this operation."),
            schema.asked("outcome", "Only with this outcome.", enum=Outcome.values),
            schema.asked("user", "Only by this user."),
            *schema.PAGE,
        ],
        responses={200: schema.page_of(schema.AuditRow), 400: schema.INVALID, 403: schema.READ_REFUSALS[403]},
        summary="Who did what, when, from where and why",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MOST_AT_ONCE)
        given = {field: query[parameter] for parameter, field in _CONDITIONS.items() if query.get(parameter)}
        rows = AuditEntry.objects.filter(**given)
        shown = schema.AuditRow(rows[(number - 1) * size : number * size], many=True).data
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})
