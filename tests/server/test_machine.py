"""What memory there is: the machine's, or what a container may use of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokers.server.machine import memory

WHOLE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("0::/system.slice/app", "memory.max"),
        ("0::/system.slice/app", "system.slice/memory.max"),
        ("0::/system.slice/app", "system.slice/app/memory.max"),
        ("0::/", "memory.max"),
        ("5:cpu:/x\n4:memory,pids:/docker/1", "memory/docker/1/memory.limit_in_bytes"),
    ],
)
def test_the_limit_of_a_control_group_counts_if_it_is_lower(tmp_path: Path, own: str, file: str) -> None:
    said = tmp_path / "own"
    said.write_text(own)
    limit = tmp_path / "groups" / file
    limit.parent.mkdir(parents=True)
    limit.write_text("1000000\n")
    assert memory(tmp_path / "groups", said) == (1_000_000, "the container's memory")
    for none in ("max", str(1 << 62), "nonsense", ""):
        limit.write_text(none)
        assert memory(tmp_path / "groups", said) == (WHOLE, "the machine's memory")


def test_without_control_groups_it_is_the_machines(tmp_path: Path) -> None:
    assert memory(tmp_path / "none", tmp_path / "none") == (WHOLE, "the machine's memory")
