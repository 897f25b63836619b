"""Names with a meaning to browsers, proxies or spreadsheets: existing objects can be opened, and objects with names
that cannot be opened are not created."""

from __future__ import annotations

from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest
from django.urls import resolve, reverse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from brokers.engine.values.names import name_fault
from brokers.model import object_name
from brokers.model.new_names import new_name_fault
from brokers.testing import InMemoryBroker
from console.intake.path_names import escaped, unescaped
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

NOT_CREATED = ["..", ".", "../../etc/passwd", "a/../b", "./a", " ", "a ", " a", "a\nb", "a\u202eb", "x" * 256, "\u200b"]


@pytest.mark.domain("8 every name opens")
@pytest.mark.parametrize("name", NOT_CREATED)
def test_unsafe_name_is_refused(name: str, as_operator: APIClient, broker: Broker) -> None:
    wanted = str(object_name("Queue", virtualhost="default", name=name))
    answer = as_operator.post("/api/v1/brokers/local/objects/", {"object": wanted}, format="json")
    assert answer.status_code == 400
    assert "cannot be the name of a queue" in answer.json()["name"][0]
    assert new_name_fault("queue", name) == name_fault("queue", name) != ""


@pytest.mark.parametrize(
    "name", ["orders", "a..b", "...", "a/b", "/a", "a/", "a//b", "~~x", "größe", "a b", "%2e%2e", "a\\b"]
)
def test_unusual_name_is_created_and_opened(name: str, as_operator: APIClient, broker: Broker) -> None:
    broker.connected()
    wanted = str(object_name("Queue", virtualhost="default", name=name))
    answer = as_operator.post("/api/v1/brokers/local/objects/", {"object": wanted}, format="json")
    assert answer.status_code == 201
    assert as_operator.get(as_browsers_send(reverse("queue", args=("default", name)))).status_code == 200
    assert (
        as_operator.get("/api/v1" + as_browsers_send(reverse("queue", args=("default", name)))).json()["name"] == name
    )


@pytest.mark.domain("8 every name opens")
@pytest.mark.parametrize("name", ["..", ".", "../../etc/passwd", "a/../b", "a/check", "~~~2E", " ", "a\nb", "\u202e"])
def test_existing_queue_with_an_unsafe_name_is_managed_like_any_other(
    name: str, as_operator: APIClient, broker: Broker
) -> None:
    def existing(memory: InMemoryBroker) -> None:
        engine = memory.engine
        engine.add_queue(engine.virtualhost("default"), name, {}, 0)

    broker.connected()
    broker.do(existing)
    page = as_browsers_send(reverse("queue", args=("default", name)))
    shown = as_operator.get(page)
    assert shown.status_code == 200
    assert resolve(unquote(page)).kwargs == {"virtualhost": "default", "name": name}
    call = f"/api/v1{page}"
    read = as_operator.get(call)
    assert read.json()["name"] == name
    for past in ("history-queue", "history-what-if"):
        assert as_operator.get(as_browsers_send(reverse(past, args=("default", name)))).status_code == 200
    wanted = object_name("Queue", virtualhost="default", name=name)
    gone = as_operator.delete(as_browsers_send(f"/api/v1/brokers/local/objects/{quote(str(wanted), safe='')}/"))
    assert gone.status_code == 204


def as_browsers_send(address: str) -> str:
    """Return the path that browsers request for a link: `.` and `..` are resolved, percent-encoded ones too."""
    plain = "/".join({"%2e": ".", "%2e%2e": ".."}.get(part.lower(), part) for part in address.split("/"))
    path = urlsplit(urljoin("http://console.test/", plain)).path
    assert "/../" not in path
    return path


@settings(deadline=None)
@given(st.text(min_size=1), st.text(min_size=1))
@example("/", "..")
@example("~~", "~~~2E~2E")
def test_every_name_survives_its_url(host: str, name: str) -> None:
    assert unescaped(escaped(name)) == name
    if "\0" in host + name:
        return
    found = resolve(unquote(as_browsers_send(reverse("queue", args=(host, name)))))
    assert found.kwargs == {"virtualhost": host, "name": name}
