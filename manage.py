#!/usr/bin/env python
"""Headgate's commands: `up`, `broker` and `demo` run without Django; everything else is a Django command.

The dispatch comes before any import, so that the broker's process holds nothing of the console.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from typing import NoReturn

#: command -> (module with `main(argv) -> exit code`, what it does). Nothing here may import Django.
OURS = {
    "up": (
        "console.up.main",
        "start everything under one supervisor and print where to sign in (--demo: with demo clients)",
    ),
    "broker": ("brokers.server.main", "the broker engine alone"),
    "store": (
        "brokers.server.store_command",
        "check or print what is in a stopped broker's message stores; adopt them, or set them aside",
    ),
    "demo": ("brokers.demo.main", "demo producers and consumers against a running broker"),
}
#: commands of the console that are worth naming first
CONSOLE = {
    "web": "the web console alone",
    "history": "turn what was recorded into the history's tables, every few seconds",
    "worker": "deliver alerts, carry out bulk edits and schedules, keep the history in shape",
    "beat": "send what is due by the clock to the workers, and look for what alerts shall tell",
    "policies": "all policies as one YAML file: export, diff, apply",
    "recorder": "record the brokers' events and samples for the history",
    "import-log": "take the history of other brokers from their logs",
    "make-history": "generate a year of history, as a demo",
    "migrate": "create or update the console's database",
    "changepassword": "set a user's password, e.g. `changepassword admin`",
}
#: Those of them that go on until they are stopped. They have ended what they do when they return: what Python would
#: still take down object by object then, the kernel does at once.
SERVICES = frozenset({"web", "history", "worker", "beat", "recorder"})
#: Those whose output is a log: JSON lines with `--log-format json`, or HEADGATE_LOG_FORMAT=json.
LOGGED = SERVICES | {"adapters", "broker"}


def main(argv: list[str]) -> int:
    command = argv[1] if len(argv) > 1 else "--help"
    if command in LOGGED | {"up"}:
        argv = [*argv[:2], *set_log_format(argv[2:])]
        from brokers.log_records import start

        if command in LOGGED and "--session" not in argv:  # whose output is read by the process that started it
            start(command)
    if command in OURS:
        return int(importlib.import_module(OURS[command][0]).main(argv[2:]))
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
        sys.stderr.write(f"manage.py: the log format is {given!r}: it must be one of {', '.join(FORMATS)}\n")
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
    lines += [f"  manage.py {name:<15} {text}" for name, (_, text) in OURS.items()]
    lines += [f"  manage.py {name:<15} {text}" for name, text in CONSOLE.items()]
    lines += [
        "",
        "Processes log JSON lines with `--log-format json`.",
        "`manage.py COMMAND --help` tells a command's options. The console's other commands:",
        "",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
