"""The page of a queue: depth over time, producers and consumers with their state, and limits."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from brokers.model import object_name
from console.charts.flow import depth_figure, live_rates_figure
from console.live.watching import lists
from console.operations.policies import EXPLAIN, fields_of, has_operation
from console.pages.frame import check_sees, frame
from console.pages.messages import LIST_MESSAGES
from console.pages.policy_fields import fields_shown, link_of


@require_safe
def queue(request: HttpRequest, virtualhost: str, name: str) -> HttpResponse:
    """The page exists for any name: a deleted queue may be created again while the page is open."""
    here = link_of(request)
    queues = here.types.get("Queue")
    context = frame(
        request,
        "queue",
        name,
        about=virtualhost,
        object=str(object_name("Queue", virtualhost=virtualhost, name=name)),
        virtualhost=virtualhost,
        name=name,
        policy=fields_shown(request, "Queue"),
        editable=bool(fields_of(here.types, "Queue")),
        attributes=[attribute.name for attribute in queues.attributes] if queues else [],
        explains=has_operation(here, "Queue", EXPLAIN),
        listsProducers=lists(here, "Producer"),
        listsConsumers=lists(here, "Consumer"),
        figures={"messages": depth_figure("messages"), "bytes": depth_figure("bytes"), "rates": live_rates_figure()},
    )
    check_sees(request, context["broker"]["slug"], virtualhost)
    past = reverse("history-queue", args=(virtualhost, name))
    if context["broker"]["slug"] == request.GET.get("broker"):
        past += f"?{urlencode({'broker': context['broker']['slug']})}"
    scope = {"broker": context["broker"]["slug"], "virtualhost": virtualhost, "pattern": name}
    return render(
        request,
        "console/queue.html",
        {
            **context,
            "page": "overview",
            "alert_url": reverse("alert-rule-new") + f"?{urlencode(scope)}",
            "virtualhost": virtualhost,
            "name": name,
            "history_url": past,
            "lists_messages": has_operation(here, "Queue", LIST_MESSAGES),
        },
    )
