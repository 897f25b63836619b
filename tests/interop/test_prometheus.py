"""The metrics, the alert rules and the dashboard with Prometheus itself: promtool's checks, unit tests of each rule
(`prometheus/alerts_test.yaml`), and a server that scrapes the console and answers every query of the dashboard."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from rest_framework.test import APIClient

import console.metrics
from brokers.model import object_name
from console.access.actor import Actor
from console.access.administration import create_token
from console.permissions.rights import Grant, Role
from tests.console import conftest as consoles
from tests.console.access.conftest import person
from tests.console.conftest import Broker, until
from tests.interop.peers import SCENARIO_SECONDS, need
from tests.up.running import free_port, wait_until

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)
broker = consoles.broker

HOW = "put `prometheus` and `promtool` on the PATH; on Debian they are in the package prometheus"
SHIPPED = Path(console.metrics.__file__).parent
RULE_TESTS = Path(__file__).parent / "prometheus/alerts_test.yaml"
LIMITS = {"memory_limit": 10_000_000, "store_limit": 10_000_000}
ODD = ['say "hi"', "back\\slash", "\\n", "{", "a=b,c", "ümlaut ☃ \U0001f407", "q'uote", "a$queue", "(a|b)+"]


@pytest.fixture
def secret(broker: Broker) -> str:
    """A viewer's token. The broker has limits, a queue with a blocked producer, and queues of odd names."""
    management = broker.memory.management
    management.update(object_name("Broker"), LIMITS, management.read(object_name("Broker")).version)
    for number, name in enumerate(ODD):
        limit = "capacity_bytes" if number else "capacity_messages"
        management.create(object_name("Queue", virtualhost="default", name=name), {limit: 1_000})
    management.create(
        object_name("Queue", virtualhost="default", name="orders"),
        {"capacity_messages": 10, "flow_resume_messages": "50%"},
    )
    broker.memory.fill("orders", 20)
    broker.connected()
    until(lambda: any(row["blocked_producers"] for row in broker.link.queues()))
    vera = person("vera", Grant(Role.VIEWER))
    return create_token(Actor(vera), "prometheus", [Grant(Role.VIEWER)], days=1)[1]


def promtool(*arguments: str | Path, given: bytes = b"") -> None:
    command = [need("promtool", HOW), *arguments]
    ended = subprocess.run(command, check=False, input=given, capture_output=True, timeout=SCENARIO_SECONDS)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()


# -- promtool -----------------------------------------------------------------------------------------------------


def test_promtool_accepts_the_alert_rules() -> None:
    promtool("check", "rules", SHIPPED / "alerts.yaml")


def test_each_alert_rule_fires_for_what_it_names_and_for_nothing_else() -> None:
    promtool("test", "rules", RULE_TESTS)
    rules = [rule["alert"] for group in _groups(SHIPPED / "alerts.yaml") for rule in group["rules"]]
    cases = [case for test in yaml.safe_load(RULE_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    for rule in rules:
        expected = {bool(case.get("exp_alerts")) for case in cases if case["alertname"] == rule}
        assert expected == {True, False}, f"{rule} needs a case in which it fires, and one in which it does not"


def _groups(file: Path) -> list[Mapping[str, Any]]:
    return list(yaml.safe_load(file.read_text())["groups"])


@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues"])
def test_promtool_accepts_the_metrics(secret: str, path: str) -> None:
    # promtool checks the plain format only; the server below reads OpenMetrics.
    answer = APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}").get(path, HTTP_ACCEPT="text/plain")
    assert answer.content.count(b"\n") > 30
    promtool("check", "metrics", given=answer.content)


# -- the server ---------------------------------------------------------------------------------------------------


@contextmanager
def scraping(folder: Path, console_url: str, secret: str) -> Iterator[str]:
    """Run Prometheus in `folder`, which scrapes the console each second. Yield its URL."""
    (folder / "token").write_text(secret)
    target = {
        "authorization": {"credentials_file": str(folder / "token")},
        "static_configs": [{"targets": [console_url.removeprefix("http://")]}],
    }
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(SHIPPED / "alerts.yaml")],
        "scrape_configs": [
            {"job_name": "headgate", **target},
            {"job_name": "headgate-queues", "metrics_path": "/metrics/queues", **target},
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [
        need("prometheus", HOW),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(30)


class Grafana:
    """Sends the queries of the dashboard as Grafana does: variables first, with all values that the server has."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._board = json.loads((SHIPPED / "grafana.json").read_text())
        self.values: dict[str, list[str]] = {}

    def get(self, path: str, **parameters: str) -> Any:
        answer = requests.get(f"{self._url}/api/v1/{path}", params=parameters, timeout=30)
        assert answer.status_code == 200, (parameters, answer.text)
        return answer.json()["data"]

    def choose(self) -> None:
        """Set each variable to all its values, one by one as a user who ticks them, not to `All`."""
        for variable in self._board["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
                self.values[variable["name"]] = self.get(f"label/{label}/values", **{"match[]": self._filled(selector)})

    def without_data(self) -> list[str]:
        """Return the queries that have no data, with the title of their panel."""
        queries = [(panel["title"], target["expr"]) for panel in self._board["panels"] for target in panel["targets"]]
        return [f"{title}: {query}" for title, query in queries if not self.result(self._filled(query))]

    def result(self, query: str) -> list[Any]:
        return list(self.get("query", query=query)["result"])

    def rules(self) -> list[Mapping[str, Any]]:
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def pending(self) -> set[str]:
        return {rule["name"] for rule in self.rules() if rule["state"] == "pending"}

    def _filled(self, query: str) -> str:
        query = query.replace("$__rate_interval", "4m")
        for name, values in self.values.items():
            chosen = "|".join(re.sub(r"[\\^$.*+?()\[\]{}|]", r"\\\g<0>", value) for value in values)
            query = query.replace(f"${name}", json.dumps(f"({chosen})", ensure_ascii=False)[1:-1])
        return query


def test_a_server_scrapes_the_console_and_answers_each_query_of_the_dashboard(
    tmp_path: Path, broker: Broker, secret: str, live_server: Any
) -> None:
    with scraping(tmp_path, live_server.url, secret) as url:
        grafana = Grafana(url)
        wait_until(lambda: _answers(url), "Prometheus answers", SCENARIO_SECONDS)
        for series in ("headgate_broker_up", 'headgate_queue_depth_messages{queue="orders"}'):
            twice = f"count_over_time({series}[5m]) >= 2"  # a rate needs two values
            wait_until(partial(grafana.result, twice), f"two scrapes of {series}", SCENARIO_SECONDS)

        grafana.choose()
        assert set(grafana.values["queue"]) == {*ODD, "orders"}
        assert grafana.without_data() == []
        blocked = grafana.result('headgate_queue_blocked_producers{queue="orders"}')
        assert [each["value"][1] for each in blocked] == ["1"]
        for target in grafana.get("targets")["activeTargets"]:
            assert (target["health"], target["lastError"]) == ("up", "")

        wait_until(lambda: "HeadgateProducersBlocked" in grafana.pending(), "the blocked producers are noticed")
        assert {rule["health"] for rule in grafana.rules()} == {"ok"}
        broker.lose()
        wait_until(lambda: "HeadgateBrokerDisconnected" in grafana.pending(), "the disconnection is noticed")


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False
