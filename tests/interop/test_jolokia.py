"""jolokia.js against `/jolokia/` of the console: `jolokia/scenarios.js` runs, and reports the results. The requests of
Telegraf's `jolokia2_agent` input are sent as recorded from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import requests
from django.contrib.auth.models import User

from console.access import administration
from console.access.actor import Actor
from console.permissions.rights import Grant, Role
from tests.console import conftest as console
from tests.console.access.conftest import person
from tests.console.conftest import Broker
from tests.interop.peers import Peer, built, need, run

PROJECT = Path(__file__).parent / "jolokia"
HOW = "install Node.js (18 or later) and npm, on Debian `apt-get install nodejs npm`, and be online once"
MAIL = 'headgate:type=Queue,broker=local,virtualhost="default",name="mail/out"'
CANONICAL = 'headgate:broker=local,name="mail/out",type=Queue,virtualhost="default"'

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)
broker = console.broker


@pytest.fixture
def running(broker: Broker) -> Broker:
    broker.memory.attach_producer("mail/out")
    broker.connected()
    return broker


@pytest.fixture
def secret() -> str:
    """The token of a user `olga` who may do everything on this broker that operators do."""
    grants = (Grant(Role.OPERATOR), Grant(Role.POLICY_EDITOR))
    user: User = person("olga", *grants)
    return administration.create_token(Actor(user), "tools", grants, days=1)[1]


@pytest.fixture(scope="session")
def jolokia_js(pytestconfig: pytest.Config) -> Peer:
    """npm fetches the client, once, into pytest's cache."""
    node, npm = need("node", HOW), need("npm", HOW)
    assert pytestconfig.cache is not None
    sources = [PROJECT / "package.json", PROJECT / "scenarios.js"]

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        options = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")
        run("fetching jolokia.js with npm", HOW, npm, "install", *options, cwd=folder)

    folder = built(pytestconfig.cache.mkdir("interop-jolokia"), sources, install)
    return Peer([node, str(folder / "scenarios.js")], lambda port: f"http://127.0.0.1:{port}")


def test_jolokia_js_reads_writes_executes_searches_and_lists(
    jolokia_js: Peer, running: Broker, secret: str, live_server: Any
) -> None:
    command = [*jolokia_js.command, f"{live_server.url}/jolokia", "olga", secret]
    seen = Peer(command, lambda port: "").play("", 0)
    refused = seen.pop("refused")
    assert "reason is required" in refused
    assert seen == {
        "product": "Headgate",
        "producers": 1,
        "several": {"producers": 1, "state": "NORMAL"},
        "written": None,
        "writtenAgain": 5,
        "path": "STOPPED",
        "reason": "incident 7",
        "found": [MAIL],
        "classes": ["attr", "class", "desc", "op"],
        "tree": "headgate.Queue",
        "bulk": [200, 404],
        "pattern": {MAIL: {"depth_messages": 0}},
    }


def test_requests_of_telegraf(running: Broker, secret: str, live_server: Any) -> None:
    """As Telegraf 1.37.2 sent them: all metrics in one POST to `/read`, one attribute as a text, several as a list in
    alphabetical order. It finds an answer's metric by what the answer repeats."""
    body = [
        {
            "type": "read",
            "mbean": "headgate:type=Queue,broker=*,virtualhost=*,name=*",
            "attribute": ["blocked_producers", "depth_bytes", "depth_messages"],
        },
        {"type": "read", "mbean": "headgate:type=Broker,*", "attribute": ["connections", "stops"]},
        {"type": "read", "mbean": MAIL, "attribute": ["depth_messages", "producers"]},
        {"type": "read", "mbean": "headgate:type=Queue,*", "attribute": "producers"},
        {"type": "read", "mbean": "java.lang:type=Memory", "attribute": "HeapMemoryUsage"},
    ]
    headers = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json"}
    url = f"{live_server.url}/jolokia/read"
    answer = requests.post(url, json=body, headers=headers, auth=("olga", secret), timeout=30)
    assert answer.status_code == 200
    found = answer.json()
    assert [each["request"] for each in found] == body
    assert [each["status"] for each in found] == [200, 200, 200, 200, 404]
    assert found[0]["value"] == {CANONICAL: {"blocked_producers": 0, "depth_bytes": 0, "depth_messages": 0}}
    assert found[1]["value"] == {"headgate:broker=local,type=Broker": {"connections": 1, "stops": []}}
    assert found[2]["value"] == {"depth_messages": 0, "producers": 1}
    assert found[3]["value"] == {CANONICAL: {"producers": 1}}
