"""The pages of messages: those of one queue, and the dead-letter queues of a broker."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.model import ObjectName
from console.links.link import BrokerLink
from console.operations.policies import EXPLAIN, has_operation
from console.pages.frame import broker_of, check_sees, frame
from console.pages.policy_fields import link_of
from console.permissions.rights import host_of

#: The operation without which a broker has no messages page.
LIST_MESSAGES = "list-messages"
#: The operations of queues that the pages use, if a broker offers them.
_OPERATIONS = (
    LIST_MESSAGES,
    "read-message",
    "summarize-messages",
    "move-messages",
    "copy-messages",
    "retry-messages",
    "delete-messages",
    "publish-message",
    "purge",
)


def _offered(link: BrokerLink) -> list[str]:
    return [name for name in _OPERATIONS if has_operation(link, "Queue", name)]


@require_safe
def messages(request: HttpRequest) -> HttpResponse:
    """`?object=`: a queue. The page also exists for a queue that does not."""
    text = request.GET.get("object", "")
    try:
        name = ObjectName.parse(text)
    except ValueError:
        raise Http404(f"{text!r} is not the name of a queue.") from None
    if name.type != "Queue":
        raise Http404(f"{text} is not a queue.")
    check_sees(request, broker_of(request)["slug"], host_of(name))
    link = link_of(request)
    operations = _offered(link)
    context = frame(
        request,
        "messages",
        f"Messages: {name['name']}",
        about=name["virtualhost"],
        object=str(name),
        virtualhost=name["virtualhost"],
        name=name["name"],
        operations=operations,
        known=link.types_known,
        explains=has_operation(link, "Queue", EXPLAIN),
    )
    return render(
        request,
        "console/messages.html",
        {
            **context,
            "page": "overview",
            "virtualhost": name["virtualhost"],
            "name": name["name"],
            "lists": LIST_MESSAGES in operations,
            "publishes": "publish-message" in operations,
            "purges": "purge" in operations,
            "may_publish": _includes(context["page_settings"]["may"]["publish"], name["virtualhost"]),
        },
    )


def _includes(hosts: list[str] | None, virtualhost: str) -> bool:
    return hosts is None or virtualhost in hosts


@require_safe
def dead_letters(request: HttpRequest) -> HttpResponse:
    link = link_of(request)
    operations = _offered(link)
    queues = link.types.get("Queue")
    lists = queues is not None and queues.attribute("dead_letter_sources") is not None
    context = frame(
        request,
        "dead-letters",
        "Dead letters",
        lists=lists,
        summarizes="summarize-messages" in operations,
        retries="retry-messages" in operations,
        known=link.types_known,
    )
    return render(request, "console/dead_letters.html", {**context, "lists": lists})
