"""The audit page: rows, filters, pagination."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from console.access.models import RoleGrant
from console.audit.models import AuditEntry
from console.pages.audit import ROWS

pytestmark = pytest.mark.django_db

ORDERS = "type=Queue,virtualhost=default,name=orders"


@pytest.fixture
def viewer() -> Client:
    user = User.objects.create_user("vic")
    user.groups.add(Group.objects.get(name="viewers"))
    client = Client()
    client.force_login(user)
    return client


def entry(**given: Any) -> AuditEntry:
    values = {
        "user_name": "ada",
        "source_address": "127.0.0.1",
        "broker": "local",
        "object": ORDERS,
        "operation": "update",
        "reason": "more room",
        "before": {"capacity_messages": 10, "flow_resume_messages": None},
        "after": {"capacity_messages": 20, "flow_resume_messages": None},
        "outcome": "done",
        **given,
    }
    return AuditEntry.objects.create(**values)


def test_empty_audit_trail_says_so(viewer: Client) -> None:
    assert "No audit entries yet" in viewer.get("/audit/").content.decode()


def test_row_shows_reason_address_and_changed_values_only(viewer: Client) -> None:
    entry()
    html = viewer.get("/audit/").content.decode()
    assert "more room" in html
    assert "from 127.0.0.1" in html
    assert "<del>10</del>" in html
    assert "<ins>20</ins>" in html
    assert "flow_resume_messages" not in html.partition('id="page-settings"')[0]


def test_statistics_are_not_shown_as_changes(viewer: Client) -> None:
    entry(before={"capacity_bytes": None, "depth_bytes": 5}, after={"capacity_bytes": 2048, "depth_bytes": 7})
    html = viewer.get("/audit/").content.decode()
    assert "<ins>2,048</ins>" in html
    assert "depth_bytes" not in html


def test_stop_is_shown_with_its_scope_and_actor(viewer: Client) -> None:
    stop = {"scope": "broker", "reason": "incident", "actor": "ada", "since": 1}
    entry(object="type=Broker", operation="stop-producers", before={"stops": []}, after={"stops": [stop]})
    assert "<ins>broker by ada</ins>" in viewer.get("/audit/").content.decode()


def test_name_of_an_object_among_the_changes_has_each_value_isolated(viewer: Client) -> None:
    target = 'type=Queue,virtualhost="<b>,",name=הזמנות-2'
    entry(object="schedule night", operation="create", before=None, after={"target": target, "hour": "3"})
    html = viewer.get("/audit/").content.decode()
    written = "type=<bdi>Queue</bdi>,virtualhost=<bdi>&quot;&lt;b&gt;,&quot;</bdi>,name=<bdi>הזמנות-2</bdi>"
    assert f"<ins>{written}</ins>" in html
    assert "<ins>3</ins>" in html


def test_filter_without_a_match_says_so(viewer: Client) -> None:
    entry()
    html = viewer.get("/audit/?search=nothing-like-it").content.decode()
    assert "No matching entries" in html


@pytest.mark.parametrize(
    ("query", "shown", "hidden"),
    [
        ("user=ada", "by-ada", "by-bob"),
        ("operation=stop-producers", "by-bob", "by-ada"),
        ("outcome=refused", "by-bob", "by-ada"),
        ("search=BY-BOB", "by-bob", "by-ada"),
        (f"object={ORDERS.replace('=', '%3D')}", "by-ada", "by-bob"),
    ],
)
def test_filter_shows_matching_rows_only(query: str, shown: str, hidden: str, viewer: Client) -> None:
    entry(reason="by-ada")
    entry(reason="by-bob", user_name="bob", object="type=Broker", operation="stop-producers", outcome="refused")
    html = viewer.get(f"/audit/?{query}", headers={"HX-Request": "true"}).content.decode()
    assert shown in html
    assert hidden not in html


def test_other_brokers_rows_are_not_shown(viewer: Client) -> None:
    entry(broker="elsewhere", reason="far away")
    assert "far away" not in viewer.get("/audit/").content.decode()


def test_rows_are_paginated(viewer: Client) -> None:
    for n in range(ROWS + 1):
        entry(reason=f"reason-{n:03}")
    first = viewer.get("/audit/?user=ada").content.decode()
    assert f"reason-{ROWS:03}" in first
    assert "reason-000" not in first
    assert "?user=ada&amp;page=2" in first
    assert "reason-000" in viewer.get("/audit/?user=ada&page=2").content.decode()


def test_page_beyond_the_last_shows_the_last(viewer: Client) -> None:
    entry()
    assert "more room" in viewer.get("/audit/?page=99").content.decode()


def test_text_of_a_row_is_escaped(viewer: Client) -> None:
    entry(reason="<b>bold</b>", detail="<i>x</i>", object="not an object name <u>")
    html = viewer.get("/audit/").content.decode()
    assert "<b>bold" not in html
    assert "<i>x" not in html
    assert "<u>" not in html


def test_entries_of_all_brokers_name_theirs_and_are_those_that_the_user_sees(viewer: Client, settings: Any) -> None:
    (local,) = settings.HEADGATE_BROKERS
    settings.HEADGATE_BROKERS = [local, {**local, "slug": "remote", "title": "Remote one"}]
    entry()
    entry(broker="remote", reason="less room", user_name="ben")
    one = viewer.get("/audit/").content.decode()
    assert "more room" in one
    assert "less room" not in one
    both = viewer.get("/audit/?all=1").content.decode()
    rows = both.partition("<tbody>")[2]
    assert "more room" in rows
    assert "less room" in rows
    assert "Remote one" in rows
    assert "<option>ben</option>" in both
    assert "?broker=remote&amp;object=" in rows
    assert "broker=" not in both.partition("/api/v1/audit/file/?as=csv")[2].partition('"')[0]

    host = User.objects.create_user("hal")
    RoleGrant.objects.create(user=host, role="viewer", broker="local", virtualhost="")
    client = Client()
    client.force_login(host)
    assert "less room" not in client.get("/audit/?all=1").content.decode()
