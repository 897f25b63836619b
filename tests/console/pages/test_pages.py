"""Every page for anonymous users, viewers and operators; the settings for their scripts; error pages."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client, override_settings

from brokers.admin import BrokerAdmin, BrokerUnreachable
from brokers.model import object_name
from console.links.registry import close_links
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.conftest import Broker, until

PAGES = [
    "/",
    "/queues/default/orders/",
    "/policies/",
    "/policies/scope/?object=type%3DBroker",
    "/policies/scope/?new=default",
    "/policies/file/",
    "/policies/bulk/",
    "/why/?object=type=Queue,virtualhost=default,name=orders",
    "/timeline/",
    "/clients/",
    "/clients/connection/?object=type=Connection,virtualhost=default,id=1",
    "/clients/client/?virtualhost=default&user=ann",
    "/objects/",
    "/audit/",
    "/api/",
    "/history/",
    "/history/queues/default/orders/",
    "/history/incident/",
    "/history/what-if/default/orders/",
    "/history/advice/",
]

_ORDERS = "type=Queue,virtualhost=default,name=orders"

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return _client("vic", "viewers")


@pytest.fixture
def operator() -> Client:
    return _client("ada", "operators")


def _client(name: str, group: str) -> Client:
    user = User.objects.create_user(name)
    user.groups.add(Group.objects.get(name=group))
    client = Client()
    client.force_login(user)
    return client


def settings_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script id="page-settings" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found, "the page has no settings for its script"
    settings = json.loads(found[1])
    assert isinstance(settings, dict)
    return settings


@pytest.mark.parametrize("path", PAGES)
def test_anonymous_request_is_redirected_to_sign_in(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login/")


@pytest.mark.parametrize("path", PAGES)
def test_page_has_a_self_only_content_policy_and_no_inline_script(path: str, operator: Client) -> None:
    answer = operator.get(path)
    assert answer.status_code == 200
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"] + ";"
    html = answer.content.decode()
    for tag in re.findall(r"<script\b[^>]*>", html):
        assert "src=" in tag or 'type="application/json"' in tag, tag
    assert not re.search(r"\son[a-z]+=", html), "an inline event handler"


@pytest.mark.parametrize("path", ["/", "/queues/default/orders/", "/policies/", "/policies/scope/?new=default"])
def test_viewer_sees_disabled_actions_with_the_reason(path: str, viewer: Client, operator: Client) -> None:
    html = viewer.get(path).content.decode()
    assert 'aria-disabled="true"' in html
    assert re.search("requires? the role of", html)
    assert settings_of(html)["mayOperate"] is False
    theirs = operator.get(path).content.decode()
    assert 'aria-disabled="true"' not in theirs
    assert settings_of(theirs)["mayOperate"] is True


@pytest.mark.parametrize("object_", ["nonsense", "type=Connection,virtualhost=default,id=1", "type=Queue"])
def test_policy_page_of_an_object_without_policy_is_not_found(object_: str, operator: Client) -> None:
    assert operator.get("/policies/scope/", {"object": object_}).status_code == 404


def test_queue_page_has_the_object_name_of_a_queue_with_special_characters(operator: Client) -> None:
    settings = settings_of(operator.get("/queues/test/a%2Fb,%20%22c%22/").content.decode())
    assert settings["name"] == 'a/b, "c"'
    assert settings["object"] == r'type=Queue,virtualhost=test,name="a/b, \"c\""'


@pytest.mark.parametrize("path", ["/alerts/", "/alerts/rules/new/"])
def test_alert_forms_offer_the_virtual_hosts_that_the_user_sees(broker: Broker, operator: Client, path: str) -> None:
    broker.connected()
    broker.do(lambda memory: memory.management.create(object_name("VirtualHost", name="blue"), {}))
    until(lambda: "blue" in broker.link.hosts)
    restricted = Client()
    restricted.force_login(person("ida", Grant(Role.OPERATOR, "local", "blue")))
    assert settings_of(operator.get(path).content.decode())["hosts"] == {"local": ["blue", "default"]}
    assert settings_of(restricted.get(path).content.decode())["hosts"] == {"local": ["blue"]}


def test_virtual_hosts_of_a_broker_that_was_never_connected_are_not_known(operator: Client) -> None:
    async def unreachable(**options: Any) -> BrokerAdmin:
        raise BrokerUnreachable("disconnected")

    close_links()
    with override_settings(HEADGATE_BROKERS=[{"slug": "away", "title": "Away", "connect": unreachable, "options": {}}]):
        shown = settings_of(operator.get("/alerts/rules/new/").content.decode())
        close_links()
    assert shown["hosts"] == {"away": None}


def test_queue_name_is_escaped(operator: Client) -> None:
    html = operator.get("/queues/default/%3C%2Fscript%3E%3Cb%3Ex/").content.decode()
    assert "<b>x" not in html
    assert settings_of(html)["name"] == "</script><b>x"


def test_queue_page_has_a_figure_for_each_unit_and_for_the_rates(operator: Client) -> None:
    figures = settings_of(operator.get("/queues/default/orders/").content.decode())["figures"]
    assert set(figures) == {"messages", "bytes", "rates"}


def test_live_queue_page_links_to_its_history(operator: Client) -> None:
    assert 'href="/history/queues/default/orders/"' in operator.get("/queues/default/orders/").content.decode()


def test_history_page_of_a_broker_that_is_not_configured(operator: Client) -> None:
    html = operator.get("/history/queues/test/a%2Fb/?broker=old-log").content.decode()
    settings = settings_of(html)
    assert settings["key"] == {"broker": "old-log", "virtualhost": "test", "queue": "a/b"}
    assert settings["broker"] == "local"  # whose live state the frame shows
    assert ">Live</a>" not in html
    assert operator.get("/history/incident/?broker=old-log").status_code == 200


def test_unknown_broker_is_not_found_and_brokers_are_listed(operator: Client) -> None:
    answer = operator.get("/?broker=nowhere")
    assert answer.status_code == 404
    assert "nowhere" in answer.content.decode()
    assert "local" in answer.content.decode()


def page_with_brokers(client: Client, slugs: str, path: str) -> str:
    """Return a page of a console with these brokers, none of which answers."""

    async def unreachable(**options: Any) -> BrokerAdmin:
        raise BrokerUnreachable("disconnected")

    brokers = [{"slug": slug, "title": slug.upper(), "connect": unreachable, "options": {}} for slug in slugs]
    close_links()
    with override_settings(HEADGATE_BROKERS=brokers):
        html = client.get(path).content.decode()
        close_links()
    return html


def test_navigation_preserves_the_selected_broker(operator: Client) -> None:
    html = page_with_brokers(operator, "ab", "/audit/?broker=b")
    assert 'href="/objects/?broker=b"' in html
    assert settings_of(html)["broker"] == "b"


@pytest.mark.parametrize(
    "path", ["/queues/default/orders/", f"/why/?object={_ORDERS}", f"/messages/?object={_ORDERS}", "/conditions/"]
)
def test_page_below_the_overview_is_marked_there_in_the_navigation(path: str, operator: Client) -> None:
    content = operator.get(path).content.decode()
    assert re.findall('<a href="[^"]*" aria-current="page">([^<]*)</a>', content) == ["Overview"]


def test_history_page_offers_the_brokers_before_any_script_has_run(operator: Client) -> None:
    assert "<label hidden>" in operator.get("/history/").content.decode()  # of one broker

    html = page_with_brokers(operator, "ab", "/history/?broker=b")
    assert '<option value="a">a</option><option value="b" selected>b</option>' in html
    assert "<label hidden>" not in html


def test_access_page_says_what_the_first_role_allows_before_any_script_has_run() -> None:
    html = _client("adele", "administrators").get("/access/").content.decode()
    assert 'role="status">Sees queues, events, history' in html


def test_missing_page_has_the_frame_of_the_product(operator: Client) -> None:
    answer = operator.get("/nowhere/")
    assert answer.status_code == 404
    assert "Headgate" in answer.content.decode()


def test_sign_in_form_preserves_the_name_after_a_wrong_password() -> None:
    answer = Client().post("/login/", {"username": "ada", "password": "wrong"})
    html = answer.content.decode()
    assert answer.status_code == 200
    assert 'value="ada"' in html
    assert 'role="alert"' in html


def test_post_to_a_page_is_refused(operator: Client) -> None:
    assert operator.post("/").status_code == 405


RANGE = "from=2026-09-14T10:00:00Z&until=2026-09-14T11:00:00Z"
LINKS_BEFORE_SCRIPTS = [
    (
        f"/history/queues/test/a%2Fb/?broker=local&{RANGE}",
        "what-if",
        f"/history/what-if/test/a%2Fb/?broker=local&{RANGE}",
    ),
    (f"/history/queues/test/b/?{RANGE}", "incident", f"/history/incident/?{RANGE}&virtualhost=test&queue=b"),
    ("/timeline/?queue=b&broker=local", "as-csv", "/api/v1/timeline/download/?queue=b&broker=local&as=csv"),
    ("/queues/test/b/", "why", "/why/?object=type=Queue,virtualhost=test,name=b"),
    ("/queues/test/b/?broker=local", "browse", "/objects/?broker=local&object=type=Queue,virtualhost=test,name=b"),
    ("/why/?object=type=Queue,virtualhost=test,name=b", "queue-page", "/queues/test/b/"),
    ("/policies/scope/?object=type=Queue,virtualhost=test,name=b", "browse", "/queues/test/b/"),
    ("/policies/scope/?object=type=VirtualHost,name=test", "browse", "/objects/?object=type=VirtualHost,name=test"),
]


QUEUE = "type=Queue,virtualhost=test,name=b"
#: Links by their text, on pages that their address gives a broker.
LINKS_OF_THE_BROKER = [
    (f"/why/?object={QUEUE}", "Overview", "/"),
    (f"/why/?object={QUEUE}", "test / b", "/queues/test/b/"),
    (f"/why/?object={QUEUE}", "Queue page", "/queues/test/b/"),
    (f"/policies/scope/?object={QUEUE}", "Policies", "/policies/"),
    (f"/policies/scope/?object={QUEUE}", "Change history", f"/audit/?object={QUEUE}"),
    (f"/policies/scope/?object={QUEUE}", "Open queue", "/queues/test/b/"),
    ("/policies/scope/?object=type=VirtualHost,name=test", "Attributes", "/objects/?object=type=VirtualHost,name=test"),
    ("/policies/file/?", "Policies", "/policies/"),
    ("/policies/bulk/?", "Policies", "/policies/"),
    ("/queues/test/b/?", "Overview", "/"),
    ("/queues/test/b/?", "All fields", f"/policies/scope/?object={QUEUE}"),
    ("/queues/test/b/?", "Timeline", "/timeline/"),
    (f"/messages/?object={QUEUE}", "Queue page", "/queues/test/b/"),
    ("/clients/client/?virtualhost=test&user=ann", "Clients", "/clients/"),
    ("/clients/?", "First steps", "/first-steps/"),
    ("/?", "Timeline", "/timeline/"),
]


@pytest.mark.parametrize(("page", "text", "address"), LINKS_OF_THE_BROKER)
def test_link_has_the_broker_of_the_page_before_any_script_has_run(
    page: str, text: str, address: str, operator: Client
) -> None:
    html = operator.get(f"{page}&broker=local").content.decode().partition("<main")
    within = html[2] if text != "First steps" else html[0]
    found = [unquote(unescape(each)) for each in re.findall(rf'<a [^>]*href="([^"]*)"[^>]*>{text}</a>', within)]
    assert found == [f"{address}{'&' if '?' in address else '?'}broker=local"]


@pytest.mark.parametrize(("page", "link", "address"), LINKS_BEFORE_SCRIPTS)
def test_link_has_its_address_before_any_script_has_run(page: str, link: str, address: str, operator: Client) -> None:
    # A user may be quicker than the scripts: `href="#"` would lose the click.
    html = operator.get(page).content.decode()
    found = re.search(rf'<a [^>]*id="{link}"[^>]*?href="([^"]*)"', html)
    assert found is not None
    assert unquote(unescape(found[1])) == unquote(address)


@pytest.mark.parametrize("path", PAGES)
def test_no_link_of_a_page_leads_nowhere(path: str, operator: Client) -> None:
    assert 'href="#"' not in operator.get(path).content.decode()


def test_why_page_of_a_producer_has_no_link_to_a_queue_that_is_not_known_yet(operator: Client) -> None:
    html = operator.get("/why/?object=type=Producer,virtualhost=default,id=1").content.decode()
    assert '<a id="queue-link" hidden></a>' in html
    assert '<a class="button" id="queue-page" hidden>' in html
