"""The page of the history pipeline's status."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access.user_rights import request_rights
from console.pages.history_frame import history_frame
from console.permissions.rights import Role


@require_safe
def history_status(request: HttpRequest) -> HttpResponse:
    """Its script polls the status every few seconds."""
    context = history_frame(request, "history-status", "Status")
    may_run = request_rights(request).allows_everywhere(Role.OPERATOR)
    return render(request, "console/history_status.html", {**context, "may_run": may_run})
