"""Commands for the brokers that administrators added: list, add, test, edit, pause, resume, remove.

A password is read from a prompt, a file or standard input, never from an argument, where all users of the machine could
read it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO, TypeVar

import click
from click.shell_completion import CompletionItem

from console.cli import output, terminal
from console.cli.client import Client
from console.cli.group import Group, cli, console_client, is_interactive, json_option
from console.cli.problems import DIFFERS, Problem

F = TypeVar("F", bound=Callable[..., Any])


@cli.group(cls=Group)
def brokers() -> None:
    """List, add, test, change and remove brokers. All but `list` require an administrator of all brokers."""


# -- arguments and options ------------------------------------------------------------------------------------------


def _completed(path: str, *, added: bool = False) -> Callable[..., list[CompletionItem]]:
    """Return a completion of the slugs or kinds that the console has; of none on errors or after a short timeout."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            rows = console_client(ctx, (0.5, 1.5)).get(path)
        except Problem:
            return []
        named = [(row.get("slug") or row["kind"], row["title"]) for row in rows if row.get("added", True) or not added]
        return [CompletionItem(name, help=title) for name, title in named if name.startswith(incomplete)]

    return complete


def _slug(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check a slug, which becomes part of a path."""
    if value is not None and not re.fullmatch(r"[a-z0-9-]{1,30}", value):
        raise click.BadParameter("a slug has 1 to 30 of a-z, 0-9 and hyphens")
    return value


_NEW_SLUG = click.argument("slug", callback=_slug)
_SLUG = click.argument("slug", callback=_slug, shell_complete=_completed("brokers/", added=True))
_TEXT = click.File("r", encoding="utf-8")
_YES = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
_REASON = click.option("--reason", "-r", default="", help="Reason, recorded in the audit trail.")
_LEAVE_STOPS = click.option(
    "--leave-stops", is_flag=True, help="Also with stops in force: its producers stay stopped on the broker."
)
_KIND = click.option(
    "--kind", shell_complete=_completed("brokers/kinds/"), help="Kind of broker, such as rabbitmq or artemis."
)


def _account_options(command: F) -> F:
    for option in (
        click.option("--url", "address", help="URL of its management; several of one broker are separated by spaces."),
        click.option("--username", "-u", help="User that the console signs in as."),
        click.option(
            "--password", "-p", "prompt", is_flag=True, help="Prompt for the password, or read standard input."
        ),
        click.option("--password-file", type=_TEXT, help="Read the password from this file; - for standard input."),
        click.option("--ca", type=_TEXT, help="PEM file with the certificate authorities to trust."),
    ):  # fmt: skip
        command = option(command)
    return command


def _shown_options(command: F) -> F:
    for option in (
        click.option("--title", help="Display name."),
        click.option("--tag", "tags", multiple=True, help="Tag such as prod or eu; can be repeated."),
    ):
        command = option(command)
    return command


def _account(
    *, address: str | None, username: str | None, prompt: bool, password_file: TextIO | None, ca: TextIO | None
) -> dict[str, Any]:
    """Return the fields of a request that were given."""
    if prompt and password_file:
        raise click.UsageError("give one of --password and --password-file")
    given = {"url": address, "username": username, "authority": _read(ca)}
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if prompt or password_file:
        found["password"] = _password(password_file)
    return found


def _password(file: TextIO | None) -> str:
    if file is None and is_interactive():
        return terminal.secret("Password")
    text = (_read(file) if file else sys.stdin.readline()) or ""
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise click.UsageError(f"{file.name if file else 'standard input'} has no password")
    return password


def _read(file: TextIO | None) -> str | None:
    try:
        return None if file is None else file.read()
    except (OSError, ValueError) as error:  # a folder, or not UTF-8
        raise click.UsageError(f"{file.name if file else ''} cannot be read as text: {error}") from None


# -- commands -------------------------------------------------------------------------------------------------------


@brokers.command(name="list")
@click.option("--tag", "tags", multiple=True, help="Only brokers with this tag; can be repeated.")
@json_option
@click.pass_context
def list_(ctx: click.Context, tags: tuple[str, ...], json_: bool) -> None:
    """List the brokers that you may see: kind, state, tags."""
    rows = [row for row in console_client(ctx).get("brokers/") if set(tags) <= set(row["tags"])]
    return terminal.as_json(rows) if json_ else output.brokers(rows)


@brokers.command()
@_NEW_SLUG
@_KIND
@_account_options
@_shown_options
@click.option("--paused", is_flag=True, help="Add it without connecting to it.")
@click.option("--no-test", is_flag=True, help="Do not test it first.")
@_REASON
@_YES
@json_option
@click.pass_context
def add(
    ctx: click.Context,
    /,
    *,
    slug: str,
    kind: str | None,
    title: str | None,
    tags: tuple[str, ...],
    paused: bool,
    no_test: bool,
    reason: str,
    yes: bool,
    json_: bool,
    **account: Any,
) -> None:
    """Add a broker as SLUG. It is tested first; if something is missing, it is added only after a confirmation.

    With a user name and without --password-file, the password is prompted for, or read from standard input.
    """
    if not kind or not account["address"]:
        raise click.UsageError("give --kind and --url")
    account["prompt"] = account["prompt"] or bool(account["username"] and not account["password_file"])
    given, client = {"kind": kind, **_account(**account)}, console_client(ctx)
    if not no_test and not paused:
        answer = client.post("brokers/test/", given)
        output.findings(answer, to_stderr=json_)
        if not answer["ok"] and not yes:
            if json_ or not is_interactive():
                raise Problem(f"{slug} was not added: --yes adds it nevertheless", DIFFERS)
            terminal.confirm("Add it nevertheless?")
    more = {"slug": slug, "title": title or slug, "tags": list(tags), "paused": paused, "reason": reason}
    _done(client.post("brokers/", {**given, **more}), "Added", json_=json_)


@brokers.command()
@click.argument("slug", required=False, callback=_slug, shell_complete=_completed("brokers/", added=True))
@_KIND
@_account_options
@json_option
@click.pass_context
def test(ctx: click.Context, /, *, slug: str | None, kind: str | None, json_: bool, **account: Any) -> None:
    """Test the added broker SLUG, with the given values instead of the stored ones, or a broker that is not added.

    Prints a sentence for each thing that was found or is missing. Exit code 1 if something is missing.
    """
    given = _account(**account)
    if slug is None and not (kind and given.get("url")):
        raise click.UsageError("give the slug of an added broker, or --kind and --url")
    if slug and kind:
        raise click.UsageError("the kind of an added broker is stored: give no --kind")
    path = f"brokers/{slug}/test/" if slug else "brokers/test/"
    answer = console_client(ctx).post(path, given if slug else {"kind": kind, **given})
    if json_:
        terminal.as_json(answer)
    else:
        output.findings(answer)
    if not answer["ok"]:
        ctx.exit(DIFFERS)


@brokers.command()
@_SLUG
@_account_options
@_shown_options
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@click.option("--no-ca", is_flag=True, help="Trust the certificate authorities of the console's system.")
@click.option("--no-password", is_flag=True, help="Remove the stored password.")
@_LEAVE_STOPS
@_REASON
@json_option
@click.pass_context
def edit(
    ctx: click.Context,
    /,
    *,
    slug: str,
    title: str | None,
    tags: tuple[str, ...],
    no_tags: bool,
    no_ca: bool,
    no_password: bool,
    leave_stops: bool,
    reason: str,
    json_: bool,
    **account: Any,
) -> None:
    """Change the added broker SLUG; values that are not given stay. A new URL requires the password again."""
    given = {**_account(**account), **({"leave_stops": True} if leave_stops else {})}
    for name, removed, value in (
        ("tags", no_tags, list(tags) or None),
        ("authority", no_ca, given.get("authority")),
        ("password", no_password, given.get("password")),
        ("title", False, title),
    ):
        if removed and value:
            raise click.UsageError(f"the {name} cannot be both set and removed")
        if removed or value is not None:
            given[name] = ([] if name == "tags" else "") if removed else value
    if not given:
        raise click.UsageError("give at least one value to change")
    _change(ctx, slug, given, "Changed", reason=reason, json_=json_)


@brokers.command()
@_SLUG
@_LEAVE_STOPS
@_REASON
@json_option
@click.pass_context
def pause(ctx: click.Context, slug: str, leave_stops: bool, reason: str, json_: bool) -> None:
    """Disconnect from the added broker SLUG until it is resumed. On the broker nothing changes."""
    given = {"paused": True, **({"leave_stops": True} if leave_stops else {})}
    _change(ctx, slug, given, "Paused", reason=reason, json_=json_)


@brokers.command()
@_SLUG
@_REASON
@json_option
@click.pass_context
def resume(ctx: click.Context, slug: str, reason: str, json_: bool) -> None:
    """Connect to the paused broker SLUG again."""
    _change(ctx, slug, {"paused": False}, "Resumed", reason=reason, json_=json_)


@brokers.command()
@_SLUG
@_LEAVE_STOPS
@_YES
@click.pass_context
def remove(ctx: click.Context, slug: str, leave_stops: bool, yes: bool) -> None:
    """Remove the added broker SLUG. Its history, events and audit trail stay; on the broker nothing changes."""
    if not yes:
        if not is_interactive():
            raise click.UsageError(f"this would remove the broker {slug}: confirm with --yes")
        terminal.confirm(f"Remove {slug}?")
    console_client(ctx).delete(f"brokers/{slug}/{'?leave_stops=true' if leave_stops else ''}")
    terminal.line(f"Removed {slug}.")


def _change(ctx: click.Context, slug: str, given: Mapping[str, Any], done: str, *, reason: str, json_: bool) -> None:
    client: Client = console_client(ctx)
    _done(client.patch(f"brokers/{slug}/", {**given, "reason": reason}), done, json_=json_)


def _done(row: Mapping[str, Any], done: str, *, json_: bool) -> None:
    if json_:
        terminal.as_json(row)
    else:
        terminal.line(f"{done} {row['slug']} ({row['kind']}, {row['url']}).")
