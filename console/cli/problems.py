"""Errors of commands: a message and an exit code."""

from __future__ import annotations

#: Exit codes besides 0. 1: differences, or a change failed. 2: wrong usage (click's own).
DIFFERS, USAGE, NOT_ALLOWED, REFUSED, UNREACHABLE = 1, 2, 3, 4, 5


class Problem(Exception):
    """An error of a command. The message is a sentence; `code`: the exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code
