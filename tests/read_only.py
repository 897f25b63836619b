"""A process that a read-only file or folder stops, also where tests run as root, whom permissions do not hold."""

from __future__ import annotations

import os
import sys

_DAC_OVERRIDE, _PR_CAPBSET_DROP = 1, 24
_DROP = (
    "import ctypes, os, sys\n"
    f"assert os.geteuid() or ctypes.CDLL(None).prctl({_PR_CAPBSET_DROP}, {_DAC_OVERRIDE}, 0, 0, 0) == 0\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)


def held_by_permissions(*arguments: str) -> list[str]:
    """The command `python ARGUMENTS`, without the right to write whatever it wants."""
    return [sys.executable, "-c", _DROP, *arguments] if os.geteuid() == 0 else [sys.executable, *arguments]
