"""Up to eight queues of one broker in one chart, live and in the past."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.model import ObjectName
from console.access.user_rights import request_rights
from console.charts.history import compare_figure
from console.links.unreported import brokers_without_producers
from console.pages.frame import check_sees
from console.pages.history_frame import history_broker, history_frame

#: Queues in one chart: more lines cannot be distinguished.
MOST = 8


@require_safe
def history_compare(request: HttpRequest) -> HttpResponse:
    """`?queue=`, repeated: names of queues of the broker. The page exists for any names; its script requests the
    data."""
    broker = history_broker(request)
    names = list(dict.fromkeys(request.GET.getlist("queue")))
    if len(names) > MOST:
        raise Http404(f"{len(names)} queues are too many: {MOST} at most are compared.")
    context = history_frame(
        request,
        "history-compare",
        "Compare queues",
        comparedBroker=broker,
        queues=[_key(request, broker, text) for text in names],
        most=MOST,
        figure=compare_figure(),
        unreported=broker in brokers_without_producers(request_rights(request)),
    )
    return render(request, "console/history_compare.html", {**context, "compared_broker": broker})


def _key(request: HttpRequest, broker: str, text: str) -> dict[str, Any]:
    try:
        name = ObjectName.parse(text)
    except ValueError:
        raise Http404(f"{text!r} is not the name of a queue.") from None
    if name.type != "Queue" or dict(name.keys).keys() != {"virtualhost", "name"}:
        raise Http404(f"{text} is not a queue.")
    check_sees(request, broker, name["virtualhost"])
    return {"object": str(name), "broker": broker, "virtualhost": name["virtualhost"], "queue": name["name"]}
