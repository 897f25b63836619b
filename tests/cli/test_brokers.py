"""`headgate brokers` against a live console: secrets, what a test finds, confirmations, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from brokers.adapters.adapter import Finding
from brokers.adapters.kinds import Account, Kind
from brokers.admin import NotAllowed
from console.audit.models import AuditEntry
from console.brokers import configured
from console.brokers.models import ForeignBroker
from console.cli.main import cli
from console.operations import brokers as operations
from console.permissions.rights import Grant, Role
from tests.browser.conftest import Console
from tests.cli.conftest import Terminal, in_thread, ok

SECRET = "sword fish\\'\""
RABBIT = ("--kind", "rabbitmq", "--url", "http://127.0.0.1:1")


class Adapter:
    """An adapter that accepts one password; its other sentences try to control the terminal."""

    identity = ""

    def __init__(self, account: Account) -> None:
        self.account = account

    async def connect(self) -> list[Finding]:
        if self.account.password != SECRET:
            raise NotAllowed("the user name and password are not accepted")
        if self.account.authority:
            return [Finding("RabbitMQ 3.10.8 answers")]
        return [
            Finding("", "the plugin\n! is off\x1b[2J"),
            Finding("RabbitMQ 3.10.8 answers"),
            Finding("", "needs a tag"),
        ]

    async def close(self) -> None: ...


def open_adapter(account: Account, _now: object) -> Adapter:
    return Adapter(account)


@pytest.fixture(autouse=True)
def _kinds(console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> Iterator[None]:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "brokers.key")
    settings.HEADGATE_ADAPTERS = {**settings.HEADGATE_ADAPTERS, "data": str(tmp_path / "adapters")}
    monkeypatch.setitem(operations.KINDS, "rabbitmq", Kind("RabbitMQ", f"{__name__}:open_adapter", "http://x"))
    yield
    configured._added = ()


@pytest.fixture
def adele(terminal_of: Callable[..., Terminal]) -> Terminal:
    return terminal_of("adele", Grant(Role.ADMIN))


@pytest.fixture
def password(adele: Terminal) -> str:
    file = adele.home / "password"
    file.write_text(SECRET + "\n")
    return str(file)


@pytest.fixture
def authority(adele: Terminal, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("brokers.adapters.http.trusting", lambda _text: None)
    file = adele.home / "ca.pem"
    file.write_text("an authority")
    return str(file)


def add(adele: Terminal, password: str, *more: str, slug: str = "rabbit") -> Any:
    given = (*RABBIT, "--username", "headgate", "--password-file", password)
    return adele.run("brokers", "add", slug, *given, *more)


def stored() -> ForeignBroker:
    return in_thread(ForeignBroker.objects.get)


def test_a_broker_is_added_listed_edited_paused_and_removed(adele: Terminal, password: str, authority: str) -> None:
    more = ("--ca", authority, "--tag", "prod", "--tag", "eu", "--title", "Rabbits", "--reason", "new cluster")
    said = ok(add(adele, password, *more))
    assert said.splitlines() == [
        "  RabbitMQ 3.10.8 answers",
        "Nothing is missing.",
        "Added rabbit (rabbitmq, http://127.0.0.1:1).",
    ]
    row = stored()
    assert (row.title, row.tags, row.authority) == ("Rabbits", ["eu", "prod"], "an authority")
    assert in_thread(lambda: stored().account().password) == SECRET
    assert in_thread(lambda: AuditEntry.objects.get(operation="add-broker").reason) == "new cluster"
    listed = ok(adele.run("brokers", "list")).splitlines()
    assert listed[0].split() == ["SLUG", "KIND", "STATE", "TAGS", "TITLE"]
    assert any(line.startswith("rabbit") and "eu,prod" in line for line in listed)
    assert [each["slug"] for each in json.loads(ok(adele.run("brokers", "list", "--tag", "eu", "--json")))] == [
        "rabbit"
    ]
    assert "No broker matches." in ok(adele.run("brokers", "list", "--tag", "eu", "--tag", "us"))

    ok(adele.run("brokers", "edit", "rabbit", "--title", "Hares", "--tag", "us", "--no-ca"))
    assert (stored().title, stored().tags, stored().authority) == ("Hares", ["us"], "")
    ok(adele.run("brokers", "edit", "rabbit", "--no-tags"))
    assert (stored().title, stored().tags, bool(stored().encrypted)) == ("Hares", [], True)
    assert "Paused rabbit" in ok(adele.run("brokers", "pause", "rabbit"))
    assert stored().paused
    assert json.loads(ok(adele.run("brokers", "resume", "rabbit", "--json")))["paused"] is False
    ok(adele.run("brokers", "edit", "rabbit", "--no-password"))
    assert not stored().encrypted
    unconfirmed = adele.run("brokers", "remove", "rabbit")
    assert (unconfirmed.exit_code, stored().slug) == (2, "rabbit")
    assert "Removed rabbit." in ok(adele.run("brokers", "remove", "rabbit", "--yes"))
    assert not in_thread(ForeignBroker.objects.exists)
    gone = adele.run("brokers", "remove", "rabbit", "--yes")
    assert (gone.exit_code, "no added broker rabbit" in gone.output) == (4, True)


def test_a_test_prints_a_sentence_a_line_that_cannot_control_the_terminal(adele: Terminal, password: str) -> None:
    found = adele.run("brokers", "test", *RABBIT, "--password-file", password)
    assert found.exit_code == 1
    assert found.output.splitlines() == [
        "  RabbitMQ 3.10.8 answers",
        "! the plugin\\n! is off\\u001b[2J",
        "! needs a tag",
    ]
    answer = adele.run("brokers", "test", *RABBIT, "--password-file", password, "--json")
    assert (answer.exit_code, json.loads(answer.output)["ok"]) == (1, False)
    assert not in_thread(ForeignBroker.objects.exists)


def test_a_broker_with_something_missing_is_added_only_after_a_confirmation(adele: Terminal, password: str) -> None:
    refused = add(adele, password)
    assert (refused.exit_code, "--yes" in refused.output, "! needs a tag" in refused.output) == (1, True, True)
    assert not in_thread(ForeignBroker.objects.exists)
    answer = add(adele, password, "--yes", "--json")
    assert (answer.exit_code, json.loads(answer.stdout)["slug"]) == (0, "rabbit")
    assert "needs a tag" in answer.stderr
    again = adele.run("brokers", "test", "rabbit")
    assert (again.exit_code, "! needs a tag" in again.output) == (1, True)
    assert add(adele, password, "--yes").exit_code == 4  # the slug is taken


def test_a_password_is_read_from_standard_input_and_is_in_no_output(adele: Terminal) -> None:
    given = ("brokers", "add", "rabbit", *RABBIT, "-u", "headgate", "--no-test", "--json")
    said = adele.run(*given, typed=f"{SECRET}\nmore\n")
    assert (said.exit_code, SECRET in said.output, json.loads(said.stdout)["has_password"]) == (0, False, True)
    assert in_thread(lambda: stored().account().password) == SECRET
    ok(adele.run("brokers", "edit", "rabbit", "--password", typed="carp\r\n"))
    assert in_thread(lambda: stored().account().password) == "carp"
    ok(adele.run("brokers", "edit", "rabbit", "--password-file", "-", typed="two words"))
    assert in_thread(lambda: stored().account().password) == "two words"
    assert "carp" not in in_thread(lambda: json.dumps(list(AuditEntry.objects.values()), default=str))


def test_without_a_password_where_one_is_expected_nothing_is_changed(adele: Terminal, password: str) -> None:
    given = ("brokers", "add", "rabbit", *RABBIT, "-u", "headgate", "--no-test")
    assert adele.run(*given, typed="").exit_code == 2
    assert not in_thread(ForeignBroker.objects.exists)
    ok(add(adele, password, "--no-test"))
    empty = adele.run("brokers", "edit", "rabbit", "--password", typed="\n")
    assert (empty.exit_code, "has no password" in empty.output) == (2, True)
    assert adele.run("brokers", "edit", "rabbit", "--password-file", str(adele.home)).exit_code == 2
    assert adele.run("brokers", "edit", "rabbit", "--password", "--password-file", password).exit_code == 2
    moved = adele.run("brokers", "edit", "rabbit", "--url", "http://10.6.6.6")
    assert (moved.exit_code, "enter the password again" in moved.output) == (4, True)
    assert in_thread(lambda: stored().account().password) == SECRET


def test_a_password_cannot_be_an_argument(adele: Terminal) -> None:
    for option in (f"--password={SECRET}", f"-p{SECRET}"):
        assert adele.run("brokers", "add", "rabbit", *RABBIT, option).exit_code == 2
    assert adele.run("brokers", "add", "rabbit", *RABBIT, "--password", SECRET).exit_code == 2
    address = adele.run("brokers", "add", "rabbit", "--kind", "rabbitmq", "--url", "http://a:b@10.0.0.7", "--no-test")
    assert (address.exit_code, "in their own fields" in address.output) == (4, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "../me", *RABBIT),
        ("add", "rabbit", "--kind", "rabbitmq"),
        ("add", "rabbit", "--url", "http://10.0.0.7"),
        ("add", "rabbit", *RABBIT, "--ca", "/no/such/file"),
        ("edit", "rabbit"),
        ("edit", "rabbit", "--tag", "a", "--no-tags"),
        ("edit", "..", "--title", "x"),
        ("test",),
        ("test", "rabbit", "--kind", "rabbitmq"),
        ("remove", "rabbit/../local", "--yes"),
    ],
)
def test_wrong_usage_ends_with_2_and_changes_nothing(adele: Terminal, arguments: tuple[str, ...]) -> None:
    answer = adele.run("brokers", *arguments)
    assert answer.exit_code == 2, answer.output
    assert not in_thread(AuditEntry.objects.filter(object__startswith="broker ").exists)


def test_the_console_refuses_with_a_sentence(adele: Terminal, vera: Terminal, password: str) -> None:
    unknown = adele.run("brokers", "add", "x", "--kind", "telex", "--url", "http://10.0.0.7", "--no-test")
    assert (unknown.exit_code, "kind" in unknown.output, "rabbitmq" in unknown.output) == (4, True, True)
    own = adele.run("brokers", "pause", "local")
    assert (own.exit_code, "part of the settings" in own.output) == (4, True)
    assert "local" in ok(vera.run("brokers", "list"))
    forbidden = vera.run("brokers", "add", "rabbit", *RABBIT, "--password-file", password, "--no-test")
    assert (forbidden.exit_code, "administrator" in forbidden.output) == (3, True)


def test_commands_about_brokers_need_no_broker_of_the_environment(adele: Terminal) -> None:
    assert "local" in ok(adele.run("brokers", "list", HEADGATE_BROKER="elsewhere"))


def test_slugs_and_kinds_are_completed(adele: Terminal, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(add(adele, password, "--no-test"))
    monkeypatch.setenv("HEADGATE_URL", adele.url)
    monkeypatch.setenv("HEADGATE_TOKEN", adele.token)
    complete = BashComplete(cli, {}, "headgate", "_HEADGATE_COMPLETE").get_completions
    for command in ("test", "edit", "pause", "resume", "remove"):
        assert [item.value for item in complete(["brokers", command], "")] == ["rabbit"]
    assert [item.value for item in complete(["brokers", "add", "x", "--kind"], "a")] == ["artemis", "activemq"]
    monkeypatch.setenv("HEADGATE_TOKEN", "wrong")
    assert complete(["brokers", "test"], "") == []


# -- files ------------------------------------------------------------------------------------------------------------

BROKERS = """\
version: 1
brokers:
  rabbit:
    title: Rabbits
    kind: rabbitmq
    url: http://127.0.0.1:1/
    username: headgate
    password_file: secret.txt
    tags: [prod, eu]
  hare:
    kind: rabbitmq
    url: http://127.0.0.1:2
    password_env: HARE_PASSWORD
    authority: |
      first line
      second line
"""


@pytest.fixture
def file(adele: Terminal, authority: str) -> Path:
    path = adele.home / "brokers.yaml"
    path.write_text(BROKERS)
    (adele.home / "secret.txt").write_text(f"{SECRET}\n")
    return path


def slugs() -> list[str]:
    return in_thread(lambda: sorted(ForeignBroker.objects.values_list("slug", flat=True)))


def audited() -> list[tuple[str, str]]:
    return in_thread(lambda: list(AuditEntry.objects.order_by("pk").values_list("operation", "outcome")))


def test_a_file_of_brokers_is_compared_applied_and_applied_again_without_effect(adele: Terminal, file: Path) -> None:
    env = {"HARE_PASSWORD": "carp"}
    differs = adele.run("brokers", "diff", str(file), **env)
    assert differs.exit_code == 1
    assert "+ rabbit: title Rabbits, kind rabbitmq, url http://127.0.0.1:1/" in differs.output
    assert slugs() == []
    assert adele.run("brokers", "apply", str(file), **env).exit_code == 2  # not interactive: no confirmation
    said = ok(adele.run("brokers", "apply", str(file), "--yes", "--reason", "release 42", **env))
    assert said.splitlines() == ["done: create hare", "done: create rabbit", "2 changed, 0 failed."]
    passwords = in_thread(lambda: {row.slug: row.account().password for row in ForeignBroker.objects.all()})
    assert passwords == {"rabbit": SECRET, "hare": "carp"}
    assert audited()[-2:] == [("add-broker", "done")] * 2
    assert in_thread(lambda: set(AuditEntry.objects.values_list("reason", flat=True))) >= {"release 42"}

    rows = audited()
    assert "No differences." in ok(adele.run("brokers", "diff", str(file), "--prune", **env))
    assert "0 changed, 0 failed." in ok(adele.run("brokers", "apply", str(file), "--yes", **env))
    assert audited() == rows
    exported = ok(adele.run("brokers", "export"))
    assert "authority: |\n      first line\n      second line\n" in exported
    for secret in (SECRET, "carp"):
        assert secret not in exported + differs.output + said
    copy = file.with_name("copy.yaml")
    ok(adele.run("brokers", "export", str(copy)))
    assert "No differences." in ok(adele.run("brokers", "diff", str(copy), "--prune"))


def test_a_file_changes_only_what_differs_and_leaves_a_pause_and_a_password_alone(adele: Terminal, file: Path) -> None:
    env = {"HARE_PASSWORD": "carp"}
    ok(adele.run("brokers", "apply", str(file), "--yes", **env))
    ok(adele.run("brokers", "pause", "rabbit"))
    file.write_text(BROKERS.replace("title: Rabbits", "title: Hares"))
    assert adele.run("brokers", "diff", str(file), **env).output == "~ rabbit: title Rabbits -> Hares\n"
    ok(adele.run("brokers", "apply", str(file), "--yes", **env))
    rows = in_thread(lambda: {row.slug: (row.title, row.paused, row.revision) for row in ForeignBroker.objects.all()})
    assert rows == {"rabbit": ("Hares", True, 3), "hare": ("hare", False, 1)}
    changed = adele.run("brokers", "diff", str(file), HARE_PASSWORD="pike")
    assert (changed.exit_code, changed.output) == (1, "~ hare: password (secret)\n")
    assert "No differences." in ok(adele.run("brokers", "diff", str(file), "--no-passwords"))
    ok(adele.run("brokers", "apply", str(file), "--yes", HARE_PASSWORD="pike"))
    assert in_thread(lambda: ForeignBroker.objects.get(slug="hare").account().password) == "pike"
    file.write_text(file.read_text().replace("127.0.0.1:2", "127.0.0.1:3"))  # the password is sent again with a new URL
    assert "1 changed" in ok(adele.run("brokers", "apply", str(file), "--yes", HARE_PASSWORD="pike"))


def test_prune_removes_only_added_brokers_that_the_file_lacks(adele: Terminal, file: Path) -> None:
    ok(adele.run("brokers", "apply", str(file), "--yes", HARE_PASSWORD="carp"))
    file.write_text("version: 1\nbrokers: {}\n")
    assert "stay (--prune removes them): hare, rabbit" in ok(adele.run("brokers", "diff", str(file)))
    pruned = adele.run("brokers", "diff", str(file), "--prune")
    assert (pruned.exit_code, pruned.output) == (1, "- hare\n- rabbit\n")
    ok(adele.run("brokers", "apply", str(file), "--prune", "--yes", "--reason", "gone"))
    assert slugs() == []
    assert audited()[-2:] == [("remove-broker", "done")] * 2
    assert "local" in ok(adele.run("brokers", "list"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 1\nbrokers: {x: {kind: rabbitmq}}", "brokers.x.url: line 2: url is missing"),
        ("version: 1\nbrokers: {x: {kind: telex, url: http://10.0.0.7}}", "brokers.x.kind: line 2: kind is 'telex'"),
        ("version: 1\nbrokers: {X: {kind: rabbitmq, url: http://10.0.0.7}}", "brokers.X: line 2: slug must have"),
        ("version: 1\nbrokers: {x: {kind: rabbitmq, url: http://169.254.169.254}}", "link-local"),
        (
            "version: 1\nbrokers:\n  x: {password: hush}",
            "brokers.x.password: line 3: a password must not be in the file",
        ),
        ("version: 1\nbrokers:\n  x:\n    tags: 5", "brokers.x.tags: line 4: tags must be a list"),
        ("version: 1\nbrokers:\n  x:\n    paused: maybe", "brokers.x.paused: line 4: paused must be true or false"),
        ("version: 1\nbrokers:\n  x: {password_file: a, password_env: b}", "exclude each other"),
        ("version: 1\nbrokers:\n  x: {password_env: ''}", "password_env is empty"),
        ("version: 1\nbrokers:\n  x: {colour: red}", "unknown key colour"),
        ("version: 1\nbroker: {}", "unknown key broker: expected version or brokers"),
        ("version: 1\nbrokers: {x: {}, x: {}}", "duplicate key x"),
        ("brokers: {}", "version is missing"),
        ("", "empty"),
    ],
)
def test_faults_of_a_file_have_their_place_and_change_nothing(
    adele: Terminal, file: Path, text: str, says: str
) -> None:
    file.write_text(text)
    for command in (("diff", str(file)), ("apply", str(file), "--yes")):
        answer = adele.run("brokers", *command)
        assert answer.exit_code == 4, answer.output
        assert says in answer.output
        assert "hush" not in answer.output
    assert slugs() == []


def test_what_cannot_be_applied_is_reported_and_the_rest_is_done(adele: Terminal, file: Path) -> None:
    ok(adele.run("brokers", "apply", str(file), "--yes", HARE_PASSWORD="carp"))
    file.write_text(
        "version: 1\nbrokers:\n  local: {kind: rabbitmq, url: http://10.0.0.1}\n"
        "  hare: {kind: artemis, url: http://127.0.0.1:2}\n  rabbit: {kind: rabbitmq, url: http://10.0.0.2}\n"
    )
    answer = adele.run("brokers", "apply", str(file), "--yes")
    assert answer.exit_code == 1
    assert "! the broker local is part of the settings" in answer.output
    assert "! hare is of kind rabbitmq: remove it" in answer.output
    assert "refused: update rabbit: enter the password again" in answer.output
    assert audited()[-1] == ("change-broker", "refused")


def test_a_named_password_must_be_there(adele: Terminal, file: Path) -> None:
    unset = adele.run("brokers", "diff", str(file))
    assert (unset.exit_code, "hare: password_env HARE_PASSWORD is not set" in unset.output) == (2, True)
    (adele.home / "secret.txt").unlink()
    gone = adele.run("brokers", "apply", str(file), "--yes", HARE_PASSWORD="carp")
    assert (gone.exit_code, "No such file" in gone.output) == (2, True)
    assert slugs() == []


def test_the_console_cannot_choose_what_is_read(adele: Terminal, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "console.api.broker_file._shown",
        lambda _found: {"passwords": [{"slug": "x", "key": "password_env", "name": "HEADGATE_TOKEN"}]},
    )
    file.write_text("version: 1\nbrokers: {}\n")
    answer = adele.run("brokers", "diff", str(file))
    assert (answer.exit_code, "does not name 'HEADGATE_TOKEN'" in answer.output) == (2, True)


def test_files_of_brokers_are_for_administrators(olga: Terminal, file: Path) -> None:
    for command in (("export",), ("diff", str(file)), ("apply", str(file), "--yes")):
        refused = olga.run("brokers", *command, HARE_PASSWORD="carp")
        assert (refused.exit_code, "administrator" in refused.output) == (3, True)
    assert slugs() == []
