"""No text of others controls the terminal: hostile names, texts and errors in the answers to every command."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from console.cli import broker_files, brokers, group, messages, policies, stops, terminal
from console.cli.client import Client
from console.cli.main import cli
from console.cli.problems import REFUSED, Problem

FOLDER = Path(terminal.__file__).parent
#: Clears the screen, sets the title of the window, ends the line, changes the direction, and CSI as one character.
CONTROLS = "\x1b[2J\x1b]0;title\x07\r\nforged line\u202e\u2066\x9b2J\x7f"
H = f"evil{CONTROLS}"
BODY = H.replace("\r\n", "\n ")
OBJECT = f'type=Queue,virtualhost="{H}",name="{H}"'
NOW = 1_700_000_000_000

ROW = {
    "virtualhost": H, "name": H, "state": "OVERFULL", "depth_messages": 1, "depth_bytes": 1, "producers": 1,
    "effective_capacity_messages": 1, "blocked_producers": 1, "consumers": 0, "rate_in": 1.0, "rate_out": 1.0,
    "oldest_message_at": NOW, "sources": 1, "object": OBJECT, "unacknowledged_messages": 0,
}  # fmt: skip
WHY = {
    "summary": H,
    "notes": [H],
    "causes": [
        {
            "title": H, "since": NOW, "reason": H, "actor": H, "resume_ms": 1, "because": H,
            "limits": [{"unit": H, "depth": 1, "stop": 1, "resume": 1, "resumes_below": True,
                        "fields": [{"field": H, "value": H, "origin": H}]}],
        }
    ],
    "consumers_total": 1,
    "consumers": [{"object": OBJECT, "doing": H}],
    "producers_total": 1,
    "producers": [{"client": H, "object": OBJECT, "state": H}],
}  # fmt: skip
AFFECTED = {
    "queues": 1, "producers": 1, "cannot": H, "remark": H, "effect": "reject", "largest": [ROW], "changed": True,
    "stopped": 1, "draining": 0, "unstoppable": 0,
    "brokers": [
        {"title": H, "error": "", "cannot": "", "effect": H, "remark": H, "queues": 1, "producers": 1,
         "outcome": "done", "changed": True},
        {"title": H, "error": H, "cannot": "", "effect": "", "remark": "", "queues": 1, "producers": 1,
         "outcome": "refused", "changed": False},
        {"title": H, "error": "", "cannot": H, "effect": "", "remark": "", "queues": 1, "producers": 1,
         "outcome": "unknown", "changed": False},
    ],
}  # fmt: skip
MESSAGE = {
    "id": H, "state": H, "position": 1, "at": NOW, "size": 1, "redeliveries": 1, "consumer": H,
    "properties": {"subject": H, H: H}, "dead_letter": {"queue": OBJECT, "reason": H},
    "application_properties": {H: H}, "annotations": {H: H},
}  # fmt: skip
ACT = {
    "messages": 1, "bytes": 1, "skipped": [{"id": H, "why": H}], "skipped_messages": 1, "complete": True,
    "blocked": H, "error": H, "id": 7,
}  # fmt: skip
POLICIES = {
    "changes": [
        {"object": OBJECT, "action": "update", "attributes": {H: H}, "was": {H: H}},
        {"object": OBJECT, "action": "create", "attributes": {H: H}, "was": {}},
    ],
    "problems": {H: H},
    "left_alone": [OBJECT],
    "preview": None,
    "digest": "1",
    "yaml": "version: 1\n",
    "applied": [{"object": OBJECT, "action": "update", "outcome": "refused", "detail": H}],
}
BROKERS = {
    "changes": [{"slug": H, "action": "update", "attributes": {H: H}, "was": {H: H}}],
    "problems": {H: H},
    "left_alone": [H],
    "passwords": [],
    "digest": "1",
    "yaml": "version: 1\n",
    "applied": [{"slug": H, "action": "update", "outcome": "refused", "detail": H}],
}
BROKER = {
    "slug": H, "kind": H, "url": H, "tags": [H], "title": H, "paused": False, "connected": False, "error": H
}  # fmt: skip
FOUND = {"ok": False, "findings": [{"text": H, "fault": ""}, {"text": "", "fault": H}]}
ME = {
    "user": H,
    "token": {"name": H, "expires": H},
    "grants": [{"role": H, "broker": H, "virtualhost": H}],
}
EVENT = {"number": 2, "at": NOW, "kind": H, "text": H, "object": OBJECT, "attributes": {}}
EVENTS = {"newest": 2, "last": 2, "expired_before": None, "events": [EVENT]}

#: Answer by the beginning of the path; the first one applies.
ANSWERS: list[tuple[str, Any]] = [
    ("queues/", {"count": 1, "results": [ROW]}),
    ("why/", WHY),
    ("events/", EVENTS),
    ("stop-producers/", AFFECTED),
    ("start-producers/", AFFECTED),
    ("messages/summary/", {"groups": [{"reason": H, "queue": H, "messages": 1, "bytes": 1, "oldest_at": NOW}],
                           "complete": False, "searched": 1}),
    ("messages/publish/", {"outcome": "refused", "sentence": H}),
    ("messages/m1/", {"message": MESSAGE, "body_kind": H, "body_bytes": 9, "body_text": BODY, "cut": True, "body": ""}),
    ("messages/move/", ACT),
    ("messages/copy/", ACT),
    ("messages/retry/", ACT),
    ("messages/delete/", ACT),
    ("messages/", {"results": [MESSAGE], "next": None, "match": {}}),
    ("dead-letters/", {"results": [ROW]}),
    ("policies/file/", POLICIES),
    ("brokers/file/", BROKERS),
    ("brokers/local/objects/", {"attributes": ROW, "messages": 1}),
    ("brokers/test/", FOUND),
    ("brokers/rabbit/test/", FOUND),
    ("brokers/rabbit/", BROKER),
    ("me/", ME),
]  # fmt: skip

#: Arguments of each command.
COMMANDS: dict[str, list[str]] = {
    "list": [],
    "why": ["orders"],
    "watch": ["--after", "1", "-n", "1"],
    "stop": ["--all", "--reason", H],
    "start": ["--all", "--reason", H],
    "messages list": ["orders"],
    "messages show": ["orders", "m1"],
    "messages move": ["orders", H, "--all"],
    "messages copy": ["orders", H, "--all"],
    "messages retry": ["orders", "--all"],
    "messages delete": ["orders", "--all"],
    "messages purge": ["orders"],
    "messages publish": ["orders", "--body", "x"],
    "dead-letters": [],
    "policies export": [],
    "policies diff": ["-"],
    "policies apply": ["-"],
    "brokers list": [],
    "brokers add": ["rabbit", "--kind", "rabbitmq", "--url", "https://rabbit"],
    "brokers test": ["rabbit"],
    "brokers edit": ["rabbit", "--title", "x"],
    "brokers pause": ["rabbit"],
    "brokers resume": ["rabbit"],
    "brokers remove": ["rabbit"],
    "brokers export": [],
    "brokers diff": ["-"],
    "brokers apply": ["-"],
    "login": [],
    "logout": [],
    "whoami": [],
    "completion": ["bash"],
}
#: These take no JSON, or print none.
WITHOUT_JSON = {"policies export", "brokers export", "brokers remove", "login", "logout", "completion"}
#: These print nothing of others.
WITHOUT_TEXTS = {"policies export", "brokers export", "brokers remove", "messages purge", "logout", "completion"}


def every_command(of: click.Group = cli, before: str = "") -> Iterator[str]:
    for name, command in of.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer every request with hostile texts, and confirm every question; returns the paths."""
    paths: list[str] = []

    def request(client: Client, method: str, path: str, query: Mapping[str, Any], body: Any) -> Any:
        paths.append(path)
        if path == "brokers/":
            return [{**BROKER, "slug": "local"}] if method == "GET" else BROKER
        if body and body.get("preview") and path.startswith("messages/"):
            return {**ACT, "blocked": H}
        return next(answer for beginning, answer in ANSWERS if path.startswith(beginning))

    monkeypatch.setattr(Client, "_request", request)
    return paths


@pytest.fixture(autouse=True)
def interactive(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (group, stops, messages, policies, brokers, broker_files):
        monkeypatch.setattr(module, "is_interactive", lambda: True)


def run(name: str, *more: str, typed: str = "y\n" * 5) -> Result:
    env = {"HEADGATE_URL": "http://127.0.0.1:1", "HEADGATE_TOKEN": "headgate_x", "XDG_CONFIG_HOME": "/nonexistent"}
    text = "version: 1\n" if name.endswith("diff") else typed
    return CliRunner(env=env).invoke(cli, [*name.split(), *COMMANDS[name], *more], input=text, prog_name="headgate")


def check(output: str) -> None:
    wrong = {character for character in output if not (character.isprintable() or character == "\n")}
    assert not wrong, output
    assert not [line for line in output.splitlines() if line.startswith("forged")], output


def test_every_command_has_a_hostile_answer_here() -> None:
    assert set(every_command()) == COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_hostile_texts_are_printed_as_escapes(
    name: str, requested: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.cli.credentials.store", lambda credentials: tmp_path / H)
    if name.endswith("apply"):
        file = tmp_path / "file.yaml"
        file.write_text("version: 1\n")
        monkeypatch.setitem(COMMANDS, name, [str(file)])
    result = run(name)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1, 5), result.output
    check(result.output)
    if name not in WITHOUT_TEXTS:
        assert "\\u001b[2J" in result.output, result.output
    assert requested or name in ("logout", "completion")


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_JSON))
def test_hostile_texts_are_escapes_in_json(name: str, requested: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    more = ["--yes"] if name in ("stop", "start", "brokers add") or name.startswith("messages ") else []
    if name in ("messages list", "messages show", "messages publish"):
        more = []
    if name.endswith("apply"):
        monkeypatch.setitem(COMMANDS, name, [__file__, "--yes"])
    result = run(name, "--json", *more)
    check(result.output)
    start = min(found for found in (result.stdout.find("{"), result.stdout.find("[")) if found >= 0)
    text = result.stdout[start:]
    assert CONTROLS in repr_of(json.loads(text.partition("\nError")[0])), text


def repr_of(value: Any) -> str:
    """Return all texts of a JSON value."""
    if isinstance(value, dict):
        return "".join(f"{key}{repr_of(each)}" for key, each in value.items())
    return "".join(map(repr_of, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"logout", "completion"}))
def test_hostile_errors_are_printed_as_escapes(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(*_: Any) -> Any:
        raise Problem(f"refused: {H}", REFUSED)

    monkeypatch.setattr(Client, "_request", refused)
    monkeypatch.setattr(Client, "_sent", refused)
    if name.endswith("apply"):
        monkeypatch.setitem(COMMANDS, name, [__file__])
    result = run(name)
    assert result.exit_code == REFUSED
    check(result.output)
    assert "Error: refused: evil\\u001b[2J" in result.output


def test_a_wrong_usage_with_a_hostile_name_is_printed_as_escapes(requested: list[str]) -> None:
    result = run("messages move", "--state", H)
    assert result.exit_code == 2
    check(result.output)


def test_names_that_a_shell_would_run_are_not_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = ("orders;reboot", "orders$(reboot)", "orders`reboot`", "orders reboot", "orders\nreboot", "orders>x", H)
    rows = [{"virtualhost": "default", "name": name} for name in (*hostile, "orders.eu-1")]
    monkeypatch.setattr(Client, "_request", lambda *_: {"count": len(rows), "results": rows})
    env = {
        "HEADGATE_URL": "http://127.0.0.1:1", "HEADGATE_TOKEN": "headgate_x",
        "_HEADGATE_COMPLETE": "bash_complete", "COMP_WORDS": "headgate why o", "COMP_CWORD": "2",
    }  # fmt: skip
    output = CliRunner(env=env).invoke(cli, [], prog_name="headgate").output
    assert output.splitlines() == ["plain,orders.eu-1"]


def test_only_one_module_writes_to_the_terminal() -> None:
    found = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "click.echo", "click.secho", "click.confirm", "click.prompt", "click.style",
                          "click.echo_via_pager", "sys.stdout.write", "sys.stderr.write"):  # fmt: skip
                found.add(path.name)
    assert found == {"terminal.py"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders.eu ü → 東京 🙂", "orders.eu ü → 東京 🙂"),
        ("a\tb\r\nc", "a\\tb\\r\\nc"),
        ("\x1b[2J\x9b", "\\u001b[2J\\u009b"),
        ("\u202eabc\u2069", "\\u202eabc\\u2069"),
        ("half \ud800 of a character", "half \\ud800 of a character"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_what_is_not_printable_is_an_escape(text: str, shown: str) -> None:
    assert terminal.harmless(text) == shown
