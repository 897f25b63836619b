"""The commands of the product's processes: `up`, `broker` and `demo` run without Django; others are Django's commands.

The dispatch comes before any import, so that the broker's process holds nothing of the console. `headgate COMMAND`,
`python -m console COMMAND` and, in the repository, `manage.py COMMAND` are the same.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from typing import NoReturn

from console.catalog import CONSOLE, LOGGED, OURS, SERVICES


def main(argv: list[str]) -> int:
    command = argv[1] if len(argv) > 1 else "--help"
    if command in LOGGED | {"up"}:
        argv = [*argv[:2], *set_log_format(argv[2:])]
        from brokers.log_records import start

        if command in LOGGED and "--session" not in argv:  # whose output is read by the process that started it
            start(command)
    if command in OURS:
        module, _, function = OURS[command][0].partition(":")
        return int(getattr(importlib.import_module(module), function)(argv[2:]))
    if command in ("--help", "-h") or argv[1:] == ["help"]:
        print_commands()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.management import execute_from_command_line

    # Django's commands are modules, and a module's name has no hyphen.
    called = [command.replace("-", "_")] if command in CONSOLE else [command]
    code = 0
    try:
        execute_from_command_line([argv[0], *called, *argv[2:]])
    except SystemExit as end:
        if command not in SERVICES or not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    if command in SERVICES:
        end_at_once(code)
    return code


def set_log_format(arguments: list[str]) -> list[str]:
    """Take `--log-format FORMAT` from the arguments and set the variable that all parts of Headgate read; return the
    other arguments."""
    from brokers.log_records import FORMATS, VARIABLE

    left, given = [], os.environ.get(VARIABLE) or FORMATS[0]
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name == "--log-format":
            given = value if equals else next(rest, "")
        else:
            left.append(argument)
    if given not in FORMATS:
        sys.stderr.write(f"headgate: the log format is {given!r}: it must be one of {', '.join(FORMATS)}\n")
        sys.exit(2)
    os.environ[VARIABLE] = given
    return left


def end_at_once(code: int) -> NoReturn:
    """End this process, without Python's own end: that takes as much processor time as all that went before it."""
    logging.shutdown()
    from brokers.log_records import finish

    finish()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def print_commands() -> None:
    lines = ["Headgate: a console and control plane for message brokers, about producer flow control.", ""]
    lines += [f"  headgate {name:<15} {text}" for name, (_, text) in OURS.items()]
    lines += [f"  headgate {name:<15} {text}" for name, text in CONSOLE.items()]
    lines += [
        "",
        "Processes log JSON lines with `--log-format json`.",
        "`headgate COMMAND --help` shows a command's options. The console's other commands:",
        "",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
