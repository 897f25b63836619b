"""The first steps of a new broker: a user of the broker, a queue, a program, and flow control at work.

What has happened is read from the broker, so that each step shows it, however it was done.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access.user_rights import request_rights
from console.links.visible import visible_link
from console.pages.frame import broker_of, frame


@require_safe
def first_steps(request: HttpRequest) -> HttpResponse:
    link = visible_link(request_rights(request), broker_of(request)["slug"])
    context = frame(request, "first-steps", "First steps", hosts=sorted(link.hosts))
    return render(request, "console/first_steps.html", context)
