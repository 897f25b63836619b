"""The pages of bulk edits: select queues and fields, preview and apply; and one job with the result of each queue."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.model import QUEUE_STATES
from console.access.user_rights import request_rights
from console.bulk.editing import is_visible
from console.bulk.models import BulkEdit
from console.bulk.relative import RELATIVE_FIELDS
from console.pages.frame import frame
from console.pages.policy_fields import fields_at, policy_fields
from console.permissions.rights import Role


@require_safe
def bulk(request: HttpRequest) -> HttpResponse:
    fields = fields_at(request, "Queue")
    context = frame(request, "bulk", "Bulk edit", policy=fields, relativeFields=RELATIVE_FIELDS)
    return render(request, "console/bulk.html", {**context, "page": "policies", "states": QUEUE_STATES})


@require_safe
def bulk_job(request: HttpRequest, number: int) -> HttpResponse:
    job = BulkEdit.objects.filter(pk=number).first()
    if job is None or not is_visible(job, request_rights(request).hosts(Role.VIEWER, job.broker)):
        raise Http404(f"There is no bulk edit {number}.")
    context = frame(request, "bulk-job", f"Bulk edit {number}", policy=policy_fields(), job=number)
    return render(request, "console/bulk_job.html", {**context, "page": "policies", "job": job})
