"""/metrics and /metrics/queues: who reads them, what is there, and what is not."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User
from prometheus_client import parser as plain_parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from rest_framework.test import APIClient

import console.api.metrics
from brokers.model import object_name
from console.access.actor import Actor
from console.access.administration import create_token
from console.metrics.exposition import QueueMetrics, encoded
from console.metrics.families import ANSWERED, BROKER, QUEUE, UP, totals
from console.permissions.rights import Grant, Role
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
#: As Prometheus 3 sends it.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.2"
)
Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture(autouse=True)
def _with_orders(broker: Broker) -> None:
    management = broker.memory.management
    management.create(
        object_name("Queue", virtualhost="default", name="orders"),
        {"capacity_messages": 10, "flow_resume_messages": "50%"},
    )
    broker.memory.fill("orders", 20)
    management.create(object_name("Queue", virtualhost="default", name="mail.eu"), {})
    management.create(object_name("VirtualHost", name="other"), {})
    management.create(object_name("Queue", virtualhost="other", name="secret"), {})
    broker.connected()


def samples(answer: Any, labels: tuple[str, ...]) -> Samples:
    """Return the value of each series; the official parser refuses what is not OpenMetrics, and repeated series."""
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    found: Samples = {}
    for family in openmetrics_parser.text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            assert set(sample.labels) == set(labels)
            key = sample.name, tuple(sample.labels[label] for label in labels)
            assert key not in found
            found[key] = sample.value
    return found


def brokers(client: APIClient) -> Samples:
    return samples(client.get("/metrics", HTTP_ACCEPT=PROMETHEUS), ("broker",))


def queues(client: APIClient, query: str = "") -> Samples:
    answer = client.get(f"/metrics/queues{query}", HTTP_ACCEPT=OPENMETRICS)
    return samples(answer, ("broker", "virtualhost", "queue"))


# -- access ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues"])
def test_metrics_are_closed_by_default(path: str) -> None:
    answer = APIClient().get(path)
    assert answer.status_code == 401
    assert "Bearer" in answer["WWW-Authenticate"]
    assert b"headgate_" not in answer.content
    assert APIClient().get(path, REMOTE_ADDR="127.0.0.1", HTTP_AUTHORIZATION="Bearer nonsense").status_code == 401


def test_user_without_a_role_is_refused(db: None) -> None:
    client = APIClient()
    client.force_login(User.objects.create_user("nora"))
    assert client.get("/metrics").status_code == 403


def test_token_reads_what_it_may_see() -> None:
    boss = User.objects.create_superuser("boss")
    _, secret = create_token(Actor(boss), "scrape", [Grant(Role.VIEWER, "local", "other")], days=1)
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
    names = {labels[1:] for _, labels in queues(client)}
    assert names == {("other", "secret")}
    found = brokers(client)
    assert found["headgate_broker_queues", ("local",)] == 1
    assert found["headgate_broker_depth_messages", ("local",)] == 0
    assert found["headgate_broker_overfull_queues", ("local",)] == 0
    _, elsewhere = create_token(Actor(boss), "elsewhere", [Grant(Role.VIEWER, "paris")], days=1)
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {elsewhere}")
    assert brokers(client) == {}
    assert queues(client) == {}
    assert client.get("/metrics/queues?broker=local").status_code == 404


def test_allowed_networks_need_no_token(settings: Any) -> None:
    settings.HEADGATE_METRICS_NETWORKS = [ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00::/8")]
    for address, status in (
        ("10.1.2.3", 200),
        ("::ffff:10.1.2.3", 200),
        ("fd00::1", 200),
        ("10.2.0.1", 401),
        ("127.0.0.1", 401),
        ("", 401),
        ("nonsense", 401),
    ):
        assert APIClient().get("/metrics", REMOTE_ADDR=address).status_code == status, address
    # A claimed address does not count, wrong credentials are refused, and nothing else becomes readable.
    assert APIClient().get("/metrics", REMOTE_ADDR="9.9.9.9", HTTP_X_FORWARDED_FOR="10.1.2.3").status_code == 401
    allowed = APIClient(REMOTE_ADDR="10.1.2.3")
    assert allowed.get("/metrics", HTTP_AUTHORIZATION="Bearer nonsense").status_code == 401
    assert allowed.get("/api/v1/queues/").status_code == 401
    assert allowed.post("/metrics").status_code in (401, 405)
    assert ("headgate_queue_depth_messages", ("local", "other", "secret")) in queues(allowed)


# -- content --------------------------------------------------------------------------------------------------------


def test_broker_has_its_totals_and_no_queue(as_viewer: APIClient, broker: Broker) -> None:
    until(lambda: brokers(as_viewer).get(("headgate_broker_blocked_producers", ("local",))) == 1)
    found = brokers(as_viewer)
    for name, value in {"up": 1, "queues": 3, "overfull_queues": 1, "stopped_queues": 0, "producers": 1}.items():
        assert found[f"headgate_broker_{name}", ("local",)] == value, name
    assert found["headgate_broker_depth_messages", ("local",)] > 10
    assert found["headgate_broker_snapshot_timestamp_seconds", ("local",)] > 0


def test_queue_has_depth_limits_and_flags(as_viewer: APIClient, broker: Broker) -> None:
    def of(name: str, queue: str = "orders") -> float | None:
        return queues(as_viewer).get((f"headgate_queue_{name}", ("local", "default", queue)))

    until(lambda: of("blocked_producers") == 1)
    assert of("capacity_messages") == of("stop_messages") == 10
    assert of("resume_messages") == 5
    assert of("overfull") == of("overfull_episodes_total") == 1
    assert of("stopped") == 0
    assert (of("enqueued_messages_total") or 0) >= (of("depth_messages") or 0) > 10
    assert of("overfull_seconds_total") is not None
    # No limit: no series, since 0 would make every ratio infinite.
    for absent in ("capacity_messages", "stop_messages", "resume_messages", "capacity_bytes"):
        assert of(absent, "mail.eu") is None, absent
    assert of("depth_messages", "mail.eu") == 0


def test_disconnected_broker_is_down_and_has_no_stale_values(as_viewer: APIClient, broker: Broker) -> None:
    assert len(brokers(as_viewer)) > 5
    broker.lose()
    assert brokers(as_viewer) == {("headgate_broker_up", ("local",)): 0}
    assert queues(as_viewer) == {}
    broker.come_back()
    assert brokers(as_viewer)["headgate_broker_up", ("local",)] == 1


def test_unknown_values_have_no_series() -> None:
    row = {"virtualhost": "v", "name": "q"}
    for unknown in ({}, dict.fromkeys(("depth_messages", "effective_capacity_bytes", "overfull_ms", "state"))):
        assert all(family.value({**row, **unknown}) is None for family in QUEUE)
    found = totals({"connections": None}, [{"depth_messages": 4, "state": "NORMAL"}, {"depth_messages": None}])
    values = {family.name: family.value(found) for family in BROKER}
    assert values["headgate_broker_queues"] == 2
    assert [name for name, value in values.items() if value is not None] == ["headgate_broker_queues"]


def test_names_follow_the_conventions_of_prometheus() -> None:
    for family in (*BROKER, *QUEUE):
        assert family.name.startswith("headgate_")
        assert family.help.endswith(".")
        assert "_ms" not in family.name
    assert len({family.name for family in (*BROKER, *QUEUE)}) == len(BROKER) + len(QUEUE)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?queue=mail.*", {"mail.eu"}),
        ("?queue=mail.%23", {"mail.eu"}),
        ("?virtualhost=other", {"secret"}),
        ("?virtualhost=other&virtualhost=default&queue=*", {"secret", "orders"}),
        ("?state=OVERFULL", {"orders"}),
        ("?broker=local&queue=nothing", set()),
    ],
)
def test_queues_are_selected(as_viewer: APIClient, query: str, names: set[str]) -> None:
    assert {labels[2] for _, labels in queues(as_viewer, query)} == names


def test_too_many_queues_are_refused(as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.api.metrics, "MAX_QUEUES", 2)
    answer = as_viewer.get("/metrics/queues", HTTP_ACCEPT=OPENMETRICS)
    assert answer.status_code == 400
    assert "3 queues match, and at most 2 are allowed" in answer.json()["queue"][0]
    assert len({labels for _, labels in queues(as_viewer, "?virtualhost=default")}) == 2


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?queue=a..b", "queue"),
        (f"?queue={'*.' * 500}x", "queue"),
        (f"?queue={'a' * 256}", "queue"),
        ("?queue=%23.a", "queue"),
        ("?state=FULL", "state"),
        ("?host=default", "host"),
        ("?queue=a&queue=b", "queue"),
        ("?queue=a%00b", "queue"),
        (f"?virtualhost={'x' * 5000}", "virtualhost"),
    ],
)
def test_faults_name_the_parameter(as_viewer: APIClient, query: str, field: str) -> None:
    answer = as_viewer.get(f"/metrics/queues{query}", HTTP_ACCEPT=PROMETHEUS)
    assert answer.status_code == 400
    assert list(answer.json()) == [field]


# -- formats --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "text/plain", "text/html", "application/json", "\0", "é" * 3000, "," * 9000, "text/plain; version=x.y"],
)
def test_plain_text_unless_openmetrics_is_accepted(as_viewer: APIClient, accept: str) -> None:
    answer = as_viewer.get("/metrics", HTTP_ACCEPT=accept)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer["Cache-Control"] == "no-store"
    assert len(list(plain_parser.text_string_to_metric_families(answer.content.decode()))) > 5


@pytest.mark.parametrize("version", ["x.y", "99.0.0", "-1", '"', "1.0.0; escaping=\\"])
def test_version_of_the_request_is_not_repeated(as_viewer: APIClient, version: str) -> None:
    answer = as_viewer.get("/metrics", HTTP_ACCEPT=f"application/openmetrics-text; version={version}")
    assert samples(answer, ("broker",))["headgate_broker_up", ("local",)] == 1


HOSTILE = [
    'say "hi"',
    "a\nheadgate_broker_up 5",
    "back\\slash",
    "\\n",
    '"} 5\n# EOF\n',
    "ümlaut ☃ \U0001f407",
    "\r",
    "{",
    "x" * 5000,
]


@pytest.mark.parametrize("accept", [OPENMETRICS, ""])
@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leaves_its_label(name: str, accept: str) -> None:
    row = {"virtualhost": name, "name": name, "depth_messages": 7, "state": "OVERFULL_STOPPED"}
    content, _ = encoded(QueueMetrics([(name, row)]), accept)
    parse = openmetrics_parser if accept else plain_parser
    found = [s for family in parse.text_string_to_metric_families(content.decode()) for s in family.samples]
    assert {s.name: s.value for s in found} == {
        "headgate_queue_depth_messages": 7,
        "headgate_queue_overfull": 1,
        "headgate_queue_stopped": 1,
    }
    assert all(s.labels == {"broker": name, "virtualhost": name, "queue": name} for s in found)


# -- dashboard and alert rules --------------------------------------------------------------------------------------

FOLDER = Path(console.api.metrics.__file__).parents[1] / "metrics"


@pytest.mark.parametrize("name", ["alerts.yaml", "grafana.json"])
def test_dashboard_and_alert_rules_name_metrics_that_exist(name: str) -> None:
    known = {family.name for family in (UP, ANSWERED, *BROKER, *QUEUE)}
    named = set(re.findall(r"\bheadgate_\w+", (FOLDER / name).read_text()))
    assert len(named) > 8
    assert named - known == set()


def test_alert_rules_are_complete() -> None:
    rules = [
        rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
    ]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 9
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]


def test_dashboard_selects_by_its_variables() -> None:
    board = json.loads((FOLDER / "grafana.json").read_text())
    variables = {each["name"] for each in board["templating"]["list"]}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) >= 12
    for panel in board["panels"]:
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"]))
            # Else Grafana derives the interval from its own default, and a scrape each minute yields no rates.
            assert ("__rate_interval" in used) == (target.get("interval") == "1m")
            assert "broker" in used
            assert used - {"__rate_interval"} <= variables
