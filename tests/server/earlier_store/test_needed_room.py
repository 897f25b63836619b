"""The room that a conversion asks for is at least what the journal takes, and not much more."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store import conversion, reader
from brokers.server.earlier_store.conversion import convert_all, needed_bytes
from brokers.server.journal.journal_store import SEGMENT_BYTES, JournalStore
from brokers.server.journal.stamp_file import Stamp
from brokers.server.store_folder import earlier_of, file_name
from brokers.server.store_survey import FOLDER, read_store
from tests.server.earlier_store.test_conversion import ACTS, RESERVE, Filling
from tests.server.earlier_writer.message_store import MessageStore

NAME = file_name("default")
SMALL = 64 << 10


def room(folder: Path, fill: Callable[[MessageStore], Any]) -> tuple[int, int, int]:
    """Return the room that the conversion of a store asks for, that the journal takes, and the bytes of all bodies."""
    path = earlier_of(folder / FOLDER / NAME)
    with closing(MessageStore(path, reserve_bytes=RESERVE)) as store:
        store.set_stamp(Stamp("me", "default", 1, 9))
        fill(store)
        while store.pending:
            assert store.write(store.take()).fault is None
    found = read_store(path)
    needed = needed_bytes([found])
    with closing(ConfigStore(folder / "config.sqlite3")) as config:
        convert_all(config, [found], say=lambda _: None)
    taken = sum(file.stat().st_size for file in (folder / FOLDER / NAME).iterdir())
    return needed, taken, sum(queue.bytes for queue in found.queues.values())


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sizes are less, so that a test has many segments."""
    scale(monkeypatch)


def scale(patch: pytest.MonkeyPatch) -> None:
    sizes = {"segment_bytes": SMALL, "group_bytes": 32 << 10}
    patch.setattr(JournalStore.__init__, "__kwdefaults__", JournalStore.__init__.__kwdefaults__ | sizes)  # type: ignore[arg-type, operator]
    patch.setattr(conversion, "SEGMENT_BYTES", SMALL)
    patch.setattr(conversion, "WRITTEN_BYTES", 4 << 10)
    patch.setattr(reader, "LOADED_BYTES", 4 << 10)
    patch.setattr(reader, "LOADED", 16)


@pytest.mark.parametrize("mib", [2, 3, 5.5, 8.5, 17])
def test_messages_of_some_mebibytes_of_which_a_segment_has_room_for_few(tmp_path: Path, mib: float) -> None:
    body = random.Random(1).randbytes(int(mib * (1 << 20)))

    def fill(store: MessageStore) -> None:
        for number in range(1, 1 + int(110 / mib)):
            store.put(1, number, body)
            assert store.write(store.take()).fault is None

    needed, taken, size = room(tmp_path, fill)
    assert size > 100 << 20
    assert taken <= needed <= 2.2 * size + 6 * SEGMENT_BYTES
    if mib < 16:
        assert needed <= taken + 5 * SEGMENT_BYTES + size // 4


def singly(store: MessageStore) -> None:
    for number in range(8000):
        store.put(1, number, b"", 1_900_000_000_000)


def singly_and_failed(store: MessageStore) -> None:
    for number in range(4000):
        store.put(1 + number % 300, number, b"x" * 40, 1_900_000_000_000)
        store.fail(1 + number % 300, number, 3)


def every_second_of_a_run(store: MessageStore) -> None:
    store.put_run(1, 0, [b"x" * 40] * 12_000, 480_000)
    while store.pending:
        store.write(store.take())
    store.remove_run(1, range(0, 12_000, 2))
    for number in range(1, 12_000, 4):
        store.fail(1, number, 2)


def of_queues_with_long_names(store: MessageStore) -> None:
    for queue in range(1, 60):
        store.name_queue(queue, f"{queue} {'ü' * 120}")
        for number in range(30):
            store.put(queue, number, b"x" * 500)


def of_queues_whose_names_leave_no_room(store: MessageStore) -> None:
    for queue in range(1, 200):
        store.name_queue(queue, f"{queue} {'ü' * 120}")
        for number in range(10):
            store.put(queue, number, b"x" * 500)


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize(
    "fill",
    [singly, singly_and_failed, every_second_of_a_run, of_queues_with_long_names, of_queues_whose_names_leave_no_room],
)
def test_messages_of_which_a_journal_has_more_than_their_bodies(
    tmp_path: Path, fill: Callable[[MessageStore], Any]
) -> None:
    needed, taken, _ = room(tmp_path, fill)
    assert taken > 6 * SMALL
    assert taken <= needed


@pytest.mark.usefixtures("scaled")
def test_not_much_more_is_requested_than_messages_in_runs_take(tmp_path: Path) -> None:
    def fill(store: MessageStore) -> None:
        for first in range(0, 20_000, 100):
            store.put_run(1, first, [b"x" * 100] * 100, 10_000)

    needed, taken, _ = room(tmp_path, fill)
    assert taken <= needed <= 1.2 * taken + 4 * SMALL


@settings(max_examples=40, deadline=None)
@given(acts=st.lists(ACTS, max_size=40), seed=st.integers(0, 99))
def test_random_content_has_room(acts: Sequence[Any], seed: int) -> None:
    def fill(store: MessageStore) -> None:
        filling = Filling(store, seed)
        for what, place, first, second in acts:
            filling.act(what, place, first, min(second, 40_000))
        filling.write()

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        scale(patch)
        needed, taken, _ = room(Path(folder), fill)
        assert taken <= needed
