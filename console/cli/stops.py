"""Commands that stop and start producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from console.cli import names, output, terminal
from console.cli.group import cli, client_of, is_interactive, json_option, queue_names
from console.cli.problems import REFUSED, UNREACHABLE, Problem

F = TypeVar("F", bound=Callable[..., Any])


def _aim_options(command: F) -> F:
    for option in (
        click.argument("queues", nargs=-1, shell_complete=queue_names),
        click.option("--all", "everything", is_flag=True, help="All producers of the broker."),
        click.option("--virtualhost", "-v", help="All producers of a virtual host."),
        click.option("--exchange", "-e", help="All queues bound to an exchange: name, or virtualhost/name."),
        click.option("--all-brokers", is_flag=True, help="All producers of all brokers."),
        click.option("--broker", "brokers", multiple=True, help="All producers of this broker; can be repeated."),
        click.option("--tag", "tags", multiple=True, help="All producers of brokers with this tag; can be repeated."),
        click.option("--pattern", "-p", help="Only queues whose name matches, of the broker or the virtual host."),
        click.option("--user", help="Only producers of clients that signed in as this user."),
        click.option("--container", "container_id", help="Only producers of clients with this container-id."),
        click.option("--link", help="Only producers whose link has this name."),
        click.option("--reason", "-r", required=True, help="Reason, shown to all users."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
        json_option,
    ):
        command = option(command)
    return command


def _aim(
    queues: tuple[str, ...],
    *,
    everything: bool,
    virtualhost: str | None,
    exchange: str | None,
    pattern: str | None,
    all_brokers: bool = False,
    brokers: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
    **client: str | None,
) -> dict[str, Any]:
    """Return the fields of the request body that select the producers. `client`: user, container_id and link of their
    clients, if given. Raises UsageError."""
    named = {name: value for name, value in client.items() if value}
    whole = everything or bool(named and not (queues or virtualhost or exchange or all_brokers or brokers or tags))
    aim = _queues_of(
        queues,
        everything=whole,
        virtualhost=virtualhost,
        exchange=exchange,
        pattern=pattern,
        all_brokers=all_brokers,
        brokers=brokers,
        tags=tags,
    )
    return {**aim, **named}


def _queues_of(
    queues: tuple[str, ...],
    *,
    everything: bool,
    virtualhost: str | None,
    exchange: str | None,
    pattern: str | None,
    all_brokers: bool,
    brokers: tuple[str, ...],
    tags: tuple[str, ...],
) -> dict[str, Any]:
    if all_brokers or brokers or tags:
        if queues or everything or virtualhost or exchange or sum(map(bool, (all_brokers, brokers, tags))) > 1:
            raise click.UsageError(
                "select brokers by one of --all-brokers, --broker, --tag, and no queues but --pattern"
            )
        several = {"tags": list(tags)} if tags else {"brokers": ["*"] if all_brokers else list(brokers)}
        return {"scope": "type=Broker", **several, **({"pattern": pattern} if pattern else {})}
    scopes = sum(map(bool, (queues, exchange, everything or (pattern and not virtualhost), virtualhost)))
    if scopes != 1 or (pattern and (queues or exchange)):
        raise click.UsageError(
            "select producers by one of: names of queues, --virtualhost, --exchange, --pattern, --all"
        )
    if queues:
        return {"scope": "type=Broker", "queues": [names.queue(text) for text in queues]}
    if exchange:
        host, name = names.split_host(exchange)
        return {"scope": names.object_name("Exchange", virtualhost=host, name=name)}
    scope = names.object_name("VirtualHost", name=virtualhost) if virtualhost else "type=Broker"
    return {"scope": scope, **({"pattern": pattern} if pattern else {})}


def _act(ctx: click.Context, verb: str, aim: dict[str, Any], more: dict[str, Any], *, yes: bool, json_: bool) -> None:
    client = client_of(ctx)
    if not yes:
        answer = client.post("stop-producers/preview/", {**aim, "action": verb})
        if not answer["queues"] and not _names_client(aim):
            raise Problem("no queue matches: nothing changed", REFUSED)
        if json_ or not is_interactive():
            producers = output.producers(answer, "producers")
            raise click.UsageError(f"this would {verb} {producers} of {answer['queues']} queues: confirm with --yes")
        output.preview(answer, verb)
        terminal.confirm(f"{verb.capitalize()} them?")
    answer = client.post(f"{verb}-producers/", {**aim, **more})
    if json_:
        terminal.as_json(answer)
    else:
        output.stopped(answer, verb)
    if failed := [each["title"] for each in answer.get("brokers", ()) if each["outcome"] != "done"]:
        raise Problem(f"not {verb}{'ped' if verb == 'stop' else 'ed'} on {', '.join(failed)}", UNREACHABLE)


def _names_client(aim: dict[str, Any]) -> bool:
    """Return whether the aim is restricted to clients, which may be away now: a stop applies when they come back."""
    return any(aim.get(name) for name in ("user", "container_id", "link"))


def _length(ctx: click.Context, param: click.Parameter, value: str | None) -> int:
    if value is None:
        return 0
    try:
        return names.milliseconds(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@cli.command()
@_aim_options
@click.option("--for", "for_ms", callback=_length, help="Resume automatically after this time: 90s, 30m, 2h.")
@click.option(
    "--below",
    type=click.IntRange(1, 100),
    help="Resume automatically at or below this percentage of the queues' capacity.",
)
@click.option(
    "--effect",
    "effects",
    multiple=True,
    type=click.Choice(["trickle", "reject", "cut"]),
    help="Confirm what a stop does on brokers that cannot hold producers; can be repeated.",
)
@click.pass_context
def stop(
    ctx: click.Context,
    /,
    *,
    reason: str,
    yes: bool,
    json_: bool,
    for_ms: int,
    below: int | None,
    effects: tuple[str, ...],
    **aim: Any,
) -> None:
    """Stop the producers of QUEUES or of a wider scope. The affected queues are shown first."""
    given = (("for_ms", for_ms), ("below", below), ("effects", list(effects)))
    more = {"reason": reason, **{name: value for name, value in given if value}}
    _act(ctx, "stop", _aim(**aim), more, yes=yes, json_=json_)


@cli.command()
@_aim_options
@click.option("--only", is_flag=True, help="Lift only the stop of this scope, not those inside it.")
@click.option(
    "--rate",
    type=click.IntRange(1),
    help="Staged start: messages/s into each queue at first, doubled with each step.",
)
@click.option("--step", "step_ms", callback=_length, help="Duration of a step of a staged start (default: 10s).")
@click.option("--halt", type=click.IntRange(1, 100), help="Halt the staged start above this percentage of capacity.")
@click.pass_context
def start(
    ctx: click.Context,
    /,
    *,
    reason: str,
    yes: bool,
    json_: bool,
    only: bool,
    rate: int | None,
    step_ms: int,
    halt: int | None,
    **aim: Any,
) -> None:
    """Start the producers of QUEUES or of a wider scope."""
    if (step_ms or halt) and not rate:
        raise click.UsageError("--step and --halt require --rate")
    more = {
        "reason": reason,
        "only": only,
        **{k: v for k, v in (("rate", rate), ("step_ms", step_ms), ("halt", halt)) if v},
    }
    _act(ctx, "start", _aim(**aim), more, yes=yes, json_=json_)
