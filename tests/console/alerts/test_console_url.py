"""The URL of the console for links in notifications: entered by administrators, overridden by HEADGATE_URL."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from rest_framework.test import APIClient

from console.alerts import tasks
from console.alerts.console_url import console_url, parsed_console_url
from console.alerts.models import AllowedNetwork, ConsoleUrl, Delivery, Notification, Receiver
from console.audit.models import AuditEntry, Outcome
from console.live.origin import is_same_origin
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.alerts.receivers import http_receiver
from tests.console.alerts.test_formats import item
from tests.console.alerts.test_transitions import T0
from tests.console.conftest import Broker, signed_in

pytestmark = pytest.mark.django_db

PATH = "/api/v1/alerts/console-url/"
URL = "https://headgate.example.com:8443"


def entries() -> list[tuple[str, str, Any, Any]]:
    rows = AuditEntry.objects.filter(object="console-url").order_by("pk")
    return [(row.operation, row.outcome, row.before, row.after) for row in rows]


def enter(client: APIClient, url: Any) -> Any:
    return client.patch(PATH, {"url": url}, format="json")


def test_entered_url_is_effective_at_once_audited_and_can_be_removed(
    broker: Broker, as_administrator: APIClient
) -> None:
    nothing = {"url": "", "source": "none", "entered": "", "changed": None, "changed_by": ""}
    assert as_administrator.get(PATH).json() == nothing
    answer = enter(as_administrator, f"  {URL.upper()}/ ")
    assert answer.status_code == 200, answer.json()
    assert {name: answer.json()[name] for name in ("url", "source", "entered")} == {
        "url": URL,
        "source": "entered",
        "entered": URL,
    }
    assert answer.json()["changed"]
    assert answer.json()["changed_by"] == AuditEntry.objects.latest("pk").user_name
    assert console_url() == URL
    assert enter(as_administrator, "http://10.1.2.3").status_code == 200
    assert console_url() == "http://10.1.2.3"
    assert as_administrator.delete(PATH).status_code == 204
    assert as_administrator.get(PATH).json() == nothing
    assert console_url() == ""
    assert as_administrator.delete(PATH).status_code == 204
    assert entries() == [
        ("update", Outcome.DONE, {"url": ""}, {"url": URL}),
        ("update", Outcome.DONE, {"url": URL}, {"url": "http://10.1.2.3"}),
        ("delete", Outcome.DONE, {"url": "http://10.1.2.3"}, None),
        ("delete", Outcome.DONE, {"url": ""}, None),
    ]


def test_setting_takes_precedence_and_refuses_another_one(
    broker: Broker, as_administrator: APIClient, settings: Any, django_assert_num_queries: Any
) -> None:
    assert enter(as_administrator, URL).status_code == 200
    settings.HEADGATE_URL = "https://outside.example.com/"
    with django_assert_num_queries(0):
        assert console_url() == "https://outside.example.com/"
    shown = as_administrator.get(PATH).json()
    assert (shown["url"], shown["source"], shown["entered"]) == ("https://outside.example.com/", "environment", URL)
    refused = enter(as_administrator, "https://other.example.com")
    assert refused.status_code == 400
    assert "HEADGATE_URL" in refused.json()["url"][0]
    assert entries()[-1][1] == Outcome.REFUSED
    assert as_administrator.delete(PATH).status_code == 204  # what is entered can be removed all the same
    settings.HEADGATE_URL = ""
    assert console_url() == ""


def test_only_administrators_of_all_brokers_enter_and_remove_it(broker: Broker) -> None:
    ConsoleUrl.objects.create(url=URL, changed_by="adele")
    for user in (
        person("olga", Grant(Role.OPERATOR, "", "")),
        person("pia", Grant(Role.POLICY_EDITOR, "", "")),
        person("ann", Grant(Role.ADMIN, "local", "")),
        person("hal", Grant(Role.ADMIN, "local", "default")),
    ):
        client = signed_in(user)
        assert client.get(PATH).json()["url"] == URL
        assert enter(client, "https://evil.example").status_code == 403
        assert client.delete(PATH).status_code == 403
    assert ConsoleUrl.objects.get().url == URL
    assert {outcome for _, outcome, _, _ in entries()} == {Outcome.REFUSED}
    assert len(entries()) == 8
    assert APIClient().get(PATH).status_code in (401, 403)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://headgate.example.com", "https://headgate.example.com"),
        ("HTTPS://Headgate.Example.Com/", "https://headgate.example.com"),
        ("http://headgate:8000", "http://headgate:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("http://[2001:db8::1]:8000", "http://[2001:db8::1]:8000"),
        ("https://xn--mnchen-3ya.example", "https://xn--mnchen-3ya.example"),
    ],
)
def test_absolute_url_is_stored_without_a_slash(text: str, url: str) -> None:
    assert parsed_console_url(text) == url
    assert parsed_console_url(url) == url


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("headgate.example.com", "must begin with"),
        ("//headgate.example.com", "must begin with"),
        ("ftp://headgate.example.com", "must begin with"),
        ("javascript:alert(1)", "must begin with"),
        ("https:headgate.example.com", "must begin with"),
        ("https:///alerts/", "no valid host"),
        ("https://", "no valid host"),
        ("https://.", "no valid host"),
        ("https://:8000", "no valid host"),
        ("https://a.example:", "no valid host"),
        ("https://a.example:0", "no valid host"),
        ("https://a.example:99999", "not a URL"),
        ("https://a.example:x", "not a URL"),
        ("https://[::1", "not a URL"),
        ("https://a_b.example", "no valid host"),
        ("https://a.example%2f.evil.example", "no valid host"),
        ("https://ada:s3cret@headgate.example.com", "user or password"),
        ("https://@headgate.example.com", "user or password"),
        ("https://headgate.example.com/alerts/", "end after the host"),
        ("https://headgate.example.com?next=1", "end after the host"),
        ("https://headgate.example.com/?", "end after the host"),
        ("https://headgate.example.com#", "end after the host"),
        ("https://head gate.example.com", "no blanks"),
        ("https://a.example\\@evil.example", "no backslashes"),
        ("https://a.example\nBcc: x", "no blanks"),
        ("https://münchen.example", "only ASCII"),
        ("https://a.example\u202e", "only ASCII"),
    ],
)
def test_other_text_is_refused_with_a_reason(
    broker: Broker, as_administrator: APIClient, text: str, fault: str
) -> None:
    answer = enter(as_administrator, text)
    assert answer.status_code == 400
    assert fault in answer.json()["url"][0]
    assert "s3cret" not in answer.content.decode()
    assert not ConsoleUrl.objects.exists()
    assert "s3cret" not in str(AuditEntry.objects.latest("pk").__dict__)


@pytest.mark.parametrize("body", [{}, {"url": ""}, {"url": None}, {"url": 5}, {"url": "x" * 301}, {"address": URL}])
def test_missing_empty_and_overlong_url_is_refused(broker: Broker, as_administrator: APIClient, body: Any) -> None:
    assert as_administrator.patch(PATH, body, format="json").status_code == 400
    assert not ConsoleUrl.objects.exists()


def test_there_is_one_row(broker: Broker) -> None:
    ConsoleUrl.objects.create(url=URL)
    with pytest.raises(IntegrityError), transaction.atomic():
        ConsoleUrl.objects.create(id=2, url=URL)


def test_each_delivery_links_to_the_url_of_its_time_without_a_restart(
    broker: Broker, as_administrator: APIClient
) -> None:
    AllowedNetwork.objects.create(network="127.0.0.0/8", added_by="adele")
    with http_receiver() as hook:
        receiver = Receiver.objects.create(kind="webhook", name="hook", url=hook.url, secret="s")

        def link() -> str:
            made = Notification.objects.create(at=T0, rule_name="r", broker="local", phase="firing", items=[item()])
            tasks.deliver(Delivery.objects.create(notification=made, receiver=receiver, due=T0).pk)
            return str(hook.bodies[-1]["items"][0]["url"])

        assert link() == ""
        enter(as_administrator, URL)
        assert link().startswith(f"{URL}/why/?object=type%3DQueue")
        enter(as_administrator, "http://headgate:8000")
        assert link().startswith("http://headgate:8000/why/")
        as_administrator.delete(PATH)
        assert link() == ""


def test_entered_url_is_no_trusted_origin_and_handshakes_read_no_database(
    broker: Broker, as_administrator: APIClient, settings: Any, django_assert_num_queries: Any
) -> None:
    headers = {b"host": "127.0.0.1:8000", b"origin": URL}
    enter(as_administrator, URL)
    with django_assert_num_queries(0):
        assert not is_same_origin(headers, "ws")
    settings.HEADGATE_URL = URL
    assert is_same_origin(headers, "ws")
