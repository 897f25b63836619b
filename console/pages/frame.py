"""What every page has around it: the broker it is about, who looks at it, and what they may do."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest
from django.urls import reverse

#: The permission that every change of a broker needs; the server checks it again in each call.
OPERATE = "audit.operate"
#: The permission for the broker's users, which is stricter.
ADMINISTER = "audit.administer"


def broker_of(request: HttpRequest, slug: str | None = None) -> dict[str, Any]:
    """The configured broker that `?broker=` (or `slug`) names, or the first one; raises Http404 for one that is not
    configured."""
    slug = request.GET.get("broker", "") if slug is None else slug
    brokers: list[dict[str, Any]] = settings.HEADGATE_BROKERS
    for broker in brokers:
        if slug in ("", broker["slug"]):
            return broker
    known = ", ".join(broker["slug"] for broker in brokers)
    raise Http404(f"There is no broker {slug!r}. There is: {known}.")


def amqp_address(broker: dict[str, Any]) -> str:
    """Where clients connect, for the pages that invite them to; empty if the broker's options do not tell."""
    options = broker.get("options", {})
    if "host" not in options or "port" not in options:
        return ""
    host = str(options["host"])
    scheme = "amqps" if options.get("ca") else "amqp"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{options['port']}"


def frame(
    request: HttpRequest, page: str, title: str, *, slug: str | None = None, **settings_of_page: Any
) -> dict[str, Any]:
    """The template context of a page. `settings_of_page` reaches its script as JSON. `slug`: its broker, if that is not
    simply the one of `?broker=`."""
    broker = broker_of(request, slug)
    may_operate = request.user.has_perm(OPERATE)
    suffix = "" if broker is settings.HEADGATE_BROKERS[0] else f"?broker={broker['slug']}"
    return {
        "page": page,
        "title": title,
        "broker": broker,
        "brokers": settings.HEADGATE_BROKERS,
        "may_operate": may_operate,
        "navigation": [
            (name, label, reverse(name) + suffix)
            for name, label in (
                ("overview", "Overview"),
                ("policies", "Policies"),
                ("schedules", "Schedules"),
                ("alerts", "Alerts"),
                ("timeline", "Timeline"),
                ("history", "History"),
                ("objects", "Objects"),
                ("audit", "Audit"),
                ("api-docs", "API"),
            )
        ],
        "page_settings": {
            "page": page,
            "broker": broker["slug"],
            "brokerTitle": broker["title"],
            "brokers": [{"slug": each["slug"], "title": each["title"]} for each in settings.HEADGATE_BROKERS],
            "amqp": amqp_address(broker),
            "mayOperate": may_operate,
            "mayAdminister": request.user.has_perm(ADMINISTER),
            "user": request.user.get_username(),
            "loginUrl": reverse("login"),
            **settings_of_page,
        },
    }
