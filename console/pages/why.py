"""The page that explains why a queue or a producer is blocked."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.model import ObjectName
from console.operations.policies import has_operation
from console.pages.frame import broker_of, check_sees, frame
from console.pages.messages import LIST_MESSAGES
from console.pages.policy_fields import link_of
from console.permissions.rights import host_of


@require_safe
def why(request: HttpRequest) -> HttpResponse:
    """`?object=`: a queue or a producer. The page also exists for an object that does not."""
    text = request.GET.get("object", "")
    try:
        name = ObjectName.parse(text)
    except ValueError:
        raise Http404(f"{text!r} is not the name of a queue or a producer.") from None
    if name.type not in ("Queue", "Producer"):
        raise Http404(f"{text} is neither a queue nor a producer.")
    check_sees(request, broker_of(request)["slug"], host_of(name))
    short = name["name"] if name.type == "Queue" else f"producer {name['id']}"
    return render(
        request,
        "console/why.html",
        {
            **frame(
                request,
                "why",
                f"Why blocked: {short}",
                about=host_of(name),
                object=text,
                purges=has_operation(link_of(request), "Queue", "purge"),
            ),
            "page": "overview",
            "name": name,
            "short": short,
            "lists_messages": name.type == "Queue" and has_operation(link_of(request), "Queue", LIST_MESSAGES),
            "object": text,
            "type": name.type,
        },
    )
