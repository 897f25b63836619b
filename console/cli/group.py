"""The root command, and options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from console.catalog import CONSOLE, HERE, OURS
from console.cli import credentials, names, terminal
from console.cli.client import Client
from console.cli.problems import Problem

F = TypeVar("F", bound=Callable[..., Any])


#: Names that are completed. A shell inserts them into the command line as they are, where others, which clients can
#: choose, would be commands.
_SAFE = re.compile(r"[\w./:@%+,=-]*")


class _ClickProblem(click.ClickException):
    """Adapter: makes click end the command with the message and exit code of a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(terminal.harmless(str(problem)))
        vars(self)["exit_code"] = problem.code  # click declares it as a class attribute


class Group(click.Group):
    """A group whose commands print one sentence for an error, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Problem as problem:
            raise _ClickProblem(problem) from None
        except click.ClickException as error:
            lines = error.message.split("\n")  # click's own can have several
            vars(error)["message"] = "\n".join(terminal.harmless(line.expandtabs()) for line in lines)
            raise


class Root(Group):
    """The commands of the command line, and the names of those that run a process of the product here."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        texts = {name: what for name, (_, what) in OURS.items()} | CONSOLE
        here = [(name, text) for name, text in texts.items() if name in HERE]
        with formatter.section("Commands that run here, on a data folder"):
            formatter.write_dl([*here, ("manage", "Django's other commands")])


def client_of(ctx: click.Context) -> Client:
    """Return a client with the options of the root command. Raises Problem."""
    options = ctx.find_root().params
    return Client(credentials.load(options.get("url") or ""), options.get("broker") or "")


def console_client(ctx: click.Context, timeout: tuple[float, float] | None = None) -> Client:
    """Return a client for requests about the console, which name no broker. `timeout`: to connect, to wait; s. Raises
    Problem."""
    loaded = credentials.load(ctx.find_root().params.get("url") or "")
    return Client(loaded, "", timeout) if timeout else Client(loaded)


def queue_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of queues for shell completion; none on errors or after a short timeout."""
    try:
        options = ctx.find_root().params
        client = Client(credentials.load(options.get("url") or ""), options.get("broker") or "", (0.5, 1.5))
        needle = incomplete.partition("/")[2] or incomplete
        rows = client.get("queues/", search=needle, page_size=50)["results"]
    except Problem:
        return []
    found = []
    for row in rows:
        if not _SAFE.fullmatch(row["virtualhost"] + row["name"]):
            continue
        found.append(names.label(row["virtualhost"], row["name"]))
        if row["virtualhost"] == "default" and "/" not in row["name"]:
            found.append(row["name"])
    return [
        CompletionItem(name) for name in found if name.startswith(incomplete) and ("/" in incomplete) == ("/" in name)
    ]


def json_option(command: F) -> F:
    return click.option("--json", "json_", is_flag=True, help="Print JSON.")(command)


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--url",
    envvar="HEADGATE_URL",
    help="Address of the console (default: HEADGATE_URL, or as stored by `headgate login`).",
)
@click.option(
    "--broker", envvar="HEADGATE_BROKER", help="Slug of the broker (default: HEADGATE_BROKER, or the first one)."
)
def cli(url: str | None, broker: str | None) -> None:
    """Headgate on the command line: blocked queues and causes, stopping and starting producers, policies.

    Sign in with an API token of the console: `headgate login`, or HEADGATE_TOKEN. Exit codes: 0 success; 1 differences,
    a test found something missing, or a change failed; 2 wrong usage; 3 not signed in, or no permission; 4 refused; 5
    the console or the broker is unreachable.
    """


def is_interactive() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin.isatty()
