"""Bulk edits of queue policies: preview, start, get progress, interrupt, resume, undo."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import NotFound
from console import operations
from console.api import policies_schema, schema
from console.api.base_views import MAX_PAGE_SIZE, BrokerView, PersonalView, choice_in, number_in
from console.bulk import editing, tasks, undoing
from console.bulk.editing import Selection
from console.bulk.models import BulkEdit, RowState
from console.bulk.pinned import digest_of
from console.celery import send
from console.links.visible import visible_link
from console.permissions.rights import Role

_MAX_NAMED = 200


class BulkEditsView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER, *schema.PAGE],
        responses={200: schema.page_of(policies_schema.BulkJob), **schema.READ_REFUSALS},
        operation_id="policies_bulk_list",
        summary="List bulk edits, newest first",
    )
    def get(self, request: Request) -> Response:
        number = number_in(request.query_params, "page", 1, 1, 1 << 31)
        size = number_in(request.query_params, "page_size", 20, 1, 100)
        link = self.link
        jobs = BulkEdit.objects.filter(broker=link.slug)
        if link.only_hosts is not None:
            jobs = jobs.filter(pk__in=[job.pk for job in jobs if editing.is_visible(job, link.only_hosts)])
        shown = [_job(job) for job in jobs[(number - 1) * size : number * size]]
        return Response({"count": jobs.count(), "page": number, "page_size": size, "results": shown})

    @extend_schema(
        parameters=[schema.BROKER],
        request=policies_schema.BulkRequest,
        responses={201: policies_schema.BulkJob, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change policy fields of many queues",
        description="Returns a job that runs in the background. Each queue is changed and audited separately.",
    )
    def post(self, request: Request) -> Response:
        body = self.body
        chosen = Selection(**body["selection"])
        job = editing.begin_bulk(
            self.actor,
            self.link,
            chosen,
            body["attributes"],
            factors=body["factors"],
            reason=body["reason"],
            previewed=body["digest"],
        )
        send(tasks.carry_out, job.pk)
        return Response(_job(job), status=201)


class BulkPreviewView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=policies_schema.BulkPreviewRequest,
        responses={200: policies_schema.BulkPreview, **schema.READ_REFUSALS},
        summary="Preview the impact of a bulk edit",
    )
    def post(self, request: Request) -> Response:
        rows = editing.selected(self.link, Selection(**self.body["selection"]))
        attributes, factors = self.body["attributes"], self.body["factors"]
        preview, without, digest = None, 0, ""
        if (attributes or factors) and rows:
            wanted = editing.wanted_values(self.link, rows, attributes, factors)
            preview = editing.preview_bulk(self.link, wanted)
            without = len(rows) - len(wanted)
            digest = digest_of([row["object"] for row in rows], wanted)
        queues = [
            {
                "object": row["object"],
                "version": row["version"],
                "virtualhost": row["virtualhost"],
                "name": row["name"],
                "set": operations.set_fields(row),
            }
            for row in rows[:_MAX_NAMED]
        ]
        return Response(
            {"count": len(rows), "queues": queues, "preview": preview, "without": without, "digest": digest}
        )


class _JobView(PersonalView):
    def job(self, number: int) -> BulkEdit:
        """Return the job. Raises NotFound, also if the user may not see all of its queues."""
        job: BulkEdit | None = BulkEdit.objects.filter(pk=number).first()
        if job is None or not editing.is_visible(job, self.rights.hosts(Role.VIEWER, job.broker)):
            raise NotFound(f"there is no bulk edit {number}")
        return job


class BulkEditView(_JobView):
    @extend_schema(
        responses={200: policies_schema.BulkJob, **schema.READ_REFUSALS}, summary="Get a bulk edit and its progress"
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(_job(self.job(number)))


class BulkRowsView(_JobView):
    @extend_schema(
        parameters=[
            schema.parameter("state", "Queues in this state.", enum=RowState.values),
            *schema.PAGE,
        ],
        responses={200: schema.page_of(policies_schema.BulkRow), **schema.READ_REFUSALS},
        summary="List the queues of a bulk edit and their results",
    )
    def get(self, request: Request, number: int) -> Response:
        query = request.query_params
        page = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        rows = self.job(number).rows.all()
        if state := choice_in(query, "state", RowState.values):
            rows = rows.filter(state=state)
        shown = [
            {
                "object": row.object,
                "state": row.state,
                "detail": row.detail,
                "wanted": row.wanted,
                "before": row.before,
            }
            for row in rows[(page - 1) * size : page * size]
        ]
        return Response({"count": rows.count(), "page": page, "page_size": size, "results": shown})


class BulkResumeView(_JobView):
    @extend_schema(
        request=policies_schema.BulkSteer,
        responses={200: policies_schema.BulkJob, **schema.WRITE_REFUSALS},
        summary="Resume a bulk edit and retry failed queues",
    )
    def post(self, request: Request, number: int) -> Response:
        job = self.job(number)
        editing.resume_bulk(self.actor, job, reason=self.body["reason"])
        send(tasks.carry_out, job.pk)
        return Response(_job(self.job(number)))


class BulkInterruptView(_JobView):
    @extend_schema(
        request=policies_schema.BulkSteer,
        responses={200: policies_schema.BulkJob, **schema.WRITE_REFUSALS},
        summary="Interrupt a bulk edit",
    )
    def post(self, request: Request, number: int) -> Response:
        editing.interrupt_bulk(self.actor, self.job(number), reason=self.body["reason"])
        return Response(_job(self.job(number)))


class BulkUndoView(_JobView):
    @extend_schema(
        responses={200: policies_schema.BulkUndoPreview, **schema.READ_REFUSALS},
        summary="Preview the impact of undoing a bulk edit",
    )
    def get(self, request: Request, number: int) -> Response:
        job = self.job(number)
        link = visible_link(self.rights, job.broker)
        plan = undoing.undo_plan(job, link)
        preview = operations.preview_changes(link, plan.changes, one_by_one=True) if plan.changes else None
        return Response({"count": len(plan.changes), "preview": preview, "changed_since": plan.changed_since})

    @extend_schema(
        request=policies_schema.BulkSteer,
        responses={201: policies_schema.BulkJob, **schema.WRITE_REFUSALS},
        summary="Undo a bulk edit",
        description="Starts another job that restores the previous values of queues that have not changed since. Queues"
        " that an earlier undo has restored are not part of it; refused if there are no others, and while one runs.",
    )
    def post(self, request: Request, number: int) -> Response:
        job = undoing.begin_undo(self.actor, self.job(number), reason=self.body["reason"])
        send(tasks.carry_out, job.pk)
        return Response(_job(job), status=201)


def _job(job: BulkEdit) -> dict[str, Any]:
    counts = job.counts()
    return {
        "id": job.pk,
        "created": job.created,
        "finished": job.finished,
        "user_name": job.user_name,
        "broker": job.broker,
        "reason": job.reason,
        "attributes": job.attributes,
        "selection": job.selection,
        "undo_of": job.undo_of_id,
        "undone_by": list(job.undone_by.values_list("pk", flat=True)),
        "undoable": undoing.undoable(job),
        "state": job.state,
        "stalled": editing.is_stalled(job),
        "error": job.error,
        "total": sum(counts.values()),
        "counts": counts,
    }
