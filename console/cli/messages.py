"""Commands on the messages of a queue, and the list of dead-letter queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import click

from console.cli import message_output, names, terminal
from console.cli.client import Client
from console.cli.group import Group, cli, client_of, is_interactive, json_option, queue_names
from console.cli.problems import REFUSED, Problem

F = TypeVar("F", bound=Callable[..., Any])

#: Seconds between two looks at a job.
_PAUSE = 1.0
_PAGE = 200

_QUEUE = click.argument("queue", shell_complete=queue_names)
_REASON = click.option("--reason", "-r", default="", help="Reason, recorded in the audit trail.")
_YES = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")

#: Option of a filter -> parameter of the API.
_FILTERS = {
    "selector": "selector",
    "properties": "property",
    "older_than": "older_than",
    "newer_than": "newer_than",
    "min_size": "min_size",
    "max_size": "max_size",
    "min_redeliveries": "min_redeliveries",
    "max_redeliveries": "max_redeliveries",
    "state": "state",
    "dead_letter_reason": "reason",
    "source": "source",
}
#: Options whose name is not that of their parameter.
_NAMES = {"properties": "property"}


def _filter_options(command: F) -> F:
    options = (
        click.option("--selector", help="Messages that a JMS selector matches."),
        click.option("--property", "properties", multiple=True, help="Property as NAME=VALUE; can be repeated."),
        click.option("--older-than", help="Arrived longer ago: 90s, 10m, 2h."),
        click.option("--newer-than", help="Arrived within this time."),
        click.option("--min-size", type=click.IntRange(0), help="Minimum size, bytes."),
        click.option("--max-size", type=click.IntRange(0), help="Maximum size, bytes."),
        click.option("--min-redeliveries", type=click.IntRange(0), help="Minimum number of failed deliveries."),
        click.option("--max-redeliveries", type=click.IntRange(0), help="Maximum number of failed deliveries."),
        click.option("--state", type=click.Choice(["available", "acquired", "delayed"]), help="State of the messages."),
        click.option("--dead-letter-reason", help="Dead letters with this reason."),
        click.option("--source", help="Dead letters from this queue, by its name."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _filter(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the API. An empty text, such as of an unset variable of a shell, would be no filter, and
    select all messages. Raises UsageError."""
    found = {option: given[option] for option in _FILTERS if given[option] not in (None, ())}
    for option, value in found.items():
        if value == "" or (isinstance(value, tuple) and "" in value):
            raise click.UsageError(
                f"--{_NAMES.get(option, option).replace('_', '-')} is empty: omit it, or give a value"
            )
    return {_FILTERS[option]: list(value) if isinstance(value, tuple) else value for option, value in found.items()}


@cli.group(cls=Group)
def messages() -> None:
    """List, show, move, copy, retry, delete, purge and publish messages of a queue."""


@messages.command(name="list")
@_QUEUE
@_filter_options
@click.option("--unacknowledged", is_flag=True, help="Acquired messages first, the oldest first.")
@click.option("--limit", "-n", type=click.IntRange(0), default=50, show_default=True, help="0: all.")
@json_option
@click.pass_context
def list_(ctx: click.Context, /, *, queue: str, unacknowledged: bool, limit: int, json_: bool, **given: Any) -> None:
    """List messages of QUEUE, without bodies, and without taking any."""
    query = {**_filter(given), "order": "unacknowledged" if unacknowledged else "queue"}
    rows, more = _listed(client_of(ctx), names.queue(queue), query, limit)
    return terminal.as_json(rows) if json_ else message_output.messages(rows, more=more)


def _listed(client: Client, name: str, query: Mapping[str, Any], limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return messages, at most `limit` (0: all), and whether there may be more."""
    rows: list[dict[str, Any]] = []
    after = None
    while True:
        count = min(_PAGE, limit - len(rows)) if limit else _PAGE
        page = client.get("messages/", object=name, **query, after=after, count=count)
        rows += page["results"]
        after = page["next"]
        if after is None or (limit and len(rows) >= limit):
            return rows, after is not None


@messages.command()
@_QUEUE
@click.argument("identifier", metavar="ID")
@click.option("--output", "-o", "file", type=click.File("wb", lazy=True), help="Write the whole body to a file.")
@json_option
@click.pass_context
def show(ctx: click.Context, queue: str, identifier: str, file: Any, json_: bool) -> None:
    """Show one message of QUEUE with its body. Needs the role of message reader, and is audited."""
    client, path = client_of(ctx), f"messages/{quote(identifier, safe='')}/"
    if file is not None:
        return client.download(f"{path}body/", file, object=names.queue(queue))
    answer = client.get(path, object=names.queue(queue))
    return terminal.as_json(answer) if json_ else message_output.message(answer)


# -- acting -----------------------------------------------------------------------------------------------------------


def _act_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--all", "everything", is_flag=True, help="All messages of the queue."),
        click.option("--no-wait", is_flag=True, help="Print the number of the job and do not wait for its end."),
        _REASON,
        _YES,
        json_option,
        click.pass_context,
    )
    for option in reversed(options):
        command = option(command)
    return _filter_options(command)


_IDS = click.argument("ids", nargs=-1, metavar="[ID]...")


@messages.command()
@_QUEUE
@click.argument("target")
@_IDS
@_act_options
def move(ctx: click.Context, /, *, queue: str, target: str, ids: tuple[str, ...], **given: Any) -> None:
    """Move messages of QUEUE to the queue TARGET of the same virtual host: those with an ID, or that a filter finds.

    In the dead-letter queue of QUEUE they are dead letters, with the reason moved-by-operator, which retry moves back.
    """
    _act(ctx, "move", {"queue": queue, "ids": ids, "to": target, **given})


@messages.command()
@_QUEUE
@click.argument("target")
@_IDS
@_act_options
def copy(ctx: click.Context, /, *, queue: str, target: str, ids: tuple[str, ...], **given: Any) -> None:
    """Copy messages of QUEUE to the queue TARGET of the same virtual host."""
    _act(ctx, "copy", {"queue": queue, "ids": ids, "to": target, **given})


@messages.command()
@_QUEUE
@_IDS
@_act_options
def retry(ctx: click.Context, /, *, queue: str, ids: tuple[str, ...], **given: Any) -> None:
    """Move dead letters of QUEUE back to the queues that they come from."""
    _act(ctx, "retry", {"queue": queue, "ids": ids, **given})


@messages.command()
@_QUEUE
@_IDS
@_act_options
def delete(ctx: click.Context, /, *, queue: str, ids: tuple[str, ...], **given: Any) -> None:
    """Delete messages of QUEUE. They cannot be restored."""
    _act(ctx, "delete", {"queue": queue, "ids": ids, **given})


def _act(ctx: click.Context, action: str, given: Mapping[str, Any]) -> None:
    """Preview, confirm and do it; a filter makes it a job, whose end is waited for. `given`: the options."""
    client, name, query = client_of(ctx), names.queue(given["queue"]), _filter(given)
    ids, json_ = given["ids"], given["json_"]
    target = {"to": given["to"]} if "to" in given else {}
    if sum(map(bool, (ids, query, given["everything"]))) != 1:
        raise click.UsageError("select messages by one of: IDs, a filter, --all")
    # The console reads the filter as it does for a list, so that both find the same messages.
    match = None if ids else client.get("messages/", object=name, **query, count=1)["match"]
    body = {"object": name, **target, "reason": given["reason"], **({"ids": list(ids)} if ids else {"match": match})}
    if not given["yes"]:
        found = client.post(f"messages/{action}/", {**body, "preview": True})
        if not found["messages"]:
            raise Problem(f"no message to {action}: nothing changed", REFUSED)
        sentence = message_output.preview(found, action, given.get("to", ""))
        if json_ or not is_interactive():
            raise click.UsageError(f"{sentence}: confirm with --yes")
        terminal.line(f"{sentence}.")
        if found["blocked"]:
            terminal.line(f"Blocked now: {found['blocked']}")
        terminal.confirm(f"{action.capitalize()} them?")
    answer = client.post(f"messages/{action}/", body)
    if "job" in answer:
        answer = answer["job"] if given["no_wait"] else _ended(client, answer["job"], quiet=json_)
    if json_:
        terminal.as_json(answer)
    else:
        message_output.done(answer, action)
    if answer.get("state") == "interrupted" or answer["blocked"]:
        ctx.exit(1)


def _ended(client: Client, job: Mapping[str, Any], *, quiet: bool) -> Mapping[str, Any]:
    """Wait for the end of a job. Ctrl-C ends the command and not the job."""
    said = ""
    try:
        while job["state"] == "running":
            if job["blocked"] != said and not quiet:
                said = job["blocked"]
                terminal.line(f"Waits: {said}" if said else "Goes on.", err=True)
            time.sleep(_PAUSE)
            job = client.get(f"message-jobs/{job['id']}/")
    except KeyboardInterrupt:
        terminal.line(err=True)
        terminal.line(f"Job {job['id']} goes on in the console.", err=True)
        raise click.Abort from None
    return job


@messages.command()
@_QUEUE
@_REASON
@_YES
@json_option
@click.pass_context
def purge(ctx: click.Context, *, queue: str, reason: str, yes: bool, json_: bool) -> None:
    """Remove every message of QUEUE that no consumer has acquired. They cannot be restored."""
    client, name = client_of(ctx), names.queue(queue)
    slug = client.broker or client.get("brokers/")[0]["slug"]
    path = f"brokers/{quote(slug, safe='')}/objects/{quote(name, safe='')}/"
    if not yes:
        row = client.get(path)["attributes"]
        sentence = message_output.purge(row)
        if json_ or not is_interactive():
            raise click.UsageError(f"{sentence}: confirm with --yes")
        terminal.line(f"{sentence}.")
        terminal.confirm("Purge the queue?")
    answer = client.post(f"{path}operations/purge/", {"arguments": {"reason": reason}})
    return terminal.as_json(answer) if json_ else message_output.purged(answer)


@messages.command()
@_QUEUE
@click.option("--body", "-b", help="Body as text.")
@click.option("--file", "-f", "file", type=click.File("rb"), help="File with the body; -: standard input.")
@click.option("--property", "properties", multiple=True, help="Standard property as NAME=VALUE; can be repeated.")
@click.option("--application-property", "own", multiple=True, help="NAME=VALUE; can be repeated.")
@click.option("--priority", type=click.IntRange(0, 9), help="Priority (default: 4).")
@click.option("--ttl", default="", help="Time to live: 90s, 10m, 2h.")
@click.option("--not-durable", is_flag=True, help="Do not store it.")
@_REASON
@json_option
@click.pass_context
def publish(
    ctx: click.Context,
    /,
    *,
    queue: str,
    body: str | None,
    file: Any,
    properties: tuple[str, ...],
    own: tuple[str, ...],
    priority: int | None,
    ttl: str,
    not_durable: bool,
    reason: str,
    json_: bool,
) -> None:
    """Publish a test message to QUEUE, and print what came of it. Needs the role of publisher."""
    if (body is None) == (file is None):
        raise click.UsageError("give the body by one of --body, --file")
    content = {"body": body} if file is None else message_output.base64_body(file.read())
    request = {
        "object": names.queue(queue),
        **content,
        "durable": not not_durable,
        "ttl": ttl,
        "properties": _pairs("--property", properties),
        "application_properties": _pairs("--application-property", own),
        "reason": reason,
        **({} if priority is None else {"priority": priority}),
    }
    answer = client_of(ctx).post("messages/publish/", request)
    if json_:
        terminal.as_json(answer)
    else:
        terminal.line(f"{answer['outcome']}: {answer['sentence']}")
    if answer["outcome"] != "accepted":
        ctx.exit(1)


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} is {text!r}: it must be NAME=VALUE")
        found[name] = value
    return found


@cli.command(name="dead-letters")
@click.argument("queue", required=False, shell_complete=queue_names)
@json_option
@click.pass_context
def dead_letters(ctx: click.Context, queue: str | None, json_: bool) -> None:
    """List the dead-letter queues; with QUEUE, its dead letters by reason and by the queue that they come from."""
    client = client_of(ctx)
    if queue is None:
        rows = client.get("dead-letters/")["results"]
        return terminal.as_json(rows) if json_ else message_output.dead_letter_queues(rows)
    answer = client.get("messages/summary/", object=names.queue(queue))
    return terminal.as_json(answer) if json_ else message_output.groups(answer)
