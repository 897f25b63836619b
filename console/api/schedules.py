"""Schedules: what is done when, what is due next, and what came of it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import NotFound
from console.api import alerts_schema as shapes
from console.api import schema
from console.api.alerts import actor, given_and_version, one
from console.api.reading import PersonalView, number_in
from console.operations.console_changes import sees_scope
from console.schedules import editing
from console.schedules.models import Run, Schedule

#: Runs that are looked through for those that somebody sees.
_MOST = 5000


def _found(view: PersonalView, rows: Any, number: int, what: str) -> Any:
    """Raises NotFound, also for what they do not see."""
    found = one(rows, number, what)
    if not editing.sees(view.rights, found):
        raise NotFound(f"there is no {what} {number}")
    return found


class SchedulesView(PersonalView):
    @extend_schema(responses={200: shapes.Schedule(many=True)}, operation_id="schedules_list", summary="Schedules")
    def get(self, request: Request) -> Response:
        return Response([editing.shown(each) for each in Schedule.objects.all() if editing.sees(self.rights, each)])

    @extend_schema(
        request=shapes.ScheduleGiven,
        responses={201: shapes.Schedule, **schema.WRITE_REFUSALS},
        summary="Make a schedule",
    )
    def post(self, request: Request) -> Response:
        return Response(editing.shown(editing.make(actor(request), self.body)), status=201)


class SchedulePreviewView(PersonalView):
    @extend_schema(
        request=shapes.SchedulePreview,
        responses={200: shapes.Upcoming, **schema.READ_REFUSALS},
        summary="Tell when a schedule would be due",
    )
    def post(self, request: Request) -> Response:
        return Response({"upcoming": editing.preview(self.body)})


class ScheduleView(PersonalView):
    @extend_schema(responses={200: shapes.Schedule, **schema.READ_REFUSALS}, summary="One schedule")
    def get(self, request: Request, number: int) -> Response:
        return Response(editing.shown(_found(self, Schedule.objects.all(), number, "schedule")))

    @extend_schema(
        request=shapes.ScheduleChange,
        responses={200: shapes.Schedule, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a schedule: it acts for whoever does",
    )
    def patch(self, request: Request, number: int) -> Response:
        found = _found(self, Schedule.objects.all(), number, "schedule")
        return Response(editing.shown(editing.change(actor(request), found, *given_and_version(self.body))))

    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Remove a schedule")
    def delete(self, request: Request, number: int) -> Response:
        editing.remove(actor(request), _found(self, Schedule.objects.all(), number, "schedule"))
        return Response(status=204)


class SchedulePauseView(PersonalView):
    paused = True

    @extend_schema(request=None, responses={200: shapes.Schedule, **schema.WRITE_REFUSALS}, summary="Pause, or go on")
    def post(self, request: Request, number: int) -> Response:
        found = _found(self, Schedule.objects.all(), number, "schedule")
        return Response(editing.shown(editing.pause(actor(request), found, self.paused)))


class RunsView(PersonalView):
    @extend_schema(
        parameters=[schema.parameter("schedule", "Only of this schedule, by its number.", int), *schema.PAGE],
        responses={200: schema.page_of(shapes.ScheduleRun), **schema.READ_REFUSALS},
        summary="What schedules have done, newest first",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number, size = number_in(query, "page", 1, 1, 1 << 31), number_in(query, "page_size", 50, 1, 200)
        rows = Run.objects.all()
        if schedule := number_in(query, "schedule", 0, 1, 1 << 31):
            rows = rows.filter(schedule=schedule)
        if not sees_scope(self.rights):
            rows = rows.filter(pk__in=[run.pk for run in rows[:_MOST] if editing.sees(self.rights, run)])
        shown = [editing.run_shown(run) for run in rows[(number - 1) * size : number * size]]
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})


class RunEndView(PersonalView):
    @extend_schema(
        request=None,
        responses={200: shapes.ScheduleRun, **schema.WRITE_REFUSALS},
        summary="End a window now: put back what it set",
    )
    def post(self, request: Request, number: int) -> Response:
        return Response(
            editing.run_shown(editing.end_now(actor(request), _found(self, Run.objects.all(), number, "run")))
        )
