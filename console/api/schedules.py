"""Schedules: what is done when, what is due next, and what came of it."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api import alerts_schema as shapes
from console.api import schema
from console.api.alerts import actor, one
from console.api.reading import body_of, number_in, version_in
from console.schedules import editing
from console.schedules.models import Run, Schedule


class SchedulesView(APIView):
    @extend_schema(responses={200: shapes.Schedule(many=True)}, operation_id="schedules_list", summary="Schedules")
    def get(self, request: Request) -> Response:
        return Response([editing.shown(schedule) for schedule in Schedule.objects.all()])

    @extend_schema(
        request=shapes.ScheduleGiven,
        responses={201: shapes.Schedule, **schema.WRITE_REFUSALS},
        summary="Make a schedule",
    )
    def post(self, request: Request) -> Response:
        return Response(editing.shown(editing.make(actor(request), body_of(request))), status=201)


class SchedulePreviewView(APIView):
    @extend_schema(
        request=shapes.ScheduleGiven,
        responses={200: shapes.Upcoming, **schema.READ_REFUSALS},
        summary="Tell when a schedule would be due",
    )
    def post(self, request: Request) -> Response:
        return Response({"upcoming": editing.preview(body_of(request))})


class ScheduleView(APIView):
    @extend_schema(responses={200: shapes.Schedule, **schema.READ_REFUSALS}, summary="One schedule")
    def get(self, request: Request, number: int) -> Response:
        return Response(editing.shown(one(Schedule.objects.all(), number, "schedule")))

    @extend_schema(
        request=shapes.ScheduleChange,
        responses={200: shapes.Schedule, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a schedule: it acts for whoever does",
    )
    def patch(self, request: Request, number: int) -> Response:
        body, found = body_of(request), one(Schedule.objects.all(), number, "schedule")
        return Response(editing.shown(editing.change(actor(request), found, body, version_in(body))))

    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Remove a schedule")
    def delete(self, request: Request, number: int) -> Response:
        editing.remove(actor(request), one(Schedule.objects.all(), number, "schedule"))
        return Response(status=204)


class SchedulePauseView(APIView):
    paused = True

    @extend_schema(request=None, responses={200: shapes.Schedule, **schema.WRITE_REFUSALS}, summary="Pause, or go on")
    def post(self, request: Request, number: int) -> Response:
        found = one(Schedule.objects.all(), number, "schedule")
        return Response(editing.shown(editing.pause(actor(request), found, self.paused)))


class RunsView(APIView):
    @extend_schema(
        parameters=[schema.asked("schedule", "Only of this schedule, by its number.", int), *schema.PAGE],
        responses={200: schema.page_of(shapes.ScheduleRun), **schema.READ_REFUSALS},
        summary="What schedules have done, newest first",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number, size = number_in(query, "page", 1, 1, 1 << 31), number_in(query, "page_size", 50, 1, 200)
        rows = Run.objects.all()
        if schedule := number_in(query, "schedule", 0, 1, 1 << 31):
            rows = rows.filter(schedule=schedule)
        shown = [editing.run_shown(run) for run in rows[(number - 1) * size : number * size]]
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})


class RunEndView(APIView):
    @extend_schema(
        request=None,
        responses={200: shapes.ScheduleRun, **schema.WRITE_REFUSALS},
        summary="End a window now: put back what it set",
    )
    def post(self, request: Request, number: int) -> Response:
        return Response(editing.run_shown(editing.end_now(actor(request), one(Run.objects.all(), number, "run"))))
