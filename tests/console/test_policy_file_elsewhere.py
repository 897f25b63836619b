"""Policy files for a broker of another kind, which has fewer types and fields, shows limits that cannot be set, and has
patterns of its own syntax."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from brokers.adapters.activemq import CAPABILITIES as OF_ACTIVEMQ
from brokers.adapters.adapter import Creator
from brokers.adapters.capabilities import Capability, types_of
from brokers.adapters.observation import Observation
from brokers.adapters.rabbitmq import CAPABILITIES as OF_RABBITMQ
from brokers.admin import BrokerAdmin, InvalidValue, NotFound
from brokers.drivers.capabilities import with_capabilities
from brokers.model import TYPES as DECLARED
from brokers.model import ManagedType, ObjectName, object_name
from brokers.server.management_draft import capabilities
from console.audit.models import AuditEntry
from console.cli import output
from console.links.registry import close_links, link
from console.operations.policies import FIELDS, SCOPES, fields_of
from console.operations.policy_file import read, settable_names
from tests.adapters.fake import Memory, MemoryAdapter
from tests.adapters.process import Process
from tests.console.conftest import QUICK, Broker, signed_in, until

pytestmark = pytest.mark.django_db

FILE = "/api/v1/policies/file/?broker=rabbit"
PATTERN = "^orders\\."
TYPES = types_of(
    {
        "Broker": Capability(("started", "last_event", "journal", "queues")),
        "VirtualHost": Capability(("queues",)),
        "Queue": Capability(("depth_messages", "mechanism"), writable=("capacity_messages", "overflow"),
                            choices={"overflow": ("ring",)}),
        "Policy": Capability((), writable=("priority", "capacity_messages"), creatable=True,
                             descriptions={"pattern": "A regular expression."}),
    }
)  # fmt: skip


class Adapter(MemoryAdapter):
    """Queues that show a mechanism, and patterns that can be created but not deleted."""

    def __init__(self, memory: Memory, now: Any) -> None:
        super().__init__(memory, now)
        self.types = TYPES
        self.patterns: dict[ObjectName, dict[str, Any]] = {}

    @property
    def creator(self) -> Creator:
        return self

    def attributes(self, queue: ObjectName) -> dict[str, Any]:
        return {**super().attributes(queue), "mechanism": "reject"}

    async def read_all(self) -> AsyncIterator[Observation]:
        async for seen in super().read_all():
            yield seen
        yield Observation(self.now(), dict(self.patterns))

    async def read(self, name: ObjectName) -> Observation:
        if name.type == "Policy":
            if name not in self.patterns:
                raise NotFound(f"there is no {name}")
            return Observation(self.now(), {name: self.patterns[name]})
        return await super().read(name)

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], objects: Any) -> None:
        if name["pattern"].startswith("("):
            raise InvalidValue({"pattern": "missing parenthesis"})
        self.patterns[name] = {"priority": 0, **dict(name.keys), **attributes}

    async def update(self, name: ObjectName, attributes: Mapping[str, Any], objects: Any) -> None:
        if name.type == "Policy":
            self.patterns[name] |= attributes
        else:
            await super().update(name, attributes, objects)


@pytest.fixture
def rabbit(broker: Broker, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """A second broker, which the console reaches as `rabbit`, with the queues orders and bills."""
    monkeypatch.setattr("tests.adapters.process.MemoryAdapter", Adapter)
    memory = Memory()
    memory.add("orders", 10)
    memory.add("bills", 20)
    processes: dict[asyncio.AbstractEventLoop, Process] = {}  # commands connect in a loop of their own

    async def connect() -> BrokerAdmin:
        loop = asyncio.get_running_loop()
        if loop not in processes:
            folder = tmp_path / str(len(processes))
            folder.mkdir()
            processes[loop] = Process(folder, memory)
            await processes[loop].clock.pass_(0)
        return processes[loop].broker

    settings.HEADGATE_BROKERS = [
        *settings.HEADGATE_BROKERS,
        {"slug": "rabbit", "title": "Rabbit", "connect": connect, "options": {}, "pace": QUICK},
    ]
    until(lambda: link("rabbit").connected)
    yield memory
    close_links()
    for process in processes.values():
        process.journal.close()


def compared(client: APIClient, text: str, **more: Any) -> Any:
    return client.post(FILE, {"yaml": text, "dry_run": True, **more}, format="json")


def applied(client: APIClient, text: str, **more: Any) -> Any:
    return client.post(FILE, {"yaml": text, **more}, format="json").json()


EXPORTED = """\
version: 1
virtualhosts:
  default:
    queues:
      bills:
        capacity_messages: 20
      orders:
        capacity_messages: 10
"""


@pytest.mark.usefixtures("rabbit")
def test_a_file_has_what_can_be_set_and_comparing_it_finds_nothing(as_operator: APIClient) -> None:
    text = as_operator.get(FILE).json()["yaml"]
    assert text == EXPORTED
    answer = compared(as_operator, text, prune=True).json()
    assert (answer["changes"], answer["problems"], answer["left_alone"]) == ([], {}, [])


def test_a_file_is_applied_and_audited_with_the_broker(rabbit: Memory, as_operator: APIClient) -> None:
    text = EXPORTED.replace("10", "7").replace(
        "    queues:", f"    patterns: {{'{PATTERN}': {{priority: 3}}}}\n    queues:"
    )
    dry = compared(as_operator, text).json()
    assert [(c["action"], c["attributes"], c["was"]) for c in dry["changes"]] == [
        ("create", {"priority": 3}, {}),
        ("update", {"capacity_messages": 7}, {"capacity_messages": 10}),
    ]
    assert dry["problems"] == {}
    answer = applied(as_operator, text, reason="release 42", digest=dry["digest"])
    assert [each["outcome"] for each in answer["applied"]] == ["done", "done"]
    assert rabbit.limits[object_name("Queue", virtualhost="default", name="orders")] == 7
    assert set(AuditEntry.objects.values_list("broker", "reason", "outcome")) == {("rabbit", "release 42", "done")}
    assert applied(as_operator, text)["applied"] == []
    assert as_operator.get(FILE).json()["yaml"].replace("\\", "") == text.replace("\\", "").replace(
        "patterns: {'^orders.': {priority: 3}}", "patterns:\n      ^orders.:\n        priority: 3"
    )


@pytest.mark.usefixtures("rabbit")
@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        ("broker: {capacity_messages: 5}", "broker.capacity_messages",
         "line 2: capacity_messages cannot be set on objects of type Broker of this broker; nothing can be set there"),
        ("virtualhosts: {default: {exchanges: {stocks: {overflow: ring}}}}", "virtualhosts.default.exchanges.stocks",
         "line 2: this broker has no objects of type Exchange"),
        ("virtualhosts: {default: {queues: {orders: {mechanism: reject}}}}",
         "virtualhosts.default.queues.orders.mechanism",
         "line 2: mechanism cannot be set on objects of type Queue of this broker;"
         " expected one of capacity_messages, overflow"),
        ("virtualhosts: {default: {queues: {orders: {overflow: producers}}}}",
         "virtualhosts.default.queues.orders.overflow", "line 2: overflow is 'producers': it must be one of ring"),
        ("virtualhosts: {default: {queues: {orders: {colour: red}}}}", "virtualhosts.default.queues.orders.colour",
         "line 2: colour is not a policy field; expected one of capacity_messages, overflow"),
        ("virtualhosts: {default: {queues: {orders: {priority: 1}}}}", "virtualhosts.default.queues.orders.priority",
         "line 2: priority is not a policy field"),
    ],
)  # fmt: skip
def test_what_the_broker_lacks_is_an_error_with_object_and_line(
    as_operator: APIClient, line: str, place: str, words: str
) -> None:
    for dry_run in (True, False):
        answer = as_operator.post(FILE, {"yaml": f"version: 1\n{line}\n", "dry_run": dry_run}, format="json")
        assert (answer.status_code, list(answer.json())) == (400, [place])
        assert words in answer.json()[place][0]
    assert not AuditEntry.objects.exists()


def test_prune_unsets_what_can_be_set_and_deletes_no_pattern_that_cannot_be(
    rabbit: Memory, as_operator: APIClient
) -> None:
    made = applied(
        as_operator, f"version: 1\nvirtualhosts: {{default: {{patterns: {{'{PATTERN}': {{priority: 3}}}}}}}}"
    )
    assert [each["outcome"] for each in made["applied"]] == ["done"]
    pruned = compared(as_operator, "version: 1", prune=True).json()
    assert [(c["action"], c["attributes"]) for c in pruned["changes"]] == [
        ("update", {"priority": 0}),
        ("update", {"capacity_messages": None}),
        ("update", {"capacity_messages": None}),
    ]


def test_a_refused_pattern_is_reported_and_the_rest_applied(rabbit: Memory, as_operator: APIClient) -> None:
    answer = applied(
        as_operator,
        "version: 1\nvirtualhosts: {default: {patterns: {'(': {}}, queues: {orders: {capacity_messages: 3}}}}",
    )
    assert {each["outcome"] for each in answer["applied"]} == {"refused", "done"}
    assert "missing parenthesis" in next(each["detail"] for each in answer["applied"] if each["outcome"] == "refused")
    assert rabbit.limits[object_name("Queue", virtualhost="default", name="orders")] == 3


@pytest.mark.usefixtures("rabbit")
def test_the_command_does_the_same(tmp_path: Path, operator: User) -> None:
    def command(*arguments: str) -> tuple[str, int]:
        out = io.StringIO()
        try:
            call_command("policies", "--broker", "rabbit", *arguments, stdout=out)
        except SystemExit as ended:
            return out.getvalue(), int(str(ended.code))
        return out.getvalue(), 0

    file = tmp_path / "rabbit.yaml"
    assert command("export", str(file)) == ("", 0)
    assert file.read_text() == EXPORTED
    assert command("diff", str(file)) == ("No differences.\n", 0)
    file.write_text(EXPORTED.replace("10", "7"))
    output, code = command("diff", str(file))
    assert (code, "~ queue default/orders: capacity_messages 10 -> 7" in output) == (1, True)
    assert "cannot preview" in output
    assert "None" not in output
    assert "1 changed, 0 failed." in command("apply", str(file), "--user", operator.username)[0]
    file.write_text("version: 1\nvirtualhosts: {default: {queues: {orders: {mechanism: reject}}}}")
    with pytest.raises(CommandError, match=r"orders\.mechanism: line 2: mechanism cannot be set"):
        command("diff", str(file))


def test_descriptions_and_patterns_of_a_kind_reach_the_console() -> None:
    received = with_capabilities({name: capabilities(declared) for name, declared in TYPES.items()})
    pattern = received["Policy"].attribute("pattern")
    assert pattern
    assert pattern.description == "A regular expression."
    text = f"version: 1\nvirtualhosts: {{default: {{patterns: {{'{PATTERN}>x': {{}}}}}}}}"
    assert read(text, received)
    with pytest.raises(InvalidValue, match="whole words"):
        read(text)


def test_a_viewer_cannot_apply(rabbit: Memory, viewer: User) -> None:
    answer = signed_in(viewer).post(FILE, {"yaml": EXPORTED.replace("10", "7")}, format="json")
    assert answer.status_code == 403
    assert rabbit.limits[object_name("Queue", virtualhost="default", name="orders")] == 10


def test_unknown_numbers_of_an_impact_are_printed_as_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    preview = dict.fromkeys(("queues", "changed", "overfull", "underfull"), 1) | {"blocked": None, "unblocked": None}
    output.changes({"changes": [], "problems": {}, "left_alone": [], "preview": preview})
    printed = capsys.readouterr().out
    assert "an unknown number of producers blocked" in printed
    assert "None" not in printed


@pytest.mark.parametrize("kind", [DECLARED, types_of(OF_RABBITMQ), types_of(OF_ACTIVEMQ), {}])
def test_file_can_set_the_fields_of_the_pages_and_the_priority(kind: Mapping[str, ManagedType]) -> None:
    for type_name in SCOPES:
        offered = {field.name for field in fields_of(kind, type_name)}
        declared = kind[type_name].attributes if type_name in kind else ()
        assert offered == {a.name for a in declared if a.writable and a.name in FIELDS}
        assert {*settable_names(kind, type_name)} - offered == (
            {"priority"} if type_name == "Policy" and type_name in kind else set()
        )
