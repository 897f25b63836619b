"""The Brokers page: administrators add, edit, pause and remove brokers by its forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from brokers.adapters.adapter import Finding
from brokers.admin import NotAllowed
from console.brokers import configured
from console.brokers.models import ForeignBroker
from console.operations import broker_probe
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

FORM = {
    "action": "save", "kind": "rabbitmq", "slug": "rabbit", "title": "Rabbits <of> Europe", "url": "http://10.0.0.7:15672",
    "username": "headgate", "password": "swordfish", "authority": "", "tags": "prod, eu",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _as_before(broker: Broker, tmp_path: Path, settings: Any) -> Iterator[None]:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "brokers.key")
    settings.HEADGATE_ADAPTERS = {**settings.HEADGATE_ADAPTERS, "data": str(tmp_path / "adapters")}
    yield
    configured._added = ()


@pytest.fixture
def page(administrator: User) -> Client:
    client = Client()
    client.force_login(administrator)
    return client


def test_it_is_for_administrators(operator: User) -> None:
    client = Client()
    client.force_login(operator)
    assert client.get("/brokers/").status_code == 403
    assert "/brokers/" not in client.get("/").content.decode()


def test_a_broker_is_added_edited_paused_and_removed(page: Client) -> None:
    assert page.post("/brokers/", FORM).status_code == 302
    text = page.get("/brokers/").content.decode()
    assert "Rabbits &lt;of&gt; Europe" in text
    assert "swordfish" not in text
    assert "swordfish" not in page.get("/brokers/?edit=rabbit").content.decode()
    assert 'id="broker-choice"' in text
    page.post("/brokers/?edit=rabbit", {**FORM, "title": "Rabbits", "password": ""})
    row = ForeignBroker.objects.get()
    assert (row.title, row.tags, row.account().password) == ("Rabbits", ["eu", "prod"], "swordfish")
    page.post("/brokers/", {"action": "pause", "slug": "rabbit"})
    assert "Resume" in page.get("/brokers/").content.decode()
    question = page.post("/brokers/", {"action": "remove", "slug": "rabbit"}).content.decode()
    assert "On the broker itself nothing changes" in question
    assert ForeignBroker.objects.exists()
    page.post("/brokers/", {"action": "remove", "slug": "rabbit", "confirmed": "1"})
    assert not ForeignBroker.objects.exists()
    assert page.get("/brokers/?edit=rabbit").status_code == 404


def test_a_fault_is_shown_and_the_form_stays_filled(page: Client) -> None:
    answer = page.post("/brokers/", {**FORM, "url": "http://169.254.169.254"})
    assert answer.status_code == 400
    text = answer.content.decode()
    assert "link-local" in text
    assert 'value="headgate"' in text
    assert "swordfish" not in text
    assert page.post("/brokers/", {"action": "save"}).status_code == 400
    assert page.post("/brokers/", {"action": "explode"}).status_code == 400


def test_findings_of_a_test_are_shown_and_nothing_is_saved(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def findings(_kind: str, account: Any) -> list[Finding]:
        assert account.password == "swordfish"
        return [Finding("", str(NotAllowed("the user lacks the tag monitoring")))]

    monkeypatch.setattr(broker_probe, "findings", findings)
    text = page.post("/brokers/", {**FORM, "action": "test"}).content.decode()
    assert "The user lacks the tag monitoring." in text
    assert 'class="notice error"' in text
    assert not ForeignBroker.objects.exists()


def test_broker_that_answers_and_lacks_something_is_no_error(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def findings(*_: Any) -> list[Finding]:
        return [Finding("RabbitMQ 3.10.8 answers"), Finding("", "statistics are disabled")]

    monkeypatch.setattr(broker_probe, "findings", findings)
    text = page.post("/brokers/", {**FORM, "action": "test"}).content.decode()
    assert 'class="notice partly"' in text
    assert 'class="notice error" role="status"' not in text
    assert "<li>RabbitMQ 3.10.8 answers.</li><li>Statistics are disabled.</li>" in text
