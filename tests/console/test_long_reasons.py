"""Texts that are longer than today's limits are truncated for display, with a mark."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from rest_framework.test import APIClient

from brokers import input_limits as limits
from console.audit.models import AuditEntry, Outcome
from console.operations.composed_reasons import composed_reason
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

#: A reason of an earlier version; cells of spreadsheets are shorter.
LONG, CELL = 1_000_000, 32_767


@pytest.fixture
def old(broker: Broker, db: None) -> AuditEntry:
    broker.connected()
    row = AuditEntry(
        user_name="vera",
        broker="local",
        object="type=Queue,virtualhost=default,name=orders",
        operation="update",
        reason="r" * LONG,
        detail="d" * LONG,
        before={"dead_letter_queue": "b" * LONG},
        outcome=Outcome.DONE,
    )
    AuditEntry.objects.bulk_create([row])
    return row


def test_long_texts_are_truncated_with_a_mark_in_audit_and_timeline(old: AuditEntry, as_operator: APIClient) -> None:
    [row] = as_operator.get("/api/v1/audit/").json()["results"]
    assert row["reason"] == "r" * limits.TEXT + "… (1,000,000 characters)"
    assert row["detail"].endswith("… (1,000,000 characters)")
    [entry] = as_operator.get("/api/v1/timeline/?source=people").json()["entries"]
    assert entry["reason"].endswith("… (1,000,000 characters)")
    assert len(as_operator.get("/audit/").content) < 200_000


@pytest.mark.parametrize("path", ["audit/file/?as=csv", "timeline/download/?source=people"])
def test_cells_of_exports_fit_into_spreadsheets(path: str, old: AuditEntry, as_operator: APIClient) -> None:
    answer: Any = as_operator.get(f"/api/v1/{path}")
    text = (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 2
    assert max(len(cell) for row in rows for cell in row) < CELL
    assert any("1,000,000 characters" in cell for cell in rows[1])


def test_long_reason_is_refused(as_operator: APIClient, broker: Broker) -> None:
    body = {"scope": "type=Broker", "reason": "x" * 1_001}
    answer = as_operator.post("/api/v1/stop-producers/", body, format="json")
    assert (answer.status_code, list(answer.json())) == (400, ["reason"])
    assert not AuditEntry.objects.exists()
    body["reason"] = "x" * 1_000
    assert as_operator.post("/api/v1/stop-producers/", body, format="json").status_code == 200


def test_composed_reason_is_cut_at_its_end() -> None:
    assert composed_reason("bulk edit 7", " tighten ") == "bulk edit 7: tighten"
    assert composed_reason("bulk edit 7", "  ") == "bulk edit 7"
    whole = composed_reason("bulk edit 7", "x" * (limits.REASON - 13))
    assert (len(whole), whole[-1]) == (limits.REASON, "x")
    cut = composed_reason("bulk edit 7", "x" * (limits.REASON - 12))
    assert (len(cut), cut[-2:]) == (limits.REASON, "x…")
