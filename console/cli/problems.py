"""Errors of commands: a sentence for people and an exit code for programs."""

from __future__ import annotations

#: Exit codes besides 0. 1: it differs, or not all could be done. 2: the command line is wrong (click's own).
DIFFERS, USAGE, NOT_ALLOWED, REFUSED, UNREACHABLE = 1, 2, 3, 4, 5


class Problem(Exception):
    """The message is a sentence; `code` what the command ends with."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code
