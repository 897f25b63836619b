"""Schedules, their next runs and their run history."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import NotFound
from console.api import alerts_schema as shapes
from console.api import schema
from console.api.alerts import actor, changes_and_version, find_row
from console.api.base_views import PersonalView, number_in
from console.api.stops_schema import EFFECT
from console.operations.console_changes import sees_scope
from console.schedules import editing
from console.schedules.models import Run, Schedule

#: Newest runs that are searched for those that a user with limited permissions may see.
_MAX_SEARCHED = 5000


def _found(view: PersonalView, rows: Any, number: int, what: str) -> Any:
    """Return the row. Raises NotFound, also if the user may not see it."""
    found = find_row(rows, number, what)
    if not editing.can_see(view.rights, found):
        raise NotFound(f"there is no {what} {number}")
    return found


class SchedulesView(PersonalView):
    @extend_schema(responses={200: shapes.Schedule(many=True)}, operation_id="schedules_list", summary="List schedules")
    def get(self, request: Request) -> Response:
        return Response(
            [editing.schedule_json(each) for each in Schedule.objects.all() if editing.can_see(self.rights, each)]
        )

    @extend_schema(
        request=shapes.ScheduleGiven,
        responses={201: shapes.Schedule, **schema.WRITE_REFUSALS, 409: EFFECT},
        summary="Create a schedule",
    )
    def post(self, request: Request) -> Response:
        return Response(editing.schedule_json(editing.create(actor(request), self.body)), status=201)


class SchedulePreviewView(PersonalView):
    @extend_schema(
        request=shapes.SchedulePreview,
        responses={200: shapes.Upcoming, **schema.READ_REFUSALS},
        summary="Preview the next runs of a schedule",
    )
    def post(self, request: Request) -> Response:
        return Response({"upcoming": editing.preview(self.body)})


class ScheduleView(PersonalView):
    @extend_schema(responses={200: shapes.Schedule, **schema.READ_REFUSALS}, summary="Get a schedule")
    def get(self, request: Request, number: int) -> Response:
        return Response(editing.schedule_json(_found(self, Schedule.objects.all(), number, "schedule")))

    @extend_schema(
        request=shapes.ScheduleChange,
        responses={200: shapes.Schedule, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a schedule",
        description="The user who changes it becomes its owner: it runs with the owner's permissions, and if it is"
        " changed with an API token, with at most those of the token, while the token is usable.",
    )
    def patch(self, request: Request, number: int) -> Response:
        found = _found(self, Schedule.objects.all(), number, "schedule")
        return Response(editing.schedule_json(editing.change(actor(request), found, *changes_and_version(self.body))))

    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Delete a schedule")
    def delete(self, request: Request, number: int) -> Response:
        editing.delete(actor(request), _found(self, Schedule.objects.all(), number, "schedule"))
        return Response(status=204)


class SchedulePauseView(PersonalView):
    @extend_schema(request=None, responses={200: shapes.Schedule, **schema.WRITE_REFUSALS}, summary="Pause a schedule")
    def post(self, request: Request, number: int) -> Response:
        found = _found(self, Schedule.objects.all(), number, "schedule")
        return Response(editing.schedule_json(editing.pause(actor(request), found, True)))


class ScheduleResumeView(PersonalView):
    @extend_schema(request=None, responses={200: shapes.Schedule, **schema.WRITE_REFUSALS}, summary="Resume a schedule")
    def post(self, request: Request, number: int) -> Response:
        found = _found(self, Schedule.objects.all(), number, "schedule")
        return Response(editing.schedule_json(editing.pause(actor(request), found, False)))


class RunsView(PersonalView):
    @extend_schema(
        parameters=[schema.parameter("schedule", "Runs of the schedule with this number.", int), *schema.PAGE],
        responses={200: schema.page_of(shapes.ScheduleRun), **schema.READ_REFUSALS},
        summary="List runs of schedules, newest first",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number, size = number_in(query, "page", 1, 1, 1 << 31), number_in(query, "page_size", 50, 1, 200)
        rows = Run.objects.all()
        if schedule := number_in(query, "schedule", 0, 1, 1 << 31):
            rows = rows.filter(schedule=schedule)
        if not sees_scope(self.rights):
            rows = rows.filter(pk__in=[run.pk for run in rows[:_MAX_SEARCHED] if editing.can_see(self.rights, run)])
        shown = [editing.run_json(run) for run in rows[(number - 1) * size : number * size]]
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})


class RunEndView(PersonalView):
    @extend_schema(
        request=None,
        responses={200: shapes.ScheduleRun, **schema.WRITE_REFUSALS},
        summary="Revert the change of a run now, or call off one that has not started",
    )
    def post(self, request: Request, number: int) -> Response:
        return Response(
            editing.run_json(editing.end_now(actor(request), _found(self, Run.objects.all(), number, "run")))
        )
