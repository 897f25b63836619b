"""Users: passwords are never stored, wrong ones and unknown names are refused alike, and the console gets its
secret."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scramp import ScramClient, ScramException, ScramMechanism

from brokers.admin import InvalidValue
from brokers.engine.broker import Broker
from brokers.engine.values.rights import ALL, NO_RIGHTS
from brokers.server.config_store import ConfigStore, StoreError
from brokers.server.passwords import MAX_PASSWORD, Passwords
from brokers.server.users import Users


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "config.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[ConfigStore]:
    store = ConfigStore(path)
    yield store
    store.close()


class Opened:
    """The users in a store, as a broker that starts has them, and keeps what was changed."""

    def __init__(self, store: ConfigStore) -> None:
        self.store = store
        self.broker = Broker(0)
        self.users = Users(store, self.broker.accounts)
        self.broker.restore(store.load())

    def add(self, name: str, password: str | None = None, **more: Any) -> None:
        given = {"name": name, **more} if password is None else {"name": name, "password": password, **more}
        self.broker.accounts.create(given)
        self.keep()

    def remove(self, name: str) -> None:
        self.broker.accounts.reserved.clear()
        self.broker.accounts.delete(self.broker.accounts.user(name))
        self.keep()

    def ensure(self, path: Path) -> None:
        self.users.ensure_console_user(path)
        self.keep()

    def names(self) -> list[str]:
        return sorted(self.broker.accounts.users)

    def keep(self) -> None:
        for record in self.broker.turn.take_records():
            if record.value is None:
                self.store.remove(record.kind, record.key)
            else:
                self.store.put(record.kind, record.key, record.value)
        self.store.commit()


def scram(users: Users, name: str, password: str) -> None:
    client = ScramClient(["SCRAM-SHA-256"], name, password)
    server = ScramMechanism("SCRAM-SHA-256").make_server(users.scram())
    server.set_client_first(client.get_client_first())
    client.set_server_first(server.get_server_first())
    server.set_client_final(client.get_client_final())
    client.set_server_final(server.get_server_final())


def test_the_right_password_is_accepted_and_others_are_not(store: ConfigStore) -> None:
    opened = Opened(store)
    opened.add("anna", "geheim-ß")
    users = opened.users
    assert users.check_plain("anna", "geheim-ß")
    for name, password in (("anna", "geheim"), ("anna", ""), ("", ""), ("otto", "geheim-ß"), ("anna", "a\x00b")):
        assert not users.check_plain(name, password)
    scram(users, "anna", "geheim-ß")
    with pytest.raises(ScramException, match="client keys don't match"):
        scram(users, "anna", "wrong")


def test_users_persist_and_their_passwords_are_not_on_disk(store: ConfigStore, path: Path) -> None:
    opened = Opened(store)
    opened.broker.create_virtualhost("default")
    opened.add("anna", "unmistakable-password", grants=["default:publish"], certificate_subject="CN=anna")
    store.close()
    for file in path.parent.iterdir():
        assert b"anna" in file.read_bytes()
        assert b"unmistakable-password" not in file.read_bytes()
    store = ConfigStore(path)
    opened = Opened(store)
    assert opened.names() == ["anna"]
    anna = opened.broker.accounts.user("anna")
    assert (anna.rights.as_texts(), anna.rights.administrator, anna.version) == (["default:publish"], False, 1)
    assert opened.users.check_plain("anna", "unmistakable-password")
    assert opened.users.external("CN=anna") == "anna"
    opened.remove("anna")
    store.close()
    store = ConfigStore(path)
    assert Opened(store).names() == []
    store.close()


@pytest.mark.parametrize(
    ("rights", "administrator", "grants"),
    [
        (["consume", "manage", "publish"], True, ["*:publish,consume,manage"]),
        (["publish"], False, ["*:publish"]),
        ([], False, []),
    ],
)
def test_user_of_an_earlier_release_keeps_password_and_permissions(
    store: ConfigStore, rights: list[str], administrator: bool, grants: list[str]
) -> None:
    record = {**Passwords().verifier("geheim"), "rights": rights}  # as releases without virtual hosts' rights wrote it
    store.put("user", "anna", record)
    store.commit()
    opened = Opened(store)
    anna = opened.broker.accounts.user("anna")
    assert (anna.rights.administrator, anna.rights.as_texts()) == (administrator, grants)
    scram(opened.users, "anna", "geheim")
    opened.broker.accounts.update(anna, {"administrator": True})
    opened.keep()
    again = Opened(store)
    assert again.users.check_plain("anna", "geheim")
    assert again.broker.accounts.user("anna").rights.administrator


def test_an_unknown_user_gets_a_salt_that_stays_and_no_password_fits(store: ConfigStore) -> None:
    opened = Opened(store)
    opened.add("anna", "x")
    opened.add("certified", certificate_subject="CN=certified")
    users = opened.users
    decoy = users.scram()("unknown")
    assert decoy == users.scram()("unknown") == Opened(store).users.scram()("unknown")
    assert decoy != users.scram()("unknown-too")
    assert [len(part) for part in decoy[:3]] == [len(part) for part in users.scram()("anna")[:3]]
    for name in ("unknown", "certified"):
        with pytest.raises(ScramException, match="client keys don't match"):
            scram(users, name, "x")
        assert not users.check_plain(name, "x")
        assert not users.check_plain(name, "")


def test_an_unknown_user_costs_as_many_hashes(store: ConfigStore, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(store)
    opened.add("anna", "x")
    costs: list[int] = []
    hashing = hashlib.pbkdf2_hmac
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *a: costs.append(a[3]) or hashing(*a))
    opened.users.check_plain("anna", "wrong")
    opened.users.check_plain("unknown", "wrong")
    assert len(costs) == 2
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("name", "password", "wrong"),
    [
        ("", "x", "cannot be the name of a user"),
        (" ", "x", "cannot be the name of a user"),
        ("x" * 300, "x", "cannot be the name of a user"),
        ("anonymous", "x", "anonymous clients"),
        ("an\nna", "x", "is not allowed"),
        ("anna", "", "password must not be empty"),
        ("anna", "x\x00", "is not allowed"),
        ("anna", "x" * (MAX_PASSWORD + 1), "more than"),
    ],
)
def test_invalid_name_or_password_is_refused_without_quoting_the_password(
    store: ConfigStore, name: str, password: str, wrong: str
) -> None:
    opened = Opened(store)
    with pytest.raises(InvalidValue, match=wrong) as caught:
        opened.add(name, password)
    assert not password or password == "x" or password not in str(caught.value)
    assert opened.names() == []


def test_unknown_user_has_no_permissions_and_no_certificate(store: ConfigStore) -> None:
    opened = Opened(store)
    opened.add("anna", "x")  # without a certificate
    assert opened.broker.accounts.rights("unknown") == NO_RIGHTS
    assert opened.users.external("CN=unknown") is None
    assert opened.users.external("") is None


def test_the_console_user_gets_a_secret_once(store: ConfigStore, tmp_path: Path) -> None:
    secret_path = tmp_path / "secrets" / "console"
    opened = Opened(store)
    opened.ensure(secret_path)
    secret = secret_path.read_text().strip()
    assert len(secret) >= 40
    assert secret_path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in secret_path.parent.iterdir()] == ["console"]
    assert opened.users.check_plain("console", secret)
    assert opened.broker.accounts.rights("console") == ALL
    Opened(store).ensure(secret_path)
    assert secret_path.read_text().strip() == secret


@pytest.mark.parametrize("loss", ["file", "user", "mismatch", "rights", "empty"])
def test_the_console_user_gets_a_new_secret_when_something_is_missing(
    store: ConfigStore, tmp_path: Path, loss: str
) -> None:
    secret_path = tmp_path / "console"
    opened = Opened(store)
    opened.ensure(secret_path)
    old = secret_path.read_text().strip()
    verifier = opened.broker.accounts.user("console").verifier
    assert verifier is not None
    match loss:
        case "file":
            secret_path.unlink()
        case "user":
            opened.add("another", administrator=True)
            opened.remove("console")
        case "mismatch":
            opened.broker.accounts.put_own("console", Passwords().verifier("other"), ALL, "")
        case "rights":
            opened.broker.accounts.put_own("console", verifier, NO_RIGHTS, "")
        case "empty":
            secret_path.write_text("")
    opened.keep()
    opened = Opened(store)
    opened.ensure(secret_path)
    new = secret_path.read_text().strip()
    assert new != old
    assert opened.users.check_plain("console", new)
    assert not opened.users.check_plain("console", old)
    assert opened.broker.accounts.rights("console") == ALL


def test_a_secret_file_left_readable_is_made_private(store: ConfigStore, tmp_path: Path) -> None:
    secret_path = tmp_path / "console"
    opened = Opened(store)
    opened.ensure(secret_path)
    secret_path.chmod(0o644)
    opened.ensure(secret_path)
    assert secret_path.stat().st_mode & 0o777 == 0o600


def test_error_of_a_secret_that_cannot_be_written_names_it(store: ConfigStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot") as caught:
        Opened(store).ensure(tmp_path / "file" / "console")
    assert str(tmp_path / "file" / "console") in str(caught.value)


def test_a_damaged_user_record_is_named(store: ConfigStore) -> None:
    store.put("user", "anna", {"salt": "?"})
    store.commit()
    with pytest.raises(InvalidValue, match="user anna"):
        Opened(store)
