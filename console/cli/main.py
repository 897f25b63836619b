"""`headgate`: sign-in and completion; imports the modules of the other commands."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import get_completion_class

from console.cli import broker_files, brokers, credentials, messages, policies, queries, stops, terminal
from console.cli.client import Client
from console.cli.group import cli, client_of, json_option

__all__ = ["broker_files", "brokers", "cli", "main", "messages", "policies", "queries", "stops"]


@cli.command()
@click.argument("url", required=False)
@click.pass_context
def login(ctx: click.Context, url: str | None) -> None:
    """Store the address of a console and an API token. The token is prompted for, or read from standard input."""
    wanted = credentials.checked(url or ctx.find_root().params.get("url") or credentials.DEFAULT_URL)
    if os.environ.get("HEADGATE_TOKEN"):
        token = os.environ["HEADGATE_TOKEN"]
    elif sys.stdin.isatty():
        token = terminal.secret(f"Token (create one at {wanted}/tokens/)")
    else:
        token = sys.stdin.readline()
    stored = credentials.Credentials(wanted, token.strip())
    me = Client(stored).get("me/")
    where = credentials.store(stored)
    terminal.line(f"Signed in to {wanted} as {me['user']}; stored in {where}.")


@cli.command()
def logout() -> None:
    """Delete the stored address and token. The token itself is revoked in the console."""
    terminal.line("Deleted." if credentials.delete() else "No token was stored.")


@cli.command()
@json_option
@click.pass_context
def whoami(ctx: click.Context, json_: bool) -> None:
    """Show the current user and permissions."""
    me = client_of(ctx).get("me/")
    if json_:
        return terminal.as_json(me)
    terminal.line(
        f"{me['user']}"
        + (f", with the token {me['token']['name']} until {me['token']['expires']}" if me["token"] else "")
    )
    for grant in me["grants"]:
        where = f"broker {grant['broker']}" if grant["broker"] else "all brokers"
        host = f"virtual host {grant['virtualhost']} of " if grant["virtualhost"] else ""
        terminal.line(f"  {grant['role']}: {host}{where}")
    return None


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for commands, options and queue names: eval "$(headgate completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None
    terminal.verbatim(kind(cli, {}, "headgate", "_HEADGATE_COMPLETE").source())


def main() -> None:
    cli(prog_name="headgate")


if __name__ == "__main__":
    main()
