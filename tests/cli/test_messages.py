"""`headgate messages` and `headgate dead-letters` against a live console whose broker is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from brokers.model import object_name
from console.audit.models import AuditEntry
from console.permissions.rights import Grant, Role
from tests.browser.conftest import Console
from tests.cli.conftest import Terminal, in_thread, ok
from tests.console.conftest import Broker
from tests.console.messages.standin import SECRET_BODY, Messages, WithMessages


@pytest.fixture(autouse=True)
def messages(console: Console, broker: Broker) -> Messages:
    """Three messages in queue a, none in b."""
    made = Messages({"a": [1, 2, 3], "b": []})
    broker.wrap = lambda admin: WithMessages(admin, made)
    broker.lose()  # connect again, with the operations
    broker.come_back()
    for name in ("a", "b"):
        broker.do(
            lambda memory, name=name: memory.management.create(
                object_name("Queue", virtualhost="default", name=name), {}
            )
        )
    return made


@pytest.fixture
def rita(terminal_of: Callable[..., Terminal]) -> Terminal:
    return terminal_of("rita", Grant(Role.MESSAGE_READER))


@pytest.fixture
def paul(terminal_of: Callable[..., Terminal]) -> Terminal:
    return terminal_of("paul", Grant(Role.PUBLISHER))


def test_named_messages_are_moved_after_a_confirmation(olga: Terminal, messages: Messages) -> None:
    refused = olga.run("messages", "move", "a", "b", "1", "3")
    assert (refused.exit_code, messages.queues["a"]) == (2, [1, 2, 3])
    assert "this would move 2 messages (200 bytes) to b: confirm with --yes" in refused.output
    said = ok(olga.run("messages", "move", "a", "b", "1", "3", "--yes", "--reason", "test"))
    assert "2 messages moved, 200 bytes." in said
    assert messages.queues == {"a": [2], "b": [4, 5]}
    assert in_thread(lambda: AuditEntry.objects.latest("id").reason) == "test"


def test_all_messages_are_deleted_by_a_job_whose_end_is_waited_for(olga: Terminal, messages: Messages) -> None:
    messages.acquired = {2}
    job = json.loads(ok(olga.run("messages", "delete", "a", "--all", "--yes", "--json")))
    assert (job["state"], job["messages"], job["skipped"]) == ("done", 2, 1)
    assert messages.queues["a"] == [2]


def test_blocked_target_ends_the_command_with_1(olga: Terminal, messages: Messages) -> None:
    messages.room["b"] = 1
    said = olga.run("messages", "copy", "a", "b", "1", "2", "--yes")
    assert (said.exit_code, messages.copies) == (1, [1])
    assert "Blocked: queue b is overfull" in said.output


@pytest.mark.parametrize("selection", [(), ("1", "--all"), ("--all", "--min-size", "5")], ids=str)
def test_messages_are_selected_in_one_way(olga: Terminal, messages: Messages, selection: tuple[str, ...]) -> None:
    assert olga.run("messages", "delete", "a", *selection, "--yes").exit_code == 2
    assert messages.queues["a"] == [1, 2, 3]


def test_filter_that_finds_nothing_does_nothing(olga: Terminal, messages: Messages) -> None:
    messages.queues["a"] = []
    refused = olga.run("messages", "delete", "a", "--min-size", "5")
    assert (refused.exit_code, "no message to delete" in refused.output) == (4, True)


@pytest.mark.parametrize("wrong", [("--older-than", "soon"), ("--property", "colour")])
def test_wrong_filter_is_refused_by_its_name(olga: Terminal, wrong: tuple[str, str]) -> None:
    refused = olga.run("messages", "list", "a", *wrong)
    assert (refused.exit_code, wrong[0].lstrip("-").replace("-", "_") in refused.output) == (4, True)


@pytest.mark.parametrize(("option", "key"), [("--max-redeliveries", "max_redeliveries"), ("--max-size", "max_bytes")])
def test_filter_of_zero_is_a_filter(olga: Terminal, messages: Messages, option: str, key: str) -> None:
    ok(olga.run("messages", "delete", "a", "--state", "available", option, "0", "--yes"))
    done = [given["match"] for name, given in messages.calls if name == "delete-messages"]
    assert done
    assert all(match == {"state": "available", key: 0} for match in done)


@pytest.mark.parametrize("option", ["--selector", "--property", "--older-than", "--dead-letter-reason", "--source"])
def test_empty_filter_is_refused_by_its_name_and_selects_nothing(
    olga: Terminal, messages: Messages, option: str
) -> None:
    for more in ((), ("--min-size", "0"), ("--all",)):
        refused = olga.run("messages", "delete", "a", option, "", *more, "--yes")
        assert (refused.exit_code, f"{option} is empty" in refused.output) == (2, True)
    assert messages.queues["a"] == [1, 2, 3]


def test_message_reader_shows_and_downloads_a_body_and_others_do_not(
    rita: Terminal, vera: Terminal, olga: Terminal
) -> None:
    said = ok(rita.run("messages", "show", "a", "1"))
    assert "the body" in said
    assert "\x00" not in said
    file = rita.home / "body.bin"
    ok(rita.run("messages", "show", "a", "1", "--output", str(file)))
    assert file.read_bytes() == SECRET_BODY
    for terminal in (vera, olga):
        for more in ((), ("--json",), ("--output", str(terminal.home / "stolen"))):
            refused = terminal.run("messages", "show", "a", "1", *more)
            assert (refused.exit_code, "role of message reader" in refused.output) == (3, True)
            assert "the body" not in refused.output
        stolen = terminal.home / "stolen"
        assert not stolen.exists() or not stolen.read_bytes()


def test_publisher_publishes_and_others_do_not(
    paul: Terminal, vera: Terminal, olga: Terminal, messages: Messages
) -> None:
    for terminal in (vera, olga):
        refused = terminal.run("messages", "publish", "a", "--body", "hello")
        assert (refused.exit_code, "role of publisher" in refused.output) == (3, True)
    assert not [call for call in messages.calls if call[0] == "publish-message"]
    said = ok(paul.run("messages", "publish", "a", "--body", "hello", "--property", "subject=s", "--ttl", "10m"))
    assert "accepted: The queue has the message." in said
    (_, given), *_ = [call for call in messages.calls if call[0] == "publish-message"]
    assert (given["body"], given["body_kind"], given["ttl_ms"]) == ("aGVsbG8=", "text", 600_000)
    assert given["properties"] == {"subject": "s"}
    assert paul.run("messages", "publish", "a").exit_code == 2
    assert paul.run("messages", "delete", "a", "1", "--yes").exit_code == 3


def test_purge_says_what_it_removes(olga: Terminal, broker: Broker) -> None:
    broker.do(lambda memory: memory.fill("a", 5, size=100))
    broker.do(lambda memory: memory.attach_consumer("b"))
    refused = olga.run("messages", "purge", "a")
    assert (refused.exit_code, "this would remove 5 of 5 messages (500 bytes)" in refused.output) == (2, True)
    assert "5 messages removed." in ok(olga.run("messages", "purge", "a", "--yes", "--reason", "test"))


def test_dead_letter_queues_are_listed(vera: Terminal, broker: Broker) -> None:
    assert "No queue is the dead-letter queue" in ok(vera.run("dead-letters"))
    broker.do(
        lambda memory: memory.management.update(
            object_name("Queue", virtualhost="default", name="a"),
            {"dead_letter_queue": "b"},
            memory.management.read(object_name("Queue", virtualhost="default", name="a")).version,
        )
    )
    said = ok(vera.run("dead-letters"))
    assert "default/b" in said
    assert [row["sources"] for row in json.loads(ok(vera.run("dead-letters", "--json")))] == [1]
    groups = json.loads(ok(vera.run("dead-letters", "a", "--json")))
    assert {each["reason"]: each["messages"] for each in groups["groups"]} == {"rejected": 2, "": 2}
    assert groups["complete"] is True
