"""Commands for policy files: export, diff, apply."""

from __future__ import annotations

from typing import Any

import click

from console.cli import names, output, terminal
from console.cli.group import Group, cli, client_of, is_interactive, json_option
from console.cli.problems import DIFFERS


@cli.group(cls=Group)
def policies() -> None:
    """Export and import all policies of a broker as a YAML file."""


_FILE = click.argument("file", type=click.File("r", encoding="utf-8"))
_PRUNE = click.option("--prune", is_flag=True, help="Prune: remove settings and patterns that are not in the file.")


@policies.command()
@click.argument("file", type=click.File("w", encoding="utf-8", lazy=True, atomic=True), default="-")
@click.pass_context
def export(ctx: click.Context, file: Any) -> None:
    """Export the policies to FILE (default: standard output)."""
    file.write(client_of(ctx).get("policies/file/")["yaml"])


@policies.command()
@_FILE
@_PRUNE
@json_option
@click.pass_context
def diff(ctx: click.Context, file: Any, prune: bool, json_: bool) -> None:
    """Show the difference and its impact preview; exit code 1 if anything differs."""
    answer = client_of(ctx).post("policies/file/", {"yaml": file.read(), "prune": prune, "dry_run": True})
    if json_:
        terminal.as_json(answer)
    else:
        output.changes(answer)
        if not answer["changes"] and not answer["problems"]:
            terminal.line("No differences.")
    if answer["changes"] or answer["problems"]:
        ctx.exit(DIFFERS)


@policies.command()
@_FILE
@_PRUNE
@click.option("--reason", "-r", default="", help="Reason, recorded in the audit trail.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@json_option
@click.pass_context
def apply(ctx: click.Context, *, file: Any, prune: bool, reason: str, yes: bool, json_: bool) -> None:
    """Apply the file, object by object; exit code 1 if a change failed."""
    client, body = client_of(ctx), {"yaml": file.read(), "prune": prune, "reason": reason}
    if not yes:
        answer = client.post("policies/file/", {**body, "dry_run": True})
        if not answer["changes"] and not answer["problems"]:
            return terminal.as_json(answer) if json_ else terminal.line("No differences.")
        if json_ or not is_interactive():
            raise click.UsageError(
                f"this would change {len(answer['changes'])} objects: check with diff, then confirm with --yes"
            )
        output.changes(answer)
        terminal.confirm("Apply these changes?")
        body["digest"] = answer["digest"]
    answer = client.post("policies/file/", body)
    failed = [each for each in answer["applied"] if each["outcome"] != "done"]
    if json_:
        terminal.as_json(answer)
    else:
        for each in answer["applied"]:
            detail = f": {each['detail']}" if each["detail"] else ""
            terminal.line(f"{each['outcome']}: {each['action']} {names.short_name(each['object'])}{detail}")
        for sentence in answer["problems"].values():
            terminal.fault(sentence)
        terminal.line(
            f"{len(answer['applied']) - len(failed)} changed, {len(failed) + len(answer['problems'])} failed."
        )
    if failed or answer["problems"]:
        ctx.exit(DIFFERS)
    return None
