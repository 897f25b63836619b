"""Users: passwords are never kept, wrong ones and unknown names are refused alike, and the console gets its secret."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from scramp import ScramClient, ScramException, ScramMechanism

from brokers.server.config_store import ConfigStore, StoreError
from brokers.server.users import RIGHTS, Users


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "config.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[ConfigStore]:
    store = ConfigStore(path)
    yield store
    store.close()


def scram(users: Users, name: str, password: str) -> None:
    client = ScramClient(["SCRAM-SHA-256"], name, password)
    server = ScramMechanism("SCRAM-SHA-256").make_server(users.scram())
    server.set_client_first(client.get_client_first())
    client.set_server_first(server.get_server_first())
    server.set_client_final(client.get_client_final())
    client.set_server_final(server.get_server_final())


def test_the_right_password_is_accepted_and_others_are_not(store: ConfigStore) -> None:
    users = Users(store)
    users.add("anna", "geheim-ß")
    assert users.check_plain("anna", "geheim-ß")
    for name, password in (("anna", "geheim"), ("anna", ""), ("", ""), ("otto", "geheim-ß"), ("anna", "a\x00b")):
        assert not users.check_plain(name, password)
    scram(users, "anna", "geheim-ß")
    with pytest.raises(ScramException, match="client keys don't match"):
        scram(users, "anna", "wrong")


def test_users_are_there_after_reopening_and_the_password_is_not_on_disk(store: ConfigStore, path: Path) -> None:
    Users(store).add("anna", "unmistakable-password", {"publish"})
    store.close()
    for file in path.parent.iterdir():
        assert b"anna" in file.read_bytes()
        assert b"unmistakable-password" not in file.read_bytes()
    store = ConfigStore(path)
    users = Users(store)
    assert users.names() == ["anna"]
    assert users.rights("anna") == {"publish"}
    assert users.check_plain("anna", "unmistakable-password")
    users.remove("anna")
    store.close()
    store = ConfigStore(path)
    assert Users(store).names() == []
    store.close()


def test_an_unknown_user_gets_a_salt_that_stays_and_no_password_fits(store: ConfigStore) -> None:
    users = Users(store)
    users.add("anna", "x")
    decoy = users.scram()("nobody")
    assert decoy == users.scram()("nobody") == Users(store).scram()("nobody")
    assert decoy != users.scram()("nobody-else")
    assert [len(part) for part in decoy[:3]] == [len(part) for part in users.scram()("anna")[:3]]
    with pytest.raises(ScramException, match="client keys don't match"):
        scram(users, "nobody", "x")


def test_an_unknown_user_costs_as_many_hashes(store: ConfigStore, monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users(store)
    users.add("anna", "x")
    costs: list[int] = []
    hashing = hashlib.pbkdf2_hmac
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *a: costs.append(a[3]) or hashing(*a))
    users.check_plain("anna", "wrong")
    users.check_plain("nobody", "wrong")
    assert len(costs) == 2
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("name", "password", "rights", "wrong"),
    [
        ("", "x", (), "must not be empty"),
        ("anna", "", (), "must not be empty"),
        ("an\nna", "x", (), "may not be used"),
        ("anna", "x\x00", (), "may not be used"),
        ("anna", "x", ("fly",), "fly is not one of"),
    ],
)
def test_a_user_that_cannot_be_is_refused(
    store: ConfigStore, name: str, password: str, rights: tuple[str, ...], wrong: str
) -> None:
    users = Users(store)
    with pytest.raises(ValueError, match=wrong):
        users.add(name, password, rights)
    assert users.names() == []


def test_removing_an_unknown_user_is_an_error_and_it_has_no_rights(store: ConfigStore) -> None:
    users = Users(store)
    assert users.rights("nobody") == frozenset()
    with pytest.raises(KeyError):
        users.remove("nobody")


def test_the_console_user_gets_a_secret_once(store: ConfigStore, tmp_path: Path) -> None:
    secret_path = tmp_path / "secrets" / "console"
    users = Users(store)
    users.ensure_console_user(secret_path)
    secret = secret_path.read_text().strip()
    assert len(secret) >= 40
    assert secret_path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in secret_path.parent.iterdir()] == ["console"]
    assert users.check_plain("console", secret)
    assert users.rights("console") == RIGHTS
    Users(store).ensure_console_user(secret_path)
    assert secret_path.read_text().strip() == secret


@pytest.mark.parametrize("loss", ["file", "user", "mismatch", "empty"])
def test_the_console_user_gets_a_new_secret_when_something_is_missing(
    store: ConfigStore, tmp_path: Path, loss: str
) -> None:
    secret_path = tmp_path / "console"
    users = Users(store)
    users.ensure_console_user(secret_path)
    old = secret_path.read_text().strip()
    match loss:
        case "file":
            secret_path.unlink()
        case "user":
            users.remove("console")
        case "mismatch":
            users.add("console", "other", RIGHTS)
        case "empty":
            secret_path.write_text("")
    users.ensure_console_user(secret_path)
    new = secret_path.read_text().strip()
    assert new != old
    assert users.check_plain("console", new)
    assert not users.check_plain("console", old)


def test_a_secret_file_left_readable_is_made_private(store: ConfigStore, tmp_path: Path) -> None:
    secret_path = tmp_path / "console"
    users = Users(store)
    users.ensure_console_user(secret_path)
    secret_path.chmod(0o644)
    users.ensure_console_user(secret_path)
    assert secret_path.stat().st_mode & 0o777 == 0o600


def test_a_secret_that_cannot_be_written_is_named(store: ConfigStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot") as caught:
        Users(store).ensure_console_user(tmp_path / "file" / "console")
    assert str(tmp_path / "file" / "console") in str(caught.value)


def test_a_damaged_user_record_is_named(store: ConfigStore) -> None:
    store.put("user", "anna", {"salt": "?"})
    store.commit()
    with pytest.raises(StoreError, match="user anna"):
        Users(store)
