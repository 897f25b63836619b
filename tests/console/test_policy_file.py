"""Policy files: formatting, parsing, faults with their paths, comparing and applying."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from brokers.admin import InvalidValue
from brokers.model import POLICY, Kind, ObjectName, object_name
from brokers.model.patterns import pattern_fault
from console.audit.models import AuditEntry
from console.operations.policy_file import read, written
from tests.console.conftest import Broker
from tests.console.test_api import post

FILE = "/api/v1/policies/file/"
BROKER = object_name("Broker")
HOST = object_name("VirtualHost", name="default")


def queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


def pattern(text: str) -> ObjectName:
    return object_name("Policy", virtualhost="default", pattern=text)


# -- the file alone -------------------------------------------------------------------------------------------------

EXAMPLE = """\
version: 1
broker:
  flow_resume_messages: 80%
virtualhosts:
  default:
    defaults:
      capacity_messages: 1000
    exchanges:
      stocks:
        overflow: ring
    patterns:
      '>': {}
      orders.>:
        priority: 2
        flow_control: 'off'
    queues:
      '12':
        capacity_bytes: 5
"""


def test_file_is_written_in_a_stable_order_and_reads_back() -> None:
    settings = read(EXAMPLE)
    assert settings[queue("12")] == {"capacity_bytes": 5}
    assert settings[pattern("orders.>")] == {"priority": 2, "flow_control": "off"}
    assert settings[BROKER] == {"flow_resume_messages": "80%"}
    assert written(dict(reversed(settings.items()))) == EXAMPLE


def test_words_with_a_meaning_in_yaml_are_read_as_strings() -> None:
    text = "version: 1\nvirtualhosts:\n  no:\n    queues:\n      null: {flow_control: off, capacity_bytes: ~}\n"
    assert read(text) == {object_name("Queue", virtualhost="no", name="null"): {"flow_control": "off"}}


def value_of(attribute: Any) -> st.SearchStrategy[Any]:
    if attribute.choices:
        return st.sampled_from(attribute.choices)
    numbers: st.SearchStrategy[Any] = st.integers(0, 1 << 62)
    if attribute.kind is Kind.LEVEL:
        return numbers | st.integers(0, 100).map(lambda n: f"{n}%")
    return numbers if attribute.kind is Kind.INTEGER else st.text(characters)


#: No name or value has a NUL: inputs with one are refused.
characters = st.characters(codec="utf-8", exclude_characters="\0")
values = st.fixed_dictionaries({}, optional={a.name: value_of(a) for a in POLICY})
words = st.text(characters, min_size=1, max_size=20).filter(lambda name: not pattern_fault(name))
names = st.one_of(
    st.just(BROKER),
    st.builds(lambda n: object_name("VirtualHost", name=n), words),
    st.builds(lambda v, n: object_name("Queue", virtualhost=v, name=n), words, words),
    st.builds(lambda v, n: object_name("Policy", virtualhost=v, pattern=n), words, words),
)


@example_settings(deadline=None)  # a busy machine exceeds it
@given(st.dictionaries(names, values, max_size=6))
def test_settings_survive_a_round_trip_through_a_file(settings: dict[ObjectName, dict[str, Any]]) -> None:
    text = written(settings)
    expected = {name: given for name, given in settings.items() if given or name.type == "Policy"}
    assert read(text) == expected
    assert written(read(text)) == text
    assert isinstance(yaml.safe_load(text), dict)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "yaml", "empty"),
        ("[1]", "yaml", "map"),
        ("a: [", "yaml", "not YAML"),
        ("\tversion: 1", "yaml", "line 1"),
        ("broker: {}", "version", "missing"),
        ("version: 2", "version", "must be 1"),
        ("version: 1\nbrokers: {}", "brokers", "line 2: unknown key brokers"),
        ("version: 1\nbroker: {colour: red}", "broker.colour", "colour is not a policy field"),
        ("version: 1\nbroker: {priority: 1}", "broker.priority", "not a policy field"),
        ("version: 1\nbroker: {anonymous: true}", "broker.anonymous", "not a policy field"),
        ("version: 1\nbroker: {capacity_bytes: many}", "broker.capacity_bytes", "'many'"),
        ("version: 1\nbroker: {capacity_bytes: [1]}", "broker.capacity_bytes", "single value"),
        ("version: 1\nbroker: {overflow: sea}", "broker.overflow", "one of"),
        ("version: 1\nbroker: 5", "broker", "map"),
        ("version: 1\nbroker: {}\nbroker: {}", "broker", "line 3: duplicate key broker"),
        ("version: 1\nvirtualhosts: {a: {topics: {}}}", "virtualhosts.a.topics", "unknown key topics"),
        ("version: 1\nvirtualhosts: {a: {patterns: {a.>.b: {}}}}", "virtualhosts.a.patterns.a.>.b", "last word"),
        ("version: 1\nvirtualhosts: {a: {queues: {[1]: {}}}}", "virtualhosts.a.queues", "must be a string"),
        ("version: 1\nbroker: !!python/object:os.system {}", "", ""),
    ],
    ids=str,
)
def test_fault_is_reported_with_its_path_and_line(text: str, place: str, words: str) -> None:
    if not place:
        assert read(text) == {BROKER: {}}, "a tag makes no object"
        return
    with pytest.raises(InvalidValue) as caught:
        read(text)
    assert set(caught.value.errors) == {place}
    assert words in caught.value.errors[place]


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(InvalidValue) as caught:
        read("version: 1\nbroker: {colour: red, capacity_bytes: x}\nother: 1")
    assert set(caught.value.errors) == {"broker.colour", "broker.capacity_bytes", "other"}


# -- with a broker ----------------------------------------------------------------------------------------------------


@pytest.fixture
def orders(broker: Broker, db: None) -> Broker:
    broker.memory.management.create(queue("orders"), {"capacity_messages": 100})
    broker.memory.management.create(pattern("old.>"), {"capacity_messages": 3})
    broker.memory.fill("orders", 10)
    broker.connected()
    return broker


WANTED = """\
version: 1
virtualhosts:
  default:
    patterns:
      orders.>: {capacity_messages: 7}
    queues:
      orders: {capacity_messages: 5}
      nowhere: {capacity_messages: 5}
"""


def test_dry_run_returns_the_difference_and_its_impact_and_changes_nothing(
    orders: Broker, as_viewer: APIClient
) -> None:
    answer = post(as_viewer, FILE, yaml=WANTED, dry_run=True).json()
    assert [(c["object"], c["action"], c["attributes"], c["was"]) for c in answer["changes"]] == [
        (str(pattern("orders.>")), "create", {"capacity_messages": 7}, {}),
        (str(queue("orders")), "update", {"capacity_messages": 5}, {"capacity_messages": 100}),
    ]
    assert list(answer["problems"]) == [str(queue("nowhere"))]
    assert answer["left_alone"] == [str(pattern("old.>"))]
    assert (answer["preview"]["overfull"], answer["preview"]["blocked"]) == (1, 1)
    assert not AuditEntry.objects.exists()


def test_apply_reports_and_audits_each_object_and_is_idempotent(orders: Broker, as_operator: APIClient) -> None:
    digest = post(as_operator, FILE, yaml=WANTED, dry_run=True).json()["digest"]
    answer = post(as_operator, FILE, yaml=WANTED, digest=digest, reason="repository").json()
    assert [each["outcome"] for each in answer["applied"]] == ["done", "done"]
    assert {(e.user_name, e.reason, e.outcome) for e in AuditEntry.objects.all()} == {("olga", "repository", "done")}
    again = post(as_operator, FILE, yaml=WANTED).json()
    assert (again["changes"], again["applied"]) == ([], [])
    assert AuditEntry.objects.count() == 2


def test_prune_removes_settings_that_are_not_in_the_file(orders: Broker, as_operator: APIClient) -> None:
    answer = post(as_operator, FILE, yaml="version: 1", prune=True).json()
    assert [(c["object"], c["action"]) for c in answer["changes"]] == [
        (str(pattern("old.>")), "delete"),
        (str(queue("orders")), "update"),
    ]
    assert as_operator.get(FILE).json()["yaml"] == "version: 1\n"


def test_export_applied_to_the_same_broker_changes_nothing(orders: Broker, as_operator: APIClient) -> None:
    text = as_operator.get(FILE).json()["yaml"]
    assert "orders:" in text
    answer = post(as_operator, FILE, yaml=text, prune=True, dry_run=True).json()
    assert (answer["changes"], answer["problems"], answer["left_alone"]) == ([], {}, [])


def test_apply_is_refused_if_policies_changed_since_the_dry_run(orders: Broker, as_operator: APIClient) -> None:
    digest = post(as_operator, FILE, yaml=WANTED, dry_run=True).json()["digest"]
    orders.do(lambda memory: memory.management.update(queue("orders"), {"capacity_messages": 90}, 1))
    answer = post(as_operator, FILE, yaml=WANTED, digest=digest)
    assert (answer.status_code, "since the dry run" in answer.json()["detail"]) == (409, True)
    assert not AuditEntry.objects.exists()


def test_change_that_depends_on_a_later_one_is_applied(orders: Broker, as_operator: APIClient) -> None:
    text = (
        "version: 1\nvirtualhosts: {default: {defaults: {flow_stop_messages: 50}, patterns: {old.>: {}},"
        " queues: {orders: {capacity_messages: 60}, small: {}}}}"
    )
    orders.do(lambda memory: memory.management.create(queue("small"), {"capacity_messages": 20}))
    answer = post(as_operator, FILE, yaml=text).json()
    assert {each["object"]: each["outcome"] for each in answer["applied"]} == {
        str(HOST): "done",
        str(pattern("old.>")): "done",
        str(queue("orders")): "done",
        str(queue("small")): "done",
    }


def test_refused_change_does_not_prevent_the_others(orders: Broker, as_operator: APIClient) -> None:
    text = (
        "version: 1\nvirtualhosts: {default: {queues: {orders: {capacity_messages: 5, flow_stop_messages: 9},"
        " other: {capacity_messages: 4}}}}"
    )
    orders.do(lambda memory: memory.management.create(queue("other"), {}))
    dry = post(as_operator, FILE, yaml=text, dry_run=True).json()
    assert dry["preview"] is None
    assert "flow_stop_messages is 9" in dry["problems"][""]
    answer = post(as_operator, FILE, yaml=text).json()
    outcomes = {each["object"]: (each["outcome"], each["detail"]) for each in answer["applied"]}
    assert outcomes[str(queue("other"))][0] == "done"
    assert outcomes[str(queue("orders"))][0] == "refused"
    assert "flow_stop_messages is 9" in outcomes[str(queue("orders"))][1]


def test_viewer_cannot_apply(orders: Broker, as_viewer: APIClient) -> None:
    assert post(as_viewer, FILE, yaml=WANTED).status_code == 403
    assert orders.do(lambda memory: memory.management.read(queue("orders"))["capacity_messages"]) == 100
    assert AuditEntry.objects.get().outcome == "refused"


def test_faults_of_a_file_are_errors_of_fields(orders: Broker, as_operator: APIClient) -> None:
    answer = post(as_operator, FILE, yaml="version: 1\nbroker: {colour: red}", dry_run=True)
    assert (answer.status_code, list(answer.json())) == (400, ["broker.colour"])
    assert post(as_operator, FILE, yaml="version: 1", prune="yes").status_code == 400


# -- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: str) -> tuple[str, int]:
    out = io.StringIO()
    try:
        call_command("policies", *arguments, stdout=out)
    except SystemExit as ended:
        return out.getvalue(), int(str(ended.code))
    return out.getvalue(), 0


@pytest.mark.usefixtures("orders")
def test_command_exports_compares_and_applies(tmp_path: Path, operator: User) -> None:
    file = tmp_path / "policies.yaml"
    assert command("export", str(file)) == ("", 0)
    assert command("export")[0] == file.read_text()
    assert command("diff", str(file), "--prune") == ("No differences.\n", 0)
    file.write_text(WANTED.replace("      nowhere: {capacity_messages: 5}\n", ""))
    output, code = command("diff", str(file))
    assert code == 1
    assert "+ pattern default/orders.>: capacity_messages 7" in output
    assert "~ queue default/orders: capacity_messages 100 -> 5" in output
    assert "1 become overfull" in output
    assert json.loads(command("diff", str(file), "--json")[0])["preview"]["blocked"] == 1
    output, code = command("apply", str(file), "--user", operator.username, "--reason", "repository")
    assert (code, "2 changed, 0 failed." in output) == (0, True), output
    assert {(e.user_name, e.source_address) for e in AuditEntry.objects.all()} == {("olga", "command line")}
    assert command("apply", str(file), "--user", operator.username) == ("0 changed, 0 failed.\n", 0)


@pytest.mark.usefixtures("orders")
def test_invalid_command_reports_its_error(tmp_path: Path, viewer: User) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("version: 1\nbroker: {colour: red}")
    with pytest.raises(CommandError, match=r"broker\.colour: line 2: colour is not a policy field"):
        command("diff", str(file))
    with pytest.raises(CommandError, match="No such file"):
        command("diff", str(tmp_path / "nothing"))
    file.write_text(WANTED)
    with pytest.raises(CommandError, match="role of policy editor"):
        command("apply", str(file), "--user", viewer.username)
    with pytest.raises(CommandError, match="no user 'zoe'"):
        command("apply", str(file), "--user", "zoe")
    with pytest.raises(CommandError, match="elsewhere"):
        command("--broker", "elsewhere", "export")


@pytest.mark.usefixtures("orders")
def test_command_prints_names_with_escapes(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    name = "evil\x1b[2J\n\u202e"
    file.write_text(yaml.safe_dump({"version": 1, "virtualhosts": {"default": {"queues": {name: {}}}}}))
    said, code = command("diff", str(file))
    assert code == 1
    assert "evil\\u001b[2J\\n\\u202e" in said
    assert "\x1b" not in said
