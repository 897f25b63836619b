"""Back to the earlier release after the conversion, and upgraded again: what that has accepted meanwhile is neither
deleted nor delivered twice, and the advice of each refusal leads to a start."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from proton import Message

from brokers.server.service import Service
from brokers.server.sqlite_file import StoreError
from brokers.server.store_adoption import adopt
from brokers.server.store_command import main
from brokers.server.store_folder import earlier_of, file_name
from brokers.server.store_identity import StoreMismatch
from brokers.server.store_survey import CONFIG, FOLDER, read_records, read_store
from tests.amqp.broker_thread import BrokerThread
from tests.server.earlier_store.test_conversion import Killed, data, files, killing, small_segments, start, stored
from tests.server.earlier_writer import start_rule
from tests.server.earlier_writer.folders import (
    RESERVE,
    adopted_by_the_release_before,
    started_by_the_release_before,
)
from tests.server.earlier_writer.message_store import MessageStore
from tests.server.test_store_identity import contents, make_durable, names, receive, send

__all__ = ["data", "killing", "small_segments"]  # fixtures

NAME, SECOND = file_name("default"), file_name("second")


def exchange(data: Path, *, first: int = 31) -> None:
    """Three messages are accepted into `dq` by the release before, and its oldest five were consumed."""
    with closing(MessageStore(earlier_of(data / FOLDER / NAME), reserve_bytes=RESERVE)) as store:
        store.name_queue(1, "dq")
        for number in range(first, first + 3):
            store.put(1, number, bytes(Message(body=f"m{number - 1}", durable=True).encode()))
        for number in range(1, 6) if first == 31 else ():
            store.remove(1, number)
        while store.pending:
            assert store.write(store.take()).fault is None


def go_back(data: Path) -> None:
    with pytest.raises(start_rule.StoreMismatch, match="store adopt"):
        start_rule.check(data, read_records(data))
    adopted_by_the_release_before(data)
    started_by_the_release_before(data)


@pytest.fixture
def gone_back(data: Path) -> Path:
    """Converted, but no start has listened; then the release before has gone on with its files."""
    assert main(["convert", "--data", str(data)]) == 0
    go_back(data)
    exchange(data)
    return data


def advised(data: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the arguments of the only command that a start, a check and the commands advise, which change nothing."""
    before = files(data)
    with pytest.raises(StoreMismatch) as caught:
        Service(data)
    command = command_of(caught.value)
    for name in ("check", "adopt", "convert"):
        capsys.readouterr()
        assert main([name, "--data", str(data)]) == 1
        said = "".join(capsys.readouterr())
        assert f"`headgate store {' '.join(command)}`" in said, name
        assert "`store adopt`" not in said, name
    assert files(data) == before
    return command


def command_of(refusal: StoreMismatch) -> list[str]:
    """Return the arguments of the only command that a refusal advises, in its one line."""
    assert "\n" not in str(refusal)
    [command] = re.findall(r"`headgate store ([^`]*)`", str(refusal))
    return str(command).split()


def aside(data: Path) -> Path:
    [found] = data.glob("messages-set-aside-*")
    return found


def test_messages_accepted_after_going_back_are_there_once_when_the_advice_was_followed(
    gone_back: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = advised(gone_back, capsys)
    assert command == ["set-aside", "--data", str(gone_back), "--store", NAME, "--store", SECOND]
    earlier = {path: content for path, content in files(gone_back).items() if "sqlite3" in str(path)}
    assert main(command) == 0
    assert files(gone_back) == earlier, "what the configuration knows stays as it is"
    assert [read_store(aside(gone_back) / name).messages for name in (NAME, SECOND)] == [30, 3]
    with BrokerThread(gone_back) as broker:
        assert receive(broker, "dq") == names("m", 33)[5:]
        assert broker.look(lambda s: s.broker.queue("second", "other").gate.depth_messages) == 3
    assert not list((gone_back / FOLDER).glob("*sqlite3*"))
    with BrokerThread(gone_back) as broker:
        assert broker.depth("dq") == 0


def test_going_back_after_a_conversion_that_was_killed_at_any_step_loses_nothing_that_was_accepted(
    data: Path, killing: Callable[[int], list[str]]
) -> None:
    outcomes = set[str]()
    for step in range(1, 200):
        copy = Path(shutil.copytree(data, data.with_name(f"killed-{step}")))
        killing(step)
        ended = False
        with contextlib.suppress(Killed):
            start(copy)
            ended = True
        killing(0)
        try:
            start_rule.check(copy, read_records(copy))
        except start_rule.StoreMismatch:
            adopted_by_the_release_before(copy)
        started_by_the_release_before(copy)
        exchange(copy)
        advice: list[str] = []
        try:
            start(copy)
        except StoreMismatch as refusal:
            advice = command_of(refusal)
        if advice:
            assert main(advice) == 0
            start(copy)
        outcomes.add("refused" if advice else "started")
        assert len(stored(copy / FOLDER / NAME)) == 28, f"step {step}"
        assert len(stored(copy / FOLDER / SECOND)) == 3, f"step {step}"
        shutil.rmtree(copy)
        if ended:
            break
    assert ended
    assert outcomes == {"started", "refused"}


def test_going_back_after_the_files_have_gone_loses_neither_what_was_accepted_before_nor_since(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The release before starts with empty stores then."""
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 30
    go_back(data)
    exchange(data, first=100)
    assert main(advised(data, capsys)) == 0
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == ["m99", "m100", "m101"]
    other = data.with_name("other")  # what was set aside can be adopted in a folder of its own
    shutil.copytree(aside(data), other / FOLDER)
    assert "queue dq was created for the 30 messages" in " ".join(adopt(other))
    capsys.readouterr()
    assert main(["dump", "--data", str(other), "--queue", "dq"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 30


def test_older_copy_restored_over_the_folder_starts_as_it_was_when_the_advice_was_followed(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(data, data.with_name("copy")))
    with BrokerThread(data) as broker:
        send(broker, "dq", "later")
    shutil.copytree(copy, data, dirs_exist_ok=True)
    assert main(advised(data, capsys)) == 0
    assert read_store(aside(data) / NAME).messages == 31
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == names("m", 30)


def test_older_copy_restored_over_the_folder_after_going_back_starts_as_it_was(
    gone_back: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(gone_back, gone_back.with_name("copy")))
    for path in (copy / FOLDER).glob("*.journal"):
        shutil.rmtree(path)
    exchange(gone_back, first=50)
    shutil.copytree(copy, gone_back, dirs_exist_ok=True)
    assert main(advised(gone_back, capsys)) == 0
    with BrokerThread(gone_back) as broker:
        assert receive(broker, "dq") == names("m", 33)[5:]


def test_advice_that_is_followed_for_one_store_at_a_time_leads_to_a_start(
    gone_back: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *command, _, last = advised(gone_back, capsys)
    assert main(command) == 0
    assert advised(gone_back, capsys) == [*command[:3], "--store", last]
    assert main([*command[:3], "--store", last]) == 0
    with BrokerThread(gone_back) as broker:
        assert broker.depth("dq") == 28


def test_configuration_lost_after_going_back_adopts_what_the_release_before_has_left(
    gone_back: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the journals, whose messages may have been consumed since."""
    (gone_back / CONFIG).unlink()
    with pytest.raises(StoreError, match="nothing was adopted"):
        adopt(gone_back)
    assert main(advised(gone_back, capsys)) == 0
    assert "queue dq was created for the 28 messages" in " ".join(adopt(gone_back))
    with BrokerThread(gone_back) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "anonymous", True))
        assert receive(broker, "dq") == names("m", 33)[5:]


def test_file_that_was_written_to_after_it_became_the_known_journal_is_set_aside_and_not_deleted(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy that this release has left was restored over what the release before had gone on with."""
    assert main(["convert", "--data", str(data)]) == 0
    converted = {name: content for name, content in contents(data).items() if name.parent.suffix == ".journal"}
    converted[Path(CONFIG)] = (data / CONFIG).read_bytes()
    go_back(data)
    exchange(data)
    written = read_store(earlier_of(data / FOLDER / NAME)).messages
    for name, content in converted.items():
        (data / name).write_bytes(content)
    for end in ("-wal", "-shm"):
        (data / f"{CONFIG}{end}").unlink(missing_ok=True)
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == names("m", 30)
    moved = aside(data) / earlier_of(Path(NAME)).name
    assert read_store(moved).messages == written == 28
    assert f"moved to {moved}" in caplog.text


@pytest.mark.parametrize("starts", [1, 3])
def test_file_that_has_become_a_journal_is_deleted_after_starts_that_did_not_listen(data: Path, starts: int) -> None:
    for _ in range(starts):
        start(data)
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 30
    assert not list((data / FOLDER).glob("*sqlite3*"))
    assert not list(data.glob("messages-set-aside-*"))


def test_files_adopted_from_another_broker_leave_nothing_that_a_start_would_set_aside(
    data: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with BrokerThread(other) as broker:
        make_durable(broker, "orders")
    shutil.copy(other / CONFIG, data / CONFIG)
    adopt(data)
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 30
    assert not list((data / FOLDER).glob("*sqlite3*"))
    assert not list(data.glob("messages-set-aside-*"))


def test_file_beside_its_journal_is_set_aside_by_its_name(gone_back: Path) -> None:
    """By an operator who takes the journal after all."""
    path = earlier_of(gone_back / FOLDER / NAME)
    assert main(["set-aside", "--data", str(gone_back), "--store", path.name]) == 0
    assert read_store(aside(gone_back) / path.name).messages == 28
    assert not path.exists()
    assert read_store(gone_back / FOLDER / NAME).messages == 30
