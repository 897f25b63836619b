"""Commands for a file of brokers: export, diff, apply.

The file names passwords by a file or an environment variable of the machine where the command runs. The console reports
which ones it names; they are read here and sent beside it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from console.cli import output, terminal
from console.cli.brokers import brokers
from console.cli.client import Client
from console.cli.group import console_client, is_interactive, json_option
from console.cli.problems import DIFFERS, USAGE, Problem

_PATH = "brokers/file/"
_FILE = click.argument("file", type=click.File("r", encoding="utf-8"))
_PRUNE = click.option("--prune", is_flag=True, help="Remove added brokers that are not in the file.")


@brokers.command()
@click.argument("file", type=click.File("w", encoding="utf-8", lazy=True, atomic=True), default="-")
@click.pass_context
def export(ctx: click.Context, file: Any) -> None:
    """Export the added brokers to FILE (default: standard output), without passwords."""
    file.write(console_client(ctx).get(_PATH)["yaml"])


@brokers.command()
@_FILE
@_PRUNE
@click.option("--no-passwords", is_flag=True, help="Do not read and compare passwords.")
@json_option
@click.pass_context
def diff(ctx: click.Context, file: Any, prune: bool, no_passwords: bool, json_: bool) -> None:
    """Show the difference; exit code 1 if anything differs."""
    client, body = console_client(ctx), {"yaml": file.read(), "prune": prune, "dry_run": True}
    answer = client.post(_PATH, body)
    if answer["passwords"] and not no_passwords:
        answer = client.post(_PATH, {**body, "passwords": _passwords(answer, file.name, body["yaml"])})
    if json_:
        terminal.as_json(answer)
    else:
        output.broker_changes(answer)
    if answer["changes"] or answer["problems"]:
        ctx.exit(DIFFERS)


@brokers.command()
@_FILE
@_PRUNE
@click.option("--reason", "-r", default="", help="Reason, recorded in the audit trail.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@json_option
@click.pass_context
def apply(ctx: click.Context, *, file: Any, prune: bool, reason: str, yes: bool, json_: bool) -> None:
    """Add, change and, with --prune, remove brokers as the file says; exit code 1 if a change failed."""
    client, body = console_client(ctx), {"yaml": file.read(), "prune": prune, "reason": reason}
    body["passwords"] = _passwords(_dry_run(client, body), file.name, body["yaml"])
    if not yes:
        answer = _dry_run(client, body)
        if not answer["changes"] and not answer["problems"]:
            return terminal.as_json(answer) if json_ else output.broker_changes(answer)
        if json_ or not is_interactive():
            raise click.UsageError(
                f"this would change {len(answer['changes'])} brokers: check with diff, then confirm with --yes"
            )
        output.broker_changes(answer)
        terminal.confirm("Apply these changes?")
        body["digest"] = answer["digest"]
    answer = client.post(_PATH, body)
    failed = [each for each in answer["applied"] if each["outcome"] != "done"]
    if json_:
        terminal.as_json(answer)
    else:
        for each in answer["applied"]:
            detail = f": {each['detail']}" if each["detail"] else ""
            terminal.line(f"{each['outcome']}: {each['action']} {each['slug']}{detail}")
        for sentence in answer["problems"].values():
            terminal.fault(sentence)
        terminal.line(
            f"{len(answer['applied']) - len(failed)} changed, {len(failed) + len(answer['problems'])} failed."
        )
    if failed or answer["problems"]:
        ctx.exit(DIFFERS)
    return None


def _dry_run(client: Client, body: Mapping[str, Any]) -> Any:
    return client.post(_PATH, {**body, "dry_run": True})


def _passwords(answer: Mapping[str, Any], file: str, text: str) -> list[dict[str, str]]:
    """Read the passwords that the file names. Raises Problem."""
    folder = Path(file).parent  # of standard input: the current one
    found = []
    for each in answer["passwords"]:
        slug, key, name = each["slug"], each["key"], each["name"]
        if name not in text:  # the console must not choose what is read here
            raise Problem(f"{file} does not name {name!r}, of which the console says so", USAGE)
        password = _of_file(slug, folder / name) if key == "password_file" else os.environ.get(name, "")
        if not password:
            what = "is empty" if key == "password_file" else "is not set"
            raise Problem(f"{slug}: {key} {name} {what}", USAGE)
        found.append({"slug": slug, "password": password})
    return found


def _of_file(slug: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise Problem(f"{slug}: password_file {path} cannot be read: {why}", USAGE) from None
