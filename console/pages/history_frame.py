"""The frame of the pages of the history, in addition to that of every page.

The history may have brokers that are not configured in this console, for example from imported logs. If `?broker=`
names one, the page has the frame of the default broker.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from console.access.user_rights import request_rights
from console.brokers.configured import slugs
from console.links.visible import visible_links
from console.operations.policies import fields_anywhere
from console.pages.frame import brokers_of, frame

_TABS = (
    ("history", "All queues"),
    ("history-compare", "Compare"),
    ("history-incident", "Incident"),
    ("history-advice", "Recommendations"),
    ("history-status", "Status"),
)


def history_frame(request: HttpRequest, tab: str, title: str, **settings_of_page: Any) -> dict[str, Any]:
    """Return the template context of a page of the history."""
    name = history_broker(request)
    titles = {broker["slug"]: broker["title"] for broker in brokers_of(request)}
    suffix = f"?broker={name}" if request.GET.get("broker") and is_configured(name) else ""
    return {
        **frame(
            request,
            "history",
            title,
            slug=name if is_configured(name) else "",
            policyFields=_policy_fields(request),
            **settings_of_page,
        ),
        "tab": tab,
        "history_broker": titles.get(name, name),
        "history_tabs": [(page, label, reverse(page) + suffix) for page, label in _TABS],
    }


def _policy_fields(request: HttpRequest) -> dict[str, list[str]]:
    """Return the policy fields that can be set at each broker whose types are known: recommendations are about several
    brokers, and each links to the fields that its own has."""
    return {link.slug: fields_anywhere(link) for link in visible_links(request_rights(request)) if link.types_known}


def history_broker(request: HttpRequest) -> str:
    """Return the name of the page's broker; the first one that the user sees if the URL has none. Raises
    PermissionDenied if there are none."""
    return request.GET.get("broker") or str(brokers_of(request)[0]["slug"])


def is_configured(name: str) -> bool:
    """Return whether the broker is configured in this console."""
    return name in slugs()
