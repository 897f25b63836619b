"""The tools that read the code are part of the tests: style, format, types, and who may import whom."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=" ".join,
)
def test_the_code_passes(command: list[str]) -> None:
    done = subprocess.run(
        [str(TOOLS / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} says:\n{done.stdout}{done.stderr}"
