"""Power cuts: the possible content of a disk, and the broker's promises after its next start."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults import power
from tests.faults.disk import Disk, Operation


def _operations(*steps: tuple[str, str] | tuple[str, str, int, bytes]) -> list[Operation]:
    return [
        Operation(n, step[0], f"/root/{step[1]}".rstrip("/"), *(step[2:] or (0, b"")))  # type: ignore[misc]
        for n, step in enumerate(steps)
    ]


def _after_cut(folder: Path, operations: list[Operation], survives: float, seed: int = 0) -> dict[str, bytes]:
    disk = Disk("/root")
    for operation in operations:
        disk.apply(operation)
    folder.mkdir()
    disk.cut(folder, random.Random(seed), survives)
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


CREATED = [("c", "a"), ("w", "a", 0, b"one"), ("s", "a"), ("s", "")]


def test_synced_data_survives_and_other_data_may(tmp_path: Path) -> None:
    later = [("w", "a", 3, b"two"), ("c", "b"), ("w", "b", 0, b"x"), ("s", "b")]
    operations = _operations(*CREATED, *later)
    assert _after_cut(tmp_path / "none", operations, 0.0) == {"a": b"one"}
    assert _after_cut(tmp_path / "all", operations, 1.0) == {"a": b"onetwo", "b": b"x"}


def test_a_file_is_lost_with_the_entry_of_its_folder(tmp_path: Path) -> None:
    inside = [("m", "f"), ("c", "f/a"), ("w", "f/a", 0, b"x"), ("s", "f/a"), ("s", "f")]
    assert _after_cut(tmp_path / "one", _operations(*inside), 0.0) == {}
    assert _after_cut(tmp_path / "two", _operations(*inside, ("s", "")), 0.0) == {"f/a": b"x"}


def test_unlinking_renaming_and_truncating_may_be_lost_too(tmp_path: Path) -> None:
    gone = _operations(*CREATED, ("t", "a", 1, b""), ("s", "a"), ("r", "a", 0, b"/root/b"))
    assert _after_cut(tmp_path / "none", gone, 0.0) == {"a": b"o"}
    assert _after_cut(tmp_path / "all", gone, 1.0) == {"b": b"o"}
    assert _after_cut(tmp_path / "unlinked", _operations(*CREATED, ("u", "a"), ("s", "")), 0.0) == {}


def test_a_write_may_be_there_in_any_of_its_sectors(tmp_path: Path) -> None:
    operations = _operations(*CREATED, ("w", "a", 500, b"y" * 1024))
    found = {_after_cut(tmp_path / str(seed), operations, 0.5, seed)["a"] for seed in range(40)}
    assert len(found) > 4
    for content in found:
        pieces = content[500:512], content[512:1024], content[1024:1524]
        assert all(not piece.strip(b"y") or not piece.strip(b"\0") for piece in pieces)


def test_folder_that_is_renamed_is_at_one_of_two_places_with_all_that_is_in_it(tmp_path: Path) -> None:
    made = [("m", "f"), ("c", "f/a"), ("w", "f/a", 0, b"x"), ("s", "f/a"), ("s", "f"), ("m", "g"), ("s", "")]
    for other in ("h", "g/h"):
        operations = _operations(*made, ("r", "f", 0, f"/root/{other}".encode()))
        found = {
            tuple(_after_cut(tmp_path / f"{len(other)} {seed}", operations, 0.5, seed).items()) for seed in range(20)
        }
        assert found == {(("f/a", b"x"),), ((f"{other}/a", b"x"),)}
    for synced in ("", "g"):
        operations = _operations(*made, ("r", "f", 0, b"/root/g/h"), ("s", synced))
        assert _after_cut(tmp_path / f"synced {synced}", operations, 0.0) == {"g/h/a": b"x"}


@pytest.mark.domain("9 power cuts")
@pytest.mark.timeout(300)
def test_confirmed_data_survives_a_power_cut(tmp_path: Path) -> None:
    counts = power.run(8, "suite", seconds=1.0, folder=tmp_path)
    assert counts["cuts"] == 8
    assert counts["syncs among them"] > 50
