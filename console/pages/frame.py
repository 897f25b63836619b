"""The frame of every page: its broker, navigation, and the user's permissions."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.urls import reverse

from console.access.user_rights import request_rights
from console.brokers.configured import configured
from console.links.state import CONNECTING
from console.links.visible import visible_link
from console.live.fleet.members import members_of
from console.permissions.rights import Hosts, Rights, Role
from console.preferences.stored import preferences_of


def brokers_of(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the configured brokers that the user sees. Raises PermissionDenied if there are none."""
    rights = request_rights(request)
    found = [broker for broker in configured() if rights.can_see(broker["slug"])]
    if not found:
        raise PermissionDenied("You have no role yet. An administrator can assign one on the Access page.")
    return found


def broker_of(request: HttpRequest, slug: str | None = None) -> dict[str, Any]:
    """Return the broker that `?broker=` (or `slug`) names, or the first one. Raises Http404 for an unknown or invisible
    broker."""
    slug = request.GET.get("broker", "") if slug is None else slug
    brokers = brokers_of(request)
    for broker in brokers:
        if slug in ("", broker["slug"]):
            return broker
    slugs = ", ".join(broker["slug"] for broker in brokers)
    raise Http404(f"Unknown broker {slug!r}. Brokers: {slugs}.")


def check_sees(request: HttpRequest, broker: str, virtualhost: str | None) -> None:
    """Raise PermissionDenied unless the user sees a virtual host of a broker. None: the broker itself, which every user
    with a role at it sees."""
    rights = request_rights(request)
    if virtualhost is not None and not rights.allows(Role.VIEWER, broker, virtualhost):
        raise PermissionDenied(f"Your roles do not include virtual host {virtualhost} of broker {broker}.")


def amqp_address(broker: dict[str, Any]) -> str:
    """Return the URL for AMQP clients; empty if the broker's options do not have it."""
    options = broker.get("options", {})
    if "kind" in broker or "host" not in options or "port" not in options:
        return ""
    host = str(options["host"])
    scheme = "amqps" if options.get("ca") else "amqp"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{options['port']}"


def frame(
    request: HttpRequest,
    page: str,
    title: str,
    *,
    slug: str | None = None,
    about: str | None = None,
    **settings_of_page: Any,
) -> dict[str, Any]:
    """Return the template context of a page. `settings_of_page`: passed to its script as JSON. `slug`: the page's
    broker, if not that of `?broker=`. `about`: the virtual host of the page, whose permissions apply; None: permissions
    for any virtual host suffice."""
    broker, brokers, rights = broker_of(request, slug), brokers_of(request), request_rights(request)
    may = _may(rights, broker["slug"])
    named = urlencode({"broker": broker["slug"]}) if request.GET.get("broker") == broker["slug"] else ""
    suffix = "" if broker["slug"] == brokers[0]["slug"] else f"?broker={broker['slug']}"
    several = len(brokers) > 1
    preferences = preferences_of(request.user.pk)
    return {
        "page": page,
        "title": title,
        "broker": broker,
        "brokers": brokers,
        # What links of the page's broker end with, as core/page_broker.js has it for those without.
        "of_broker": f"?{named}" if named else "",
        "and_broker": f"&{named}" if named else "",
        "switcher": _switcher(request, brokers, rights) if several else [],
        "may_operate": _may_here(may["operate"], about),
        "may_operate_all": may["operate"] is None,
        "may_edit": _may_here(may["edit"], about),
        "may_administer": rights.can_assign_any,
        "may_administer_all": rights.allows_everywhere(Role.ADMIN),
        "role": _in_words(may),
        "preferences": preferences,
        "navigation": [
            # Of several brokers the address without one is that of all.
            (name, label, reverse(name) + (f"?broker={broker['slug']}" if several and name == "overview" else suffix))
            for name, label in (
                *([("fleet", "All brokers")] if several else []),
                ("overview", "Overview"),
                ("policies", "Policies"),
                ("schedules", "Schedules"),
                ("alerts", "Alerts"),
                ("dead-letters", "Dead letters"),
                ("timeline", "Timeline"),
                ("history", "History"),
                ("clients", "Clients"),
                ("objects", "Objects"),
                ("audit", "Audit"),
                ("api-docs", "API"),
            )
        ],
        "page_settings": {
            "page": page,
            "broker": broker["slug"],
            "brokerTitle": broker["title"],
            "brokers": [{"slug": each["slug"], "title": each["title"]} for each in brokers],
            "amqp": amqp_address(broker),
            "state": _state(rights, broker["slug"]),
            "may": may,
            "mayOperate": _may_here(may["operate"], about),
            "mayEdit": _may_here(may["edit"], about),
            "mayAdminister": may["administer"] is None,
            "user": request.user.get_username(),
            "preferences": preferences,
            "loginUrl": reverse("login"),
            **settings_of_page,
        },
    }


def fleet_frame(request: HttpRequest, page: str, title: str, **settings_of_page: Any) -> dict[str, Any]:
    """Return the template context of a page about all brokers. Its permissions are those that the user has for each."""
    context, rights = frame(request, page, title, **settings_of_page), request_rights(request)
    brokers = context["brokers"]
    may_operate_all = all(rights.hosts(Role.OPERATOR, broker["slug"]) is None for broker in brokers)
    may: dict[str, Any] = {"see": None, "operate": None if may_operate_all else [], "edit": [], "administer": []}
    current = {"connected": None, "since": 0, "error": "", "as_of": None}
    about_all = {
        "broker": None,
        "brokerTitle": title,
        "amqp": "",
        "state": current,
        "may": may,
        "mayOperate": may_operate_all,
        "mayEdit": False,
        "socket": "/ws/fleet/",
    }
    return {
        **context,
        "broker": {"slug": "", "title": title},
        "may_operate_all": may_operate_all,
        "page_settings": {**context["page_settings"], **about_all},
    }


#: Pages that are about one object of a broker, by the start of their path, and what another broker has instead.
_ELSEWHERE = {
    "/queues/": "/",
    "/why/": "/",
    "/messages/": "/",
    "/clients/": "/clients/",
    "/fleet/": "/",
    "/history/": "/history/",
    "/policies/scope/": "/policies/",
}


def _switcher(request: HttpRequest, brokers: list[dict[str, Any]], rights: Rights) -> list[dict[str, Any]]:
    """Return the brokers for the switcher: the same page of each if it has one, and the connection's state."""
    path = next((home for start, home in _ELSEWHERE.items() if request.path.startswith(start)), request.path)
    states = {member.slug: member.state for member in members_of(rights)}
    return [
        {
            "slug": each["slug"],
            "title": each["title"],
            "state": states.get(each["slug"], "connecting"),
            "url": f"{path}?{urlencode({'broker': each['slug']})}",
        }
        for each in brokers
    ]


def _state(rights: Rights, broker: str) -> dict[str, Any]:
    """Return the broker's status as in live snapshots, so that a new page does not show a disconnected broker as
    connected. `connected`: null before the first attempt to connect."""
    link = visible_link(rights, broker)
    status = link.status
    begins = link.as_of is None and status.error == CONNECTING
    connected = None if begins else status.connected
    return {"connected": connected, "since": status.since, "error": status.error, "as_of": link.as_of}


def _may(rights: Rights, broker: str) -> dict[str, list[str] | None]:
    """Return the permissions for scripts: the virtual hosts of each, null for all and the broker itself. The server
    checks every call again."""

    def hosts(role: Role) -> list[str] | None:
        found: Hosts = rights.hosts(role, broker)
        return None if found is None else sorted(found)

    return {
        "see": hosts(Role.VIEWER),
        "read": hosts(Role.MESSAGE_READER),
        "publish": hosts(Role.PUBLISHER),
        "operate": hosts(Role.OPERATOR),
        "edit": hosts(Role.POLICY_EDITOR),
        "administer": hosts(Role.ADMIN),
    }


def _may_here(hosts: list[str] | None, about: str | None) -> bool:
    return hosts is None or (bool(hosts) if about is None else about in hosts)


def _in_words(may: dict[str, list[str] | None]) -> str:
    """Return the user's roles as text for the menu."""
    words = {
        "administer": "Administrator",
        "operate": "Operator",
        "edit": "Policy editor",
        "read": "Message reader",
        "publish": "Publisher",
    }
    roles = [word for key, word in words.items() if may[key] != []]
    if roles[:1] == ["Administrator"]:
        roles = roles[:1]
    role = " and ".join([roles[0], *(word.lower() for word in roles[1:])]) if roles else "Viewer (read-only)"
    hosts = may["see"]
    return role if hosts is None else f"{role}; virtual host{'s'[: len(hosts) > 1]} {', '.join(hosts)}"
