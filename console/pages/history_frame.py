"""What the pages of the history have around them, besides the frame of every page.

The history knows brokers that this console is not connected to, such as those of imported logs: `?broker=` may name
one, and the frame is then that of the default broker.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from console.pages.frame import frame

_TABS = (
    ("history", "All queues"),
    ("history-incident", "Incident"),
    ("history-advice", "Recommendations"),
    ("history-status", "Status"),
)


def history_frame(request: HttpRequest, tab: str, title: str, **settings_of_page: Any) -> dict[str, Any]:
    """The template context of a page of the history."""
    name = history_broker(request)
    suffix = f"?broker={name}" if request.GET.get("broker") and connected(name) else ""
    return {
        **frame(request, "history", title, slug=name if connected(name) else "", **settings_of_page),
        "tab": tab,
        "history_tabs": [(page, label, reverse(page) + suffix) for page, label in _TABS],
    }


def history_broker(request: HttpRequest) -> str:
    """The name of the broker that the page is about; the default one if none is named."""
    return request.GET.get("broker") or settings.HEADGATE_BROKERS[0]["slug"]


def connected(name: str) -> bool:
    """Whether this console is connected to the broker."""
    return any(broker["slug"] == name for broker in settings.HEADGATE_BROKERS)
