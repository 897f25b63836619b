"""Runs a process that respects read-only files and folders, also if the tests run as root."""

from __future__ import annotations

import os
import sys

_DAC_OVERRIDE, _PR_CAPBSET_DROP = 1, 24
_DROP = (
    "import ctypes, os, sys\n"
    f"assert os.geteuid() or ctypes.CDLL(None).prctl({_PR_CAPBSET_DROP}, {_DAC_OVERRIDE}, 0, 0, 0) == 0\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)


def respecting_permissions(*arguments: str) -> list[str]:
    """Return the command `python ARGUMENTS` without root's capability to bypass file permissions."""
    return [sys.executable, "-c", _DROP, *arguments] if os.geteuid() == 0 else [sys.executable, *arguments]
