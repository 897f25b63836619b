"""Isolation of virtual hosts on pages: a user with roles for one virtual host sees nothing of another.

The URLs cover every page; a test fails for a page without one.
"""

from __future__ import annotations

import pytest
from django.test import Client

from console.alerts.models import Rule
from console.bulk.models import BulkEdit
from console.pages.urls import urlpatterns as page_patterns
from console.permissions.rights import Grant, Role
from console.schedules.models import Schedule
from tests.console.access.conftest import HIDDEN, SECRET, of, person, routes
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

#: URLs by route. None: the page is for all signed-in users, or shows no names.
PAGES: dict[str, list[str]] = {
    "": ["/"],
    "queues/<host:virtualhost>/<queue:name>/": [f"/queues/blue/{HIDDEN['name']}/"],
    "policies/": ["/policies/"],
    "policies/scope/": [f"/policies/scope/?object={of(HIDDEN)}", "/policies/scope/?new=blue"],
    "policies/file/": ["/policies/file/"],
    "policies/bulk/": ["/policies/bulk/"],
    "policies/bulk/<int:number>/": ["/policies/bulk/{job}/"],
    "policies/export.yaml": ["/policies/export.yaml"],
    "clients/": ["/clients/"],
    "clients/connection/": ["/clients/connection/?object=type%3DConnection%2Cvirtualhost%3Dblue%2Cid%3D1"],
    "clients/client/": ["/clients/client/?virtualhost=blue&user=ann"],
    "conditions/": ["/conditions/"],
    "first-steps/": ["/first-steps/"],
    "help/": ["/help/", "/help/?q=blocked"],
    "help/<slug:slug>/": ["/help/terms/"],
    "messages/": [f"/messages/?object={of(HIDDEN)}"],
    "dead-letters/": ["/dead-letters/"],
    "timeline/": ["/timeline/"],
    "why/": [f"/why/?object={of(HIDDEN)}"],
    "history/": ["/history/"],
    "history/compare/": ["/history/compare/", f"/history/compare/?queue={of(HIDDEN)}"],
    "history/incident/": ["/history/incident/"],
    "history/advice/": ["/history/advice/"],
    "history/status/": ["/history/status/"],
    "history/what-if/<host:virtualhost>/<queue:name>/": [f"/history/what-if/blue/{HIDDEN['name']}/"],
    "history/queues/<host:virtualhost>/<queue:name>/": [f"/history/queues/blue/{HIDDEN['name']}/"],
    "alerts/": ["/alerts/"],
    "alerts/rules/new/": ["/alerts/rules/new/"],
    "alerts/rules/<int:number>/": ["/alerts/rules/{rule}/"],
    "schedules/": ["/schedules/"],
    "schedules/new/": ["/schedules/new/"],
    "schedules/<int:number>/": ["/schedules/{schedule}/"],
    "objects/": ["/objects/"],
    "audit/": ["/audit/", f"/audit/?object={of(HIDDEN)}"],
    "api/": ["/api/"],
}
OWN_PAGES = {"preferences/", "tokens/", "access/", "brokers/", "fleet/"}


def test_probes_cover_every_page() -> None:
    assert set(routes(list(page_patterns))) == set(PAGES) | OWN_PAGES


def test_pages_require_a_role_and_show_nothing_of_another_virtual_host(two_hosts: Broker) -> None:
    job = BulkEdit.objects.get().pk
    hidden = {"{job}": job, "{rule}": Rule.objects.get().pk, "{schedule}": Schedule.objects.get().pk}
    stranger, none, part = Client(), Client(), Client()
    none.force_login(person("noah"))
    part.force_login(person("nora", Grant(Role.VIEWER, "local", "default")))
    for given in (path for paths in PAGES.values() for path in paths):
        path = given
        for name, number in hidden.items():
            path = path.replace(name, str(number))
        assert stranger.get(path).status_code == 302, path
        assert none.get(path).status_code in (403, 404), path
        answer = part.get(path)
        if SECRET in path or "blue" in path or "{" in given:
            assert answer.status_code in (403, 404) or (
                path.startswith("/audit/") and "No matching entries" in str(answer.content)
            )
        else:
            assert answer.status_code == 200, path
            assert SECRET not in answer.content.decode(), path


def test_page_frame_has_the_permissions_of_the_user(two_hosts: Broker) -> None:
    client = Client()
    client.force_login(person("olav", Grant(Role.OPERATOR, "local", "default")))
    html = client.get("/").content.decode()
    assert "Operator; virtual host default" in html
    assert '"operate": ["default"]' in html
    assert "operator for the whole broker" in html  # what is still needed to stop all
