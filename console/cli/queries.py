"""Read-only commands: list, why, watch."""

from __future__ import annotations

import sys
import time

import click

from console.cli import names, output, terminal
from console.cli.group import cli, client_of, json_option, queue_names
from console.cli.queue_list import all_queues

STATES = ("NORMAL", "OVERFULL", "STOPPED", "OVERFULL_STOPPED")
QUICK_FILTERS = ("blocked", "nearly-full", "no-consumers")
#: Seconds between two polls for new events.
_PAUSE = 1.0


@cli.command(name="list")
@click.argument("search", required=False)
@click.option("--virtualhost", "-v", help="Only this virtual host.")
@click.option(
    "--state",
    "-s",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only queues in this state; can be repeated.",
)
@click.option(
    "--only",
    "-o",
    multiple=True,
    type=click.Choice(QUICK_FILTERS),
    help="Only queues with blocked producers, nearly full ones, or those without consumers; repeated: all of these.",
)
@click.option(
    "--sort",
    default="-blocked_producers,-depth_messages",
    show_default=True,
    help="Sort by these attributes; - for descending.",
)
@click.option("--limit", "-n", default=0, help="Maximum number of queues. 0: all.")
@json_option
@click.pass_context
def list_(
    ctx: click.Context,
    *,
    search: str | None,
    virtualhost: str | None,
    state: tuple[str, ...],
    only: tuple[str, ...],
    sort: str,
    limit: int,
    json_: bool,
) -> None:
    """List queues: state, depth, blocked producers, consumers, rates. SEARCH: text in the name."""
    query = {"search": search or "", "virtualhost": virtualhost, "state": list(state), "only": list(only)}
    rows = all_queues(client_of(ctx), query, sort=sort, limit=limit)
    return terminal.as_json(rows) if json_ else output.queues(rows)


@cli.command()
@click.argument("queue", shell_complete=queue_names)
@json_option
@click.pass_context
def why(ctx: click.Context, queue: str, json_: bool) -> None:
    """Explain why QUEUE (name, virtualhost/name, or the object name of a producer) is blocked, and until when."""
    answer = client_of(ctx).get("why/", object=names.queue(queue))
    return terminal.as_json(answer) if json_ else output.why(answer)


@cli.command()
@click.option(
    "--queue",
    "-q",
    "wanted",
    multiple=True,
    shell_complete=queue_names,
    help="Only events about this queue; can be repeated.",
)
@click.option("--kind", "-k", multiple=True, help="Only this kind of event, such as queue-overfull; can be repeated.")
@click.option("--after", type=int, help="Start after the event with this number (default: new events only).")
@click.option("--count", "-n", default=0, help="Exit after this many events. 0: run until Ctrl-C.")
@json_option
@click.pass_context
def watch(
    ctx: click.Context, *, wanted: tuple[str, ...], kind: tuple[str, ...], after: int | None, count: int, json_: bool
) -> None:
    """Print every event as it occurs; with --json, one per line. Events that the broker no longer retains are reported
    as lost; with --json by an object {"lost": {"first": …, "last": …}}, or {"restarted": true} if it has lost them all
    and counts from the beginning."""
    client, queues = client_of(ctx), {names.queue(text) for text in wanted}
    position = client.get("events/", count=1)["newest"] if after is None else after
    printed = 0
    while True:
        page = client.get("events/", after=position, count=1000)
        if page["expired_before"] is not None:
            output.gap(position, page["expired_before"], json_=json_)
            position = page["expired_before"] - 1
        for event in page["events"]:
            about = {event["object"], str(event["attributes"].get("queue"))}
            if (queues and not about & queues) or (kind and event["kind"] not in kind):
                continue
            if json_:
                terminal.as_json(event, indent=None)
            else:
                output.event(event)
            printed += 1
            if count and printed >= count:
                return
        sys.stdout.flush()
        position = max(position, page["last"])
        if position >= page["newest"]:
            time.sleep(_PAUSE)  # the API has no push: poll
