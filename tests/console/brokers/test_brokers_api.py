"""Brokers added, tested, changed and removed by the API: administrators only, strict, audited, without passwords."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from brokers.adapters.adapter import Finding
from brokers.adapters.http import NotTrusted
from brokers.adapters.kinds import Account, Kind
from brokers.admin import BrokerUnreachable, EffectNotConfirmed, NotAllowed
from brokers.testing import InMemoryBroker
from console.audit.models import AuditEntry
from console.brokers import configured
from console.brokers.models import ForeignBroker
from console.links.registry import link
from console.operations import brokers as operations
from tests.console.conftest import Broker, signed_in, until

pytestmark = pytest.mark.django_db

BROKERS = "/api/v1/brokers/"
GIVEN = {
    "slug": "rabbit",
    "title": "Rabbits of Europe",
    "kind": "rabbitmq",
    "url": "http://10.0.0.7:15672/",
    "username": "headgate",
    "password": "swordfish",
    "tags": ["prod", "eu", "prod"],
}


@pytest.fixture(autouse=True)
def _as_before(broker: Broker, tmp_path: Path, settings: Any) -> Iterator[None]:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "brokers.key")
    settings.HEADGATE_ADAPTERS = {**settings.HEADGATE_ADAPTERS, "data": str(tmp_path / "adapters")}
    yield
    configured._added = ()


@pytest.fixture
def admin(administrator: User) -> APIClient:
    return signed_in(administrator)


def post(client: APIClient, path: str = BROKERS, **body: Any) -> Any:
    return client.post(path, body, format="json")


def test_an_added_broker_is_listed_at_once_and_its_password_is_nowhere(admin: APIClient) -> None:
    answer = post(admin, **GIVEN)
    assert answer.status_code == 201
    assert answer.json() == {
        "slug": "rabbit",
        "title": "Rabbits of Europe",
        "kind": "rabbitmq",
        "url": "http://10.0.0.7:15672",
        "username": "headgate",
        "has_password": True,
        "authority": "",
        "tags": ["eu", "prod"],
        "paused": False,
    }
    listed = {row["slug"]: row for row in admin.get(BROKERS).json()}
    assert listed["rabbit"] | {"since": 0, "error": ""} == {
        "slug": "rabbit", "title": "Rabbits of Europe", "connected": False, "since": 0, "error": "", "as_of": None,
        "stale": False, "kind": "rabbitmq", "tags": ["eu", "prod"], "paused": False, "added": True,
        "capabilities": None,
    }  # fmt: skip
    assert ForeignBroker.objects.get().account().password == "swordfish"
    assert "swordfish" not in answer.content.decode() + admin.get(BROKERS).content.decode()
    assert "swordfish" not in json.dumps(list(AuditEntry.objects.values()), default=str)
    assert AuditEntry.objects.get(operation="add-broker").after["url"] == "http://10.0.0.7:15672"


def test_the_list_has_what_a_connected_broker_can_do(admin: APIClient) -> None:
    until(lambda: link("local").connected)
    (local,) = admin.get(BROKERS).json()
    assert (local["kind"], local["added"], local["tags"], local["paused"]) == ("headgate", False, [], False)
    assert "Queue" in local["capabilities"]["types"]
    stop = {"object_type": "Queue", "operation": "stop-producers", "producer_effect": "hold", "remark": ""}
    assert stop in local["capabilities"]["operations"]


@pytest.mark.parametrize("call", ["post", "patch", "delete", "test", "test-stored"])
def test_only_administrators_of_all_brokers_may(as_operator: APIClient, call: str) -> None:
    row = ForeignBroker.objects.create(slug="hare", title="Hare", kind="rabbitmq", url="http://10.0.0.8")
    answers = {
        "post": lambda: post(as_operator, **GIVEN),
        "patch": lambda: as_operator.patch(f"{BROKERS}hare/", {"paused": True}, format="json"),
        "delete": lambda: as_operator.delete(f"{BROKERS}hare/"),
        "test": lambda: post(as_operator, f"{BROKERS}test/", kind="rabbitmq", url="http://10.0.0.8"),
        "test-stored": lambda: post(as_operator, f"{BROKERS}hare/test/"),
    }
    assert answers[call]().status_code == 403
    row.refresh_from_db()
    assert not row.paused
    assert AuditEntry.objects.get().outcome == "refused"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("slug", "Rabbit", "a-z"),
        ("slug", "../etc", "a-z"),
        ("slug", "-x", "a-z"),
        ("slug", "test", "reserved"),
        ("title", " ", "title"),
        ("kind", "telex", "it must be one of"),
        ("url", "http://guest:guest@rabbit", "their own fields"),
        ("url", "http://169.254.169.254", "link-local"),
        ("url", "http://[fe80::1]", "link-local"),
        ("url", "http://0.0.0.0:15672", "no address of a machine"),
        ("url", "amqp://rabbit", "http:// or https://"),
        ("username", "a:b", "colon"),
        ("tags", ["a b"], "tag 'a b'"),
        ("tags", [str(n) for n in range(11)], "10 at most"),
        ("authority", "/no/such/file.pem", "/no/such/file.pem"),
        ("authority", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", "certificate authority"),
        ("misspelt", 1, ""),
    ],
)
def test_input_is_strict_and_names_the_field(admin: APIClient, field: str, value: Any, says: str) -> None:
    answer = post(admin, **{**GIVEN, field: value})
    assert answer.status_code == 400
    assert list(answer.json()) == [field]
    assert says in str(answer.json()[field])
    assert not ForeignBroker.objects.exists()


def test_a_scheme_is_checked_for_the_kind_of_the_broker(admin: APIClient) -> None:
    artemis = {**GIVEN, "slug": "artemis", "kind": "artemis", "url": "amqp://10.0.0.7:5672"}
    assert post(admin, **artemis).status_code == 201
    change = {"url": "amqps://10.0.0.7", "password": "swordfish"}
    assert admin.patch(f"{BROKERS}artemis/", change, "json").status_code == 200
    assert post(admin, **GIVEN).status_code == 201
    answer = admin.patch(f"{BROKERS}rabbit/", change, "json")
    assert answer.status_code == 400
    assert "http:// or https://" in answer.json()["url"][0]


def test_a_name_that_resolves_to_a_link_local_address_is_refused(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 0))]
    monkeypatch.setattr("brokers.name_lookup.getaddrinfo", lambda *_, **__: found)
    answer = post(admin, **{**GIVEN, "url": "http://metadata.example.org"})
    assert answer.status_code == 400
    assert "link-local" in answer.json()["url"][0]


@pytest.mark.parametrize("slug", ["local", "rabbit"])
def test_a_slug_is_used_once(admin: APIClient, slug: str) -> None:
    assert post(admin, **GIVEN).status_code == 201
    assert post(admin, **{**GIVEN, "slug": slug}).status_code == 409


def test_a_broker_is_paused_edited_and_removed(admin: APIClient) -> None:
    post(admin, **GIVEN)
    path = f"{BROKERS}rabbit/"
    assert admin.patch(path, {"paused": True, "tags": []}, format="json").json()["paused"] is True
    until(lambda: "paused" in link("rabbit").status.error)
    row = ForeignBroker.objects.get()
    assert (row.revision, row.tags, row.account().password) == (2, [], "swordfish")
    assert admin.patch(path, {"password": ""}, format="json").json()["has_password"] is False
    assert admin.patch(path, {"slug": "other"}, format="json").status_code == 400
    assert admin.delete(path).status_code == 204
    assert [row["slug"] for row in admin.get(BROKERS).json()] == ["local"]
    assert admin.delete(path).status_code == 404
    assert admin.get(path).status_code == 404
    for broken in ("queues/", "conditions/", "events/", "brokers/rabbit/types/"):
        assert admin.get(f"/api/v1/{broken}?broker=rabbit").status_code in (400, 404)


def test_a_stored_password_is_not_sent_to_another_address(admin: APIClient) -> None:
    post(admin, **GIVEN)
    for answer in (
        admin.patch(f"{BROKERS}rabbit/", {"url": "http://10.6.6.6"}, format="json"),
        post(admin, f"{BROKERS}rabbit/test/", url="http://10.6.6.6"),
    ):
        assert answer.status_code == 400
        assert "again" in answer.json()["password"][0]
    changed = admin.patch(f"{BROKERS}rabbit/", {"url": "http://10.6.6.6", "password": "new"}, format="json")
    assert changed.json()["url"] == "http://10.6.6.6"


def test_a_broker_of_the_settings_cannot_be_changed(admin: APIClient) -> None:
    answer = admin.patch(f"{BROKERS}local/", {"paused": True}, format="json")
    assert answer.status_code == 404
    assert "part of the settings" in answer.json()["detail"]


class Adapter:
    """An adapter whose findings depend on the password."""

    accounts: list[Account] = []
    identities: Mapping[str, str] = {}
    refusals: Mapping[str, Exception] = {}
    identity = ""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.accounts.append(account)

    async def connect(self) -> list[Finding]:
        if self.identities:
            if self.account.url not in self.identities:
                raise self.refusals.get(self.account.url) or BrokerUnreachable("this node waits")
            self.identity = self.identities[self.account.url]
        if self.account.password == "swordfish":
            return [Finding("RabbitMQ 3.10.8 answers"), Finding("", "user headgate needs the tag policymaker")]
        if not self.account.password:
            raise KeyError("an answer of another server")
        raise NotAllowed("the user name and password are not accepted")

    async def close(self) -> None: ...


def open_adapter(account: Account, _now: object) -> Adapter:
    return Adapter(account)


@pytest.fixture
def _kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adapter, "identities", {})
    monkeypatch.setattr(Adapter, "refusals", {})
    monkeypatch.setitem(operations.KINDS, "rabbitmq", Kind("RabbitMQ", f"{__name__}:open_adapter", "http://x"))


@pytest.mark.usefixtures("_kind")
def test_a_test_says_what_is_missing_and_saves_nothing(admin: APIClient) -> None:
    given = {"kind": "rabbitmq", "url": "http://10.0.0.7", "password": "swordfish"}
    answer = post(admin, f"{BROKERS}test/", **given).json()
    assert answer == {
        "ok": False,
        "findings": [
            {"text": "RabbitMQ 3.10.8 answers", "fault": ""},
            {"text": "", "fault": "user headgate needs the tag policymaker"},
        ],
    }
    wrong = post(admin, f"{BROKERS}test/", **{**given, "password": "carp"}).json()
    assert wrong["findings"] == [{"text": "", "fault": "the user name and password are not accepted"}]
    strange = post(admin, f"{BROKERS}test/", **{**given, "password": ""}).json()
    assert "does not answer as RabbitMQ does" in strange["findings"][0]["fault"]
    assert not ForeignBroker.objects.exists()
    assert "carp" not in json.dumps(list(AuditEntry.objects.values()), default=str)


@pytest.mark.usefixtures("_kind")
def test_each_of_several_addresses_is_tested(admin: APIClient) -> None:
    def tested(*urls: str) -> Any:
        return post(admin, f"{BROKERS}test/", kind="rabbitmq", url=" ".join(urls), password="swordfish").json()

    node, other, waits = "http://10.0.0.7", "http://10.0.0.8", "http://10.0.0.9"
    policymaker = "user headgate needs the tag policymaker"
    Adapter.identities = {node: "one", other: "one"}
    assert tested(waits, node, other) == {
        "ok": False,
        "findings": [
            {"text": f"{waits} is not in use now: this node waits", "fault": ""},
            {"text": f"{node}: RabbitMQ 3.10.8 answers", "fault": ""},
            {"text": "", "fault": f"{node}: {policymaker}"},
            {"text": f"{other}: RabbitMQ 3.10.8 answers", "fault": ""},
            {"text": "", "fault": f"{other}: {policymaker}"},
        ],
    }
    Adapter.identities = {node: "one", other: "two"}
    assert tested(node, other)["findings"][-1] == {
        "text": "",
        "fault": f"{other} is another broker: it is two, not one as {node}",
    }
    for refusal in (NotAllowed("no password"), NotTrusted("no certificate"), KeyError("no RabbitMQ")):
        Adapter.refusals = {waits: refusal}
        answer = tested(node, waits)
        assert answer["ok"] is False
        assert answer["findings"][-1]["fault"].startswith(waits)
    Adapter.refusals = {}
    assert tested(waits, waits + ":1") == {
        "ok": False,
        "findings": [{"text": "", "fault": f"{url}: this node waits"} for url in (waits, waits + ":1")],
    }


def test_several_addresses_of_a_broker_are_stored_and_each_is_checked(admin: APIClient) -> None:
    both = "http://10.0.0.7:15672 https://10.0.0.8:15671"
    answer = post(admin, **{**GIVEN, "url": "http://10.0.0.7:15672/  https://10.0.0.8:15671/ "})
    assert answer.status_code == 201
    assert answer.json()["url"] == both
    refused = post(admin, **{**GIVEN, "slug": "other", "url": "http://10.0.0.7 http://169.254.169.254"})
    assert "link-local" in str(refused.json()["url"])
    refused = post(admin, **{**GIVEN, "slug": "other", "url": "http://10.0.0.7 amqp://10.0.0.7"})
    assert "http:// or https://" in str(refused.json()["url"])


@pytest.mark.usefixtures("_kind")
def test_a_stored_broker_is_tested_with_its_password(admin: APIClient) -> None:
    post(admin, **GIVEN)
    assert post(admin, f"{BROKERS}rabbit/test/").json()["findings"][0]["text"] == "RabbitMQ 3.10.8 answers"
    assert Adapter.accounts[-1].username == "headgate"
    assert post(admin, f"{BROKERS}rabbit/test/", password="x").json()["ok"] is False
    assert post(admin, f"{BROKERS}nowhere/test/").status_code == 404


def test_a_stop_that_does_not_hold_producers_wants_its_effect_confirmed(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    async def call(_self: Any, _name: Any, _operation: str, arguments: Any) -> dict[str, Any]:
        given.append(dict(arguments))
        if arguments.get("effect") != "reject":
            raise EffectNotConfirmed("Publishers are refused.", "reject")
        return {"queues": 1, "producers": 0, "changed": True, "stops": []}

    monkeypatch.setattr(InMemoryBroker, "call", call)
    until(lambda: link("local").connected)
    for body in ({}, {"effect": "hold"}, {"effect": "cut"}, {"brokers": ["local"]}):
        answer = post(admin, "/api/v1/stop-producers/", scope="type=Broker", reason="inspection", **body)
        assert answer.status_code == 409
        said = answer.json()
        assert (said["detail"], said["effect"]) == ("Publishers are refused.", "reject")
    assert post(admin, "/api/v1/stop-producers/", scope="type=Broker", reason="x", effect="stop").status_code == 400
    answer = post(admin, "/api/v1/stop-producers/", scope="type=Broker", reason="inspection", effect="reject")
    assert answer.status_code == 200
    assert "effect" not in given[0]
    assert given[-1]["effect"] == "reject"
    assert set(AuditEntry.objects.values_list("outcome", flat=True)) == {"refused", "done"}
