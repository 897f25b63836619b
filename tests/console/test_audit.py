"""The audit trail: append-only, searched and exported."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection, transaction
from rest_framework.test import APIClient

from console.api import audit
from console.audit import triggers
from console.audit.models import AppendOnlyError, AuditEntry

pytestmark = pytest.mark.django_db


def entry(**values: object) -> AuditEntry:
    made = AuditEntry(
        user_name="olga", broker="local", object="type=Broker", operation="update", outcome="done", **values
    )
    made.save()
    return made


def test_saved_entry_cannot_be_changed_or_deleted() -> None:
    row = entry()
    row.reason = "another"
    with pytest.raises(AppendOnlyError):
        row.save()
    with pytest.raises(AppendOnlyError):
        row.delete()
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.filter(pk=row.pk).update(reason="another")
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.all().delete()
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.bulk_update([row], ["reason"])
    assert AuditEntry.objects.get().reason == ""


def test_entries_of_a_deleted_user_keep_the_name() -> None:
    user = User.objects.create_user("olga")
    entry(user=user)
    user.delete()
    row = AuditEntry.objects.get()
    assert (row.user, row.user_name) == (None, "olga")


def test_migrations_create_viewers_and_operators() -> None:
    def permissions(group: str) -> set[str]:
        return set(Group.objects.get(name=group).permissions.values_list("codename", flat=True))

    assert permissions("viewers") == {"view_auditentry"}
    assert permissions("operators") == {"view_auditentry", "operate"}
    assert permissions("administrators") == {"view_auditentry", "operate", "administer"}


# -- triggers of the database -----------------------------------------------------------------------------------------


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_auditentry SET reason = 'another'",
        "UPDATE audit_auditentry SET user_id = NULL, outcome = 'refused'",
        "UPDATE audit_auditentry SET virtualhost = 'elsewhere'",
        "UPDATE audit_auditentry SET at = '2001-01-01'",
        "DELETE FROM audit_auditentry",
        "DELETE FROM audit_auditentry WHERE outcome = 'done'",
    ],
)
def test_database_refuses_to_change_or_delete_an_entry(statement: str) -> None:
    row = entry(user=User.objects.create_user("olga"))
    saved = AuditEntry.objects.values().get()
    with pytest.raises(DatabaseError, match="never"), transaction.atomic():
        sql(statement)
    assert AuditEntry.objects.values().get() == saved
    assert saved["id"] == row.pk


def test_every_column_but_the_account_is_immutable() -> None:
    assert {field.column for field in AuditEntry._meta.fields} - {"user_id"} == set(triggers._IMMUTABLE)


@pytest.mark.parametrize("number", range(6))
def test_nulls_of_a_saved_entry_cannot_be_changed(number: int) -> None:
    entry()
    column = ("before", "after", "reason", "detail", "source_address", "virtualhost")[number]
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
        sql(f"UPDATE audit_auditentry SET {column} = '[1]'")


# -- search and export ------------------------------------------------------------------------------------------------


def operations(client: APIClient, **query: Any) -> list[str]:
    answer = client.get("/api/v1/audit/", query)
    assert answer.status_code == 200, answer.json()
    return [row["reason"] for row in answer.json()["results"]]


@pytest.fixture
def three() -> None:
    for name, operation, reason, outcome in (
        ("olga", "update", "first", "done"),
        ("otto", "stop-producers", "second", "refused"),
        ("olga", "purge", "=third", "done"),
    ):
        AuditEntry(
            user_name=name,
            broker="local",
            virtualhost="red" if operation == "purge" else "",
            object=f"type=Queue,virtualhost=red,name={reason}",
            operation=operation,
            reason=reason,
            outcome=outcome,
            after={"capacity_messages": 5},
        ).save()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["=third", "second", "first"]),
        ({"user": "olga"}, ["=third", "first"]),
        ({"operation": "update"}, ["first"]),
        ({"outcome": "refused"}, ["second"]),
        ({"virtualhost": "red"}, ["=third"]),
        ({"object": "type=Queue,virtualhost=red,name=second"}, ["second"]),
        ({"search": "OTTO"}, ["second"]),
        ({"search": "stop-prod"}, ["second"]),
        ({"search": "name=fir"}, ["first"]),
        ({"user": "olga", "search": "third"}, ["=third"]),
        ({"from": "2020-01-01"}, ["=third", "second", "first"]),
        ({"until": "2020-01-01T00:00:00Z"}, []),
        ({"from": "4000000000000"}, []),
        ({"broker": "elsewhere"}, []),
    ],
)
def test_entries_are_found_by_user_operation_object_text_time_and_outcome(
    three: None, as_viewer: APIClient, query: dict[str, str], found: list[str]
) -> None:
    assert operations(as_viewer, **query) == found


@pytest.mark.parametrize(
    "query", [{"outcome": "sad"}, {"from": "yesterday"}, {"from": "2026-01-02", "until": "2026-01-01"}]
)
def test_invalid_search_shows_the_error(as_viewer: APIClient, query: dict[str, str]) -> None:
    assert as_viewer.get("/api/v1/audit/", query).status_code == 400
    assert as_viewer.get("/api/v1/audit/file/", query).status_code == 400


def taken(client: APIClient, **query: str) -> str:
    answer = client.get("/api/v1/audit/file/", query)
    assert answer.status_code == 200
    assert answer.streaming  # type: ignore[attr-defined]
    return b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]


def test_results_are_exported_as_csv_and_json(three: None, as_viewer: APIClient) -> None:
    rows = list(csv.DictReader(io.StringIO(taken(as_viewer, **{"as": "csv"}, user="olga"))))
    assert [row["reason"] for row in rows] == ["'=third", "first"]  # not a formula in a spreadsheet
    assert json.loads(rows[0]["after"]) == {"capacity_messages": 5}
    listed = json.loads(taken(as_viewer, **{"as": "json"}))
    assert [row["reason"] for row in listed] == ["=third", "second", "first"]
    assert listed[0]["after"] == {"capacity_messages": 5}
    assert json.loads(taken(as_viewer, **{"as": "json"}, user="unknown")) == []
    assert taken(as_viewer, **{"as": "csv"}, user="unknown").startswith("id,at,user_name")
    assert as_viewer.get("/api/v1/audit/file/", {"as": "pdf"}).status_code == 400


def test_large_trail_is_exported_in_batches(as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_BATCH", 10)
    for n in range(25):
        entry(reason=str(n))
    answer = as_viewer.get("/api/v1/audit/file/", {"as": "json"})
    parts = list(answer.streaming_content)  # type: ignore[attr-defined]
    assert len(parts) == 4
    assert [row["reason"] for row in json.loads(b"".join(parts))] == [str(n) for n in reversed(range(25))]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_transactional_test_may_leave_entries() -> None:
    entry()
