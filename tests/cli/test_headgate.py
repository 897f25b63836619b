"""Every command of `headgate` against a live console: output, effects and exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brokers.engine.values.clients import Client
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName, object_name
from console.audit.models import AuditEntry
from console.cli import names, output, queries
from console.permissions.rights import Grant, Role
from tests.browser.conftest import Console
from tests.cli.conftest import Terminal, in_thread, ok
from tests.console.conftest import Broker, until

LIMITS = "version: 1\nvirtualhosts: {default: {queues: {orders: {capacity_messages: 2}}}}\n"


@pytest.fixture(autouse=True)
def _with_orders(console: Console, broker: Broker) -> None:
    """`orders` is overfull and blocks its producer; `bills` is idle."""

    def act(memory: Any) -> None:
        producer = memory.attach_producer("orders")
        memory.attach_producer("bills")
        memory.publish(producer, 5)

    broker.do(act)
    until(lambda: broker.link.queue_count == 2)


def limited(olga: Terminal, broker: Broker) -> None:
    file = olga.home / "limits.yaml"
    file.write_text(LIMITS)
    ok(olga.run("policies", "apply", str(file), "--yes", "--reason", "test"))
    row = broker.link.queue
    until(lambda: (row(object_name("Queue", virtualhost="default", name="orders")) or {})["state"] == "OVERFULL")


# -- signing in -------------------------------------------------------------------------------------------------------


def test_login_stores_the_token_readable_by_its_owner_only(olga: Terminal) -> None:
    said = ok(olga.run("login", olga.url, typed=f"{olga.token}\n", HEADGATE_TOKEN=""))
    assert "Signed in" in said
    assert "olga" in said
    assert olga.token not in said
    assert olga.mode() == "-rw-------"
    assert "orders" in ok(olga.run("list", HEADGATE_TOKEN="", HEADGATE_URL=""))
    assert "operator: all brokers" in ok(olga.run("whoami", HEADGATE_TOKEN=""))
    assert "Deleted" in ok(olga.run("logout"))
    refused = olga.run("list", HEADGATE_TOKEN="")
    assert (refused.exit_code, "headgate login" in refused.output) == (3, True)


def test_wrong_token_is_refused_and_not_stored(olga: Terminal) -> None:
    refused = olga.run("login", olga.url, typed="headgate_wrong\n", HEADGATE_TOKEN="")
    assert (refused.exit_code, "not known" in refused.output) == (3, True)
    assert not (olga.home / "headgate" / "credentials.json").exists()


def test_stored_token_is_sent_only_to_its_console(olga: Terminal) -> None:
    ok(olga.run("login", olga.url, typed=f"{olga.token}\n", HEADGATE_TOKEN=""))
    refused = olga.run("--url", "http://127.0.0.1:9", "list", HEADGATE_TOKEN="")
    assert (refused.exit_code, "no token for http://127.0.0.1:9" in refused.output) == (3, True)


@pytest.mark.parametrize("url", ["http://console.example.org", "ftp://127.0.0.1", "http://"])
def test_url_that_would_expose_the_token_is_refused(olga: Terminal, url: str) -> None:
    assert olga.run("--url", url, "list").exit_code == 2


def test_unreachable_console_ends_with_5(olga: Terminal) -> None:
    answer = olga.run("--url", "http://127.0.0.1:9", "list")
    assert answer.exit_code == 5
    assert "does not respond" in answer.output
    assert "Traceback" not in answer.output


# -- queries ----------------------------------------------------------------------------------------------------------


def test_list_prints_queues_as_a_table_and_as_json(olga: Terminal) -> None:
    table = ok(olga.run("list"))
    assert table.splitlines()[0].split()[:3] == ["QUEUE", "STATE", "DEPTH"]
    assert "default/orders" in table
    rows = json.loads(ok(olga.run("list", "--json")))
    assert {row["name"] for row in rows} == {"orders", "bills"}
    assert "bills" not in ok(olga.run("list", "ord"))
    assert "No queue matches" in ok(olga.run("list", "--state", "overfull"))
    assert len(json.loads(ok(olga.run("list", "-n", "1", "--json")))) == 1
    wrong = olga.run("list", "--sort", "colour")
    assert (wrong.exit_code, "colour" in wrong.output) == (4, True)


def test_why_shows_the_limit_and_its_origin(olga: Terminal, broker: Broker) -> None:
    assert "No producers of bills are blocked" in ok(olga.run("why", "bills"))
    limited(olga, broker)
    said = ok(olga.run("why", "orders"))
    assert "capacity_messages = 2 from own" in said
    assert json.loads(ok(olga.run("why", "default/orders", "--json")))["blocked"] is True
    gone = olga.run("why", "nothing")
    assert (gone.exit_code, "there is no queue" in gone.output) == (4, True)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ({"resume_ms": 8000, "because": ""}, "resumes in about 8 s"),
        ({"resume_ms": 8000, "because": "it is drained"}, "resumes in about 8 s: it is drained"),
        ({"resume_ms": 0, "because": ""}, "resumes in about 0 s"),
        (
            {"resume_ms": None, "because": "the queue has no consumers"},
            "resume time unknown: the queue has no consumers",
        ),
        ({"resume_ms": None, "because": None}, "resume time unknown"),
    ],
)
def test_why_shows_the_resume_time_without_a_trailing_colon(cause: dict[str, Any], said: str) -> None:
    assert output.resumes(cause) == said


def test_watch_prints_every_event_after_a_number(
    olga: Terminal, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(olga, broker)
    events = [json.loads(line) for line in ok(olga.run("watch", "--after", "0", "-n", "3", "--json")).splitlines()]
    assert [event["number"] for event in events] == [1, 2, 3]
    [line] = ok(olga.run("watch", "--after", "0", "-q", "orders", "-k", "queue-overfull", "-n", "1")).splitlines()
    assert "queue-overfull" in line

    def new(seconds: float) -> None:
        broker.do(lambda memory: memory.attach_producer("late"))

    # Only of this module: other threads sleep, too, and would publish the event before the command starts.
    monkeypatch.setattr(queries, "time", SimpleNamespace(sleep=new))
    later = json.loads(ok(olga.run("watch", "-n", "1", "-k", "queue-created", "--json")))
    assert later["object"] == "type=Queue,virtualhost=default,name=late"


# -- stopping and starting --------------------------------------------------------------------------------------------


def stopped(broker: Broker) -> set[str]:
    return {row["name"] for row in broker.link.queues() if row["state"].endswith("STOPPED")}


@pytest.mark.parametrize(
    ("aim", "names_"),
    [
        (["orders"], {"orders"}),
        (["default/orders", "bills"], {"orders", "bills"}),
        (["--all"], {"orders", "bills"}),
        (["--virtualhost", "default"], {"orders", "bills"}),
        (["--pattern", "nothing.>"], set()),
        (["--pattern", "bills"], {"bills"}),
        (["-v", "default", "-p", "orders"], {"orders"}),
    ],
)
def test_stop_and_start_affect_the_selected_queues(
    olga: Terminal, broker: Broker, aim: list[str], names_: set[str]
) -> None:
    said = ok(olga.run("stop", *aim, "--reason", "test", "--yes"))
    assert f"{len(names_)} queue" in said
    until(lambda: stopped(broker) == names_)
    answer = json.loads(ok(olga.run("start", *aim, "-r", "test", "-y", "--json")))
    assert answer["queues"] == len(names_)
    until(lambda: not stopped(broker))


def test_stop_shows_its_impact_and_asks_for_confirmation(
    olga: Terminal, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = olga.run("stop", "--all", "-r", "test")
    assert (refused.exit_code, "2 producers of 2 queues: confirm with --yes" in refused.output) == (2, True)
    monkeypatch.setattr("console.cli.stops.is_interactive", lambda: True)
    no = olga.run("stop", "--all", "-r", "test", typed="n\n")
    assert (no.exit_code, "2 producers of 2 queues" in no.output) == (1, True)
    assert not stopped(broker)
    ok(olga.run("stop", "--all", "-r", "test", typed="y\n"))
    until(lambda: stopped(broker) == {"orders", "bills"})


def test_stop_and_start_of_several_brokers_name_each_result(olga: Terminal, broker: Broker) -> None:
    said = ok(olga.run("stop", "--all-brokers", "-r", "test", "-y", "--effect", "reject", "--effect", "trickle"))
    assert "Local broker: done: 2 queues, 2 producers" in said
    until(lambda: stopped(broker) == {"orders", "bills"})
    assert "Local broker: nothing to change" in ok(olga.run("stop", "--broker", "local", "-r", "test", "-y"))
    ok(olga.run("start", "--broker", "local", "-r", "test", "-y"))
    until(lambda: not stopped(broker))
    wrong = olga.run("stop", "--tag", "prod", "-r", "test", "-y")
    assert wrong.exit_code != 0
    assert "no broker has the tag prod" in wrong.output
    for mixed in (("--all-brokers", "--tag", "x"), ("--broker", "local", "orders"), ("--all-brokers", "--all")):
        assert olga.run("stop", *mixed, "-r", "test", "-y").exit_code == 2


@pytest.mark.parametrize(
    ("aim", "wanted"),
    [
        (["--user", "ann"], {"ann web", "ann batch"}),
        (["--container", "web"], {"ann web", "bob web"}),
        (["orders", "--user", "ann", "--container", "web"], {"ann web"}),
        (["--virtualhost", "default", "--user", "carl"], set()),
    ],
)
def test_stop_and_start_of_clients(olga: Terminal, broker: Broker, aim: list[str], wanted: set[str]) -> None:
    for user, container in (("ann", "web"), ("ann", "batch"), ("bob", "web")):
        broker.do(
            lambda memory, user=user, container=container: memory.attach_producer(
                "orders", user=user, container_id=container
            )
        )

    def blocked() -> set[str]:
        clients = broker.do(lambda memory: [p.connection.client for p in memory.engine.producers.values() if p.blocked])
        return {" ".join(client.split(" · ")[:2]) for client in clients}

    ok(olga.run("stop", *aim, "--reason", "test", "--yes"))
    assert blocked() == wanted
    assert not stopped(broker)  # the queues stay open to other clients
    ok(olga.run("start", *aim, "--reason", "test", "--yes"))
    assert not blocked()


def test_stop_of_a_link_is_recorded_with_its_client(olga: Terminal, broker: Broker) -> None:
    ok(olga.run("stop", "orders", "--user", "ann", "--link", "out 1", "-r", "test", "-y"))
    scope = Scope("default", "orders", client=Client("ann", link="out 1"))
    assert broker.do(lambda memory: set(memory.engine.stops)) == {scope}
    ok(olga.run("start", "orders", "--user", "ann", "--link", "out 1", "-r", "test", "-y"))
    assert not broker.do(lambda memory: set(memory.engine.stops))


def test_stop_with_an_end_and_staged_start(olga: Terminal, broker: Broker) -> None:
    limited(olga, broker)
    ok(olga.run("stop", "orders", "-r", "test", "-y", "--for", "30m", "--below", "20"))
    stops = olga.run("list", "orders", "--json")
    [stop] = json.loads(ok(stops))[0]["stops"]
    assert stop["below"] == 20
    assert stop["until"] - stop["since"] == 30 * 60_000
    ok(olga.run("start", "orders", "-r", "test", "-y", "--rate", "5", "--step", "20s", "--halt", "90"))
    [stop] = json.loads(ok(olga.run("list", "orders", "--json")))[0]["stops"]
    assert (stop["stage"]["rate"], stop["stage"]["step_ms"], stop["stage"]["halt"]) == (5, 20_000, 90)


@pytest.mark.parametrize(
    "arguments",
    [
        ["stop", "-r", "test", "-y"],
        ["stop", "orders", "--all", "-r", "test", "-y"],
        ["stop", "orders", "--pattern", "a", "-r", "test", "-y"],
        ["stop", "orders", "-y"],
        ["stop", "orders", "-r", "test", "-y", "--for", "soon"],
        ["start", "orders", "-r", "test", "-y", "--halt", "5"],
        ["policies", "apply", "/nowhere.yaml"],
        ["dance"],
    ],
)
def test_invalid_command_line_ends_with_2_and_changes_nothing(
    olga: Terminal, broker: Broker, arguments: list[str]
) -> None:
    assert olga.run(*arguments).exit_code == 2
    assert not stopped(broker)


def test_stop_without_permission_is_refused_and_audited(vera: Terminal, broker: Broker) -> None:
    assert "orders" in ok(vera.run("list"))
    refused = vera.run("stop", "orders", "-r", "test", "-y")
    assert (refused.exit_code, "role of operator" in refused.output) == (3, True)
    assert not stopped(broker)
    row = in_thread(lambda: AuditEntry.objects.filter(operation="stop-producers").get())
    assert (row.user_name, row.source_address, row.outcome) == ("vera", "127.0.0.1, token cli", "refused")


def test_user_of_one_virtual_host_lists_only_its_queues(terminal_of: Callable[..., Terminal]) -> None:
    nora = terminal_of("nora", Grant(Role.VIEWER, "local", "elsewhere"))
    assert "No queue matches" in ok(nora.run("list"))
    assert nora.run("why", "orders").exit_code == 4


# -- policies ---------------------------------------------------------------------------------------------------------


def test_policies_are_exported_compared_and_applied(olga: Terminal, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(LIMITS)
    differs = olga.run("policies", "diff", str(file))
    assert differs.exit_code == 1
    assert "~ default/orders: capacity_messages not set -> 2" in differs.output
    assert "1 become overfull" in differs.output
    assert json.loads(olga.run("policies", "diff", str(file), "--json").output)["changes"][0]["action"] == "update"
    assert olga.run("policies", "apply", str(file)).exit_code == 2  # not interactive: no confirmation
    assert "1 changed, 0 failed." in ok(olga.run("policies", "apply", str(file), "-y", "-r", "release 42"))
    assert "No differences." in ok(olga.run("policies", "diff", str(file)))
    out = tmp_path / "out.yaml"
    ok(olga.run("policies", "export", str(out)))
    assert "capacity_messages: 2" in out.read_text()
    assert ok(olga.run("policies", "export")) == out.read_text()
    file.write_text("version: 1\nbroker: {colour: red}\n")
    wrong = olga.run("policies", "diff", str(file))
    assert (wrong.exit_code, "colour is not a policy field" in wrong.output) == (4, True)
    assert in_thread(lambda: AuditEntry.objects.get(operation="update").reason) == "release 42"


def test_applying_policies_requires_a_policy_editor(vera: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(LIMITS)
    assert vera.run("policies", "diff", str(file)).exit_code == 1
    refused = vera.run("policies", "apply", str(file), "-y")
    assert (refused.exit_code, "role of policy editor" in refused.output) == (3, True)


# -- the shell --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shell", "says"), [("bash", "complete "), ("zsh", "#compdef"), ("fish", "complete ")])
def test_completion_script_of_each_shell(olga: Terminal, shell: str, says: str) -> None:
    script = ok(olga.run("completion", shell))
    assert says in script
    assert "_HEADGATE_COMPLETE" in script


def test_queue_names_are_completed(olga: Terminal) -> None:
    from console.cli.main import cli

    given = {"HEADGATE_URL": olga.url, "HEADGATE_TOKEN": olga.token}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        from click.shell_completion import BashComplete

        complete = BashComplete(cli, {}, "headgate", "_HEADGATE_COMPLETE").get_completions
        assert [item.value for item in complete(["why"], "or")] == ["orders"]
        assert [item.value for item in complete(["stop"], "default/b")] == ["default/bills"]
        assert "list" in [item.value for item in complete([], "l")]
        patch.setenv("HEADGATE_TOKEN", "wrong")
        assert complete(["why"], "or") == []


def test_command_is_installed_and_imports_only_its_package() -> None:
    found = shutil.which("headgate", path=str(Path(sys.executable).parent))
    assert found
    answer = subprocess.run([found, "--help"], capture_output=True, text=True, timeout=30, check=False)
    assert (answer.returncode, "policies" in answer.stdout) == (0, True)
    loaded = subprocess.run(
        [sys.executable, "-c", "import console.cli.main, sys; print(*sorted(sys.modules), sep='\\n')"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    modules = {name for name in loaded.stdout.split() if name.partition(".")[0] in ("brokers", "console", "django")}
    assert {name for name in modules if not name.startswith("console.cli")} == {"console", "console.catalog"}


@pytest.mark.parametrize("text", ["orders", "a/b", 'odd, "name"', " spaced "])
def test_object_names_have_the_format_of_the_api(text: str) -> None:
    typed = names.queue(f"default/{text}")
    assert ObjectName.parse(typed) == object_name("Queue", virtualhost="default", name=text)
    assert names.short_name(typed) == f"default/{text}"


@pytest.mark.parametrize("text", ["orders", "a/b", "/orders"])
def test_names_of_the_virtual_host_of_a_slash_are_read_as_they_are_printed(text: str) -> None:
    name = object_name("Queue", virtualhost="/", name=text)
    assert names.label("/", text) == names.short_name(str(name)) == name.label == f"/{text}"
    assert ObjectName.parse(names.queue(name.label)) == name
    assert names.split_host(f"/{text}") == ("/", text)
