"""Passwords of brokers at rest: encrypted, with a key that can be rotated while others read."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from console.brokers import keys
from console.brokers.models import ForeignBroker, ServedBroker


@pytest.fixture(autouse=True)
def key_file(tmp_path: Path, settings: Any) -> Path:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "console" / "brokers.key")
    return tmp_path / "console" / "brokers.key"


def added(slug: str = "rabbit", password: str = "swordfish") -> ForeignBroker:
    with keys.locked():
        return ForeignBroker.objects.create(
            slug=slug, title=slug, kind="rabbitmq", url="http://10.0.0.7:15672", encrypted=keys.encrypt(password)
        )


def test_the_key_is_generated_once_for_its_owner_only(key_file: Path) -> None:
    first = keys.encrypt("a")
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    content = key_file.read_bytes()
    assert keys.decrypt(keys.encrypt("b")) == "b"
    assert keys.decrypt(first) == "a"
    assert key_file.read_bytes() == content


@pytest.mark.django_db
def test_the_password_is_not_in_the_table_nor_in_any_text() -> None:
    row = added()
    row.refresh_from_db()
    assert "swordfish" not in row.encrypted
    assert "swordfish" not in f"{row!r} {row} {row.for_audit()} {row.account()!r}"
    assert row.account().password == "swordfish"


@pytest.mark.django_db
def test_rotation_encrypts_every_password_with_a_new_key(key_file: Path) -> None:
    added("one", "first")
    two = added("two", "second")
    served = {"process": "host:1:2", "host": "127.0.0.1", "port": 1, "encrypted": keys.encrypt("third")}
    ServedBroker.objects.create(broker=two, **served)
    before, old = key_file.read_text(), list(ForeignBroker.objects.values_list("encrypted", flat=True))
    call_command("rotate_broker_key")
    assert len(key_file.read_text().split()) == 1
    assert key_file.read_text() != before
    assert [row.account().password for row in ForeignBroker.objects.order_by("slug")] == ["first", "second"]
    assert keys.decrypt(ServedBroker.objects.get().encrypted) == "third"
    for text in old:
        with pytest.raises(keys.KeyMissing):
            keys.decrypt(text)


@pytest.mark.django_db
def test_a_rotation_that_ended_in_the_middle_is_completed_by_the_next(key_file: Path) -> None:
    row = added()
    keys.add_key()  # and then the process was killed
    assert row.account().password == "swordfish"
    call_command("rotate_broker_key")
    row.refresh_from_db()
    assert row.account().password == "swordfish"
    assert len(key_file.read_text().split()) == 1


@pytest.mark.django_db
def test_a_rotation_without_the_right_key_changes_nothing(key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = added()
    key_file.unlink()
    with pytest.raises(SystemExit):
        call_command("rotate_broker_key")
    assert "cannot be decrypted" in capsys.readouterr().err
    assert ForeignBroker.objects.get().encrypted == row.encrypted
    with pytest.raises(keys.KeyMissing, match="enter it again"):
        row.account()


def test_a_damaged_key_file_is_named(key_file: Path) -> None:
    key_file.parent.mkdir()
    key_file.write_text("no key\n")
    with pytest.raises(keys.KeyMissing, match="a line that is no key"):
        keys.encrypt("a")
