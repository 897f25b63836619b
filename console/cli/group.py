"""The group of all commands, and what they have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from console.cli import credentials
from console.cli.client import Client
from console.cli.problems import Problem

F = TypeVar("F", bound=Callable[..., Any])


class _Told(click.ClickException):
    """A problem, as click ends the command with it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        vars(self)["exit_code"] = problem.code  # click declares it of the class


class Group(click.Group):
    """Commands whose errors are one sentence, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Problem as problem:
            raise _Told(problem) from None


def client_of(ctx: click.Context) -> Client:
    options = ctx.find_root().params
    return Client(credentials.found(options.get("url") or ""), options.get("broker") or "")


def queue_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of queues, for the shell: nothing rather than an error or a long wait."""
    try:
        options = ctx.find_root().params
        client = Client(credentials.found(options.get("url") or ""), options.get("broker") or "", (0.5, 1.5))
        needle = incomplete.partition("/")[2] or incomplete
        rows = client.get("queues/", search=needle, page_size=50)["results"]
    except Problem:
        return []
    found = []
    for row in rows:
        found.append(f"{row['virtualhost']}/{row['name']}")
        if row["virtualhost"] == "default" and "/" not in row["name"]:
            found.append(row["name"])
    return [
        CompletionItem(name) for name in found if name.startswith(incomplete) and ("/" in incomplete) == ("/" in name)
    ]


def json_option(command: F) -> F:
    return click.option("--json", "json_", is_flag=True, help="Print JSON.")(command)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--url", envvar="HEADGATE_URL", help="Address of the console (default: the one of `headgate login`; HEADGATE_URL)."
)
@click.option(
    "--broker", envvar="HEADGATE_BROKER", help="Slug of the broker (default: the first one; HEADGATE_BROKER)."
)
def cli(url: str | None, broker: str | None) -> None:
    """Headgate on the command line: what is blocked and why, stop and start producers, policies.

    Sign in with an API token of the console: `headgate login`, or HEADGATE_TOKEN. Exit codes: 0 success; 1 differences,
    or a change failed; 2 wrong usage; 3 not signed in, or no permission; 4 refused; 5 the console or the broker cannot
    be reached.
    """


def is_a_person() -> bool:
    """Whether the terminal is interactive."""
    return sys.stdin.isatty()
