"""The pages of alerts: active alerts, rules, receivers and the delivery log; and one rule."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from console.access.user_rights import request_rights
from console.alerts.models import Rule
from console.alerts.visibility import can_see_rule
from console.links.visible import visible_links
from console.pages.frame import frame


@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    return render(request, "console/alerts.html", frame(request, "alerts", "Alerts", hosts=_hosts(request)))


@require_safe
def alert_rule(request: HttpRequest, number: int = 0) -> HttpResponse:
    """`number`: of an existing rule; 0: a new one."""
    rule = get_object_or_404(Rule, pk=number) if number else None
    if rule is not None and not can_see_rule(request_rights(request), rule):
        raise Http404(f"There is no rule {number}.")
    context = frame(request, "alert-rule", rule.name if rule else "New rule", rule=number, hosts=_hosts(request))
    return render(request, "console/alert_rule.html", {**context, "page": "alerts", "rule": rule})


def _hosts(request: HttpRequest) -> dict[str, list[str] | None]:
    """Return the names of the virtual hosts that the user sees, by broker; None: of one that was not connected yet."""
    links = visible_links(request_rights(request))
    return {link.slug: None if link.broker is None else sorted(link.hosts) for link in links}
