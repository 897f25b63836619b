"""Formatting of API responses for a terminal: tables, times, counts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from console.cli import terminal
from console.cli.names import label, short_name

_SIGNS = {"update": "~", "create": "+", "delete": "-"}
_STATES = {"OVERFULL": "red", "OVERFULL_STOPPED": "red", "STOPPED": "yellow"}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Print a table. `right`: indexes of right-aligned columns."""
    shown = [[terminal.harmless(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[i]) for row in shown) for i in range(len(heads))]
    ends = set(right)
    for number, row in enumerate(shown):
        cells = [
            cell.rjust(width) if i in ends else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        colour = _STATES.get(row[1].replace(" ", "_").upper()) if number and len(row) > 1 else None
        terminal.line(line, bold=not number, colour=colour)


def queues(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        terminal.line("No queue matches.")
        return
    table(
        ("QUEUE", "STATE", "DEPTH", "OF", "BLOCKED", "CONSUMERS", "IN/S", "OUT/S"),
        [
            (
                label(row["virtualhost"], row["name"]),
                state(row.get("state") or "-"),
                _figure(row.get("depth_messages")),
                _figure(row.get("effective_capacity_messages") or None),
                f"{_figure(row.get('blocked_producers'))}/{_figure(row.get('producers'))}",
                _figure(row.get("consumers")),
                _figure(row.get("rate_in")),
                _figure(row.get("rate_out")),
            )
            for row in rows
        ],
        right=(2, 3, 4, 5, 6, 7),
    )


def brokers(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        terminal.line("No broker matches.")
        return
    table(
        ("SLUG", "KIND", "STATE", "TAGS", "TITLE"),
        [(row["slug"], row["kind"], _link_state(row), ",".join(row["tags"]) or "-", row["title"])
         for row in rows],
    )  # fmt: skip


def _link_state(row: Mapping[str, Any]) -> str:
    if row["paused"]:
        return "paused"
    if row["connected"]:
        return "connected"
    return f"disconnected: {row['error']}" if row["error"] else "disconnected"


def findings(answer: Mapping[str, Any], *, to_stderr: bool = False) -> None:
    """Print what a test of a broker found, a sentence a line; first what works, then what is missing."""
    for finding in answer["findings"]:
        if finding["text"]:
            terminal.line(f"  {finding['text']}", err=to_stderr)
    for finding in answer["findings"]:
        if finding["fault"]:
            terminal.line(f"! {finding['fault']}", colour="red", err=to_stderr)
    if answer["ok"]:
        terminal.line("Nothing is missing.", err=to_stderr)


def broker_changes(answer: Mapping[str, Any]) -> None:
    """Print the differences between a file of brokers and the console."""
    for change in answer["changes"]:
        was = change["was"]
        fields = ", ".join(
            f"{name} {_value(was[name])} -> {_value(value)}" if name in was else f"{name} {_value(value)}"
            for name, value in change["attributes"].items()
            if value not in ("", []) or name in was
        )
        line = f"{_SIGNS[change['action']]} {change['slug']}{': ' if fields else ''}{fields}"
        terminal.line(line)
    for sentence in answer["problems"].values():
        terminal.fault(sentence)
    if answer["left_alone"]:
        terminal.line(f"Not in the file, and stay (--prune removes them): {', '.join(answer['left_alone'])}.")
    if not answer["changes"] and not answer["problems"]:
        terminal.line("No differences.")


def state(text: str) -> str:
    return text.replace("_", " ").lower()


def why(answer: Mapping[str, Any]) -> None:
    terminal.line(answer["summary"], bold=True)
    for note in answer["notes"]:
        terminal.line(note)
    for cause in answer["causes"]:
        terminal.line()
        terminal.line(cause["title"] + (f", since {when(cause['since'])}" if cause.get("since") else ""))
        for limit in cause.get("limits") or []:
            at = "stops at {:,}, resumes below" if limit.get("resumes_below") else "stops above {:,}, resumes at {:,}"
            levels = at.format(limit["stop"], limit["resume"])
            terminal.line(f"  {limit['unit']}: {_count(limit['depth'])} now; {levels}")
            for field in limit.get("fields") or []:
                terminal.line(
                    f"    {field['field']} = {field.get('value')} from {field.get('origin') or 'an unknown origin'}"
                )
        if cause.get("reason"):
            terminal.line(f"  {cause['actor'] or 'unknown'}: {cause['reason']}")
        terminal.line(f"  {resumes(cause)}")
    terminal.line()
    terminal.line(f"Consumers ({_count(answer['consumers_total'])}):")
    for consumer in answer["consumers"][:20]:
        terminal.line(f"  {consumer['object']}: {consumer['doing']}")
    first = ", the blocked ones first:" if answer["producers"] else ""
    terminal.line(f"Producers ({_count(answer['producers_total'])}){first}")
    for producer in answer["producers"][:20]:
        terminal.line(f"  {producer.get('client') or producer['object']}: {state(producer['state'] or 'not known')}")


def _figure(number: float | None) -> str:
    """Return a number for a table: "-" is unknown, or none."""
    return "-" if number is None else f"{number:,.0f}"


def _count(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"


def resumes(cause: Mapping[str, Any]) -> str:
    known = cause.get("resume_ms")
    because = cause.get("because") or ""
    time = f"resumes in about {duration(known)}" if known is not None else "resume time unknown"
    return f"{time}: {because}" if because else time


def duration(ms: int) -> str:
    """Return a duration in ms in its largest unit, such as 3 min."""
    seconds = round(ms / 1000)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{seconds} s"


def when(ms: int) -> str:
    """Return a time, ms since the epoch, in the local time zone."""
    return dt.datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def preview(answer: Mapping[str, Any], verb: str) -> None:
    terminal.line(f"This {verb} affects {producers(answer)} of {_many(answer['queues'], 'queue')}.")
    if answer.get("cannot"):
        terminal.line(f"This cannot be done: {answer['cannot']}.")
    for each in answer.get("brokers") or ([answer] if verb == "stop" and answer.get("remark") else []):
        _broker(each, verb)
    for row in answer.get("largest") or []:
        depth = "-" if row["depth_messages"] is None else _many(row["depth_messages"], "message")
        terminal.line(f"  {label(row['virtualhost'], row['name'])}: {producers(row)}, {depth}")


def _broker(entry: Mapping[str, Any], verb: str) -> None:
    """Print what a stop or start does on one broker."""
    title = entry.get("title", "Here")
    if entry.get("error"):
        terminal.line(f"  {title}: not connected, nothing will be done there: {entry['error']}")
    elif entry["cannot"]:
        terminal.line(f"  {title}: cannot: {entry['cannot']}")
    else:
        effect = f", effect {entry['effect']}: {entry['remark']}" if verb == "stop" and entry["effect"] else ""
        terminal.line(f"  {title}: {_many(entry['queues'], 'queue')}, {producers(entry)}{effect.removesuffix(': ')}")


def producers(answer: Mapping[str, Any], unknown: str = "an unknown number of producers") -> str:
    """Return the number of producers in words; one that misses unknown values is a lower limit."""
    if answer.get("producers") is None:
        return unknown
    least = "at least " if "producers" in answer.get("at_least", ()) else ""
    return f"{least}{_many(answer['producers'], 'producer')}"


def stopped(answer: Mapping[str, Any], verb: str) -> None:
    done = "Nothing to change" if not answer.get("changed", True) else f"{verb.capitalize()} done"
    known = [f"{answer[name]:,} {name}" for name in ("stopped", "draining") if answer.get(name) is not None]
    counts = f"; {', '.join(known)}" if known else ""
    terminal.line(f"{done}: {_many(answer['queues'], 'queue')}, {producers(answer)}{counts}.")
    if answer.get("unstoppable"):
        terminal.line(f"{_many(answer['unstoppable'], 'queue')} cannot be stopped: the producers go on.")
    for each in answer.get("brokers") or ():
        terminal.line(f"  {each['title']}: {_outcome(each)}")


def _outcome(entry: Mapping[str, Any]) -> str:
    if entry["outcome"] == "unknown":
        return f"not known whether it was done: {entry['error']}"
    if entry["outcome"] != "done":
        return f"{entry['outcome']}: {entry['error']}"
    return (
        f"{'done' if entry['changed'] else 'nothing to change'}: {_many(entry['queues'], 'queue')}, {producers(entry)}"
    )


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def event(answer: Mapping[str, Any]) -> None:
    terminal.line(f"{when(answer['at'])}  {answer['kind']:<20}  {answer['text']}")


def gap(position: int, retained: int, *, json_: bool) -> None:
    """Print that the events after `position` and before the one with the number `retained` are lost."""
    first, last = position + 1, retained - 1
    if last < first:  # its numbers are lower than those that it had sent
        found: dict[str, Any] = {"restarted": True}
        said = f"the broker counts its events from the beginning: those after {position:,} are lost"
    else:
        found = {"lost": {"first": first, "last": last}}
        which = f"event {first:,} is" if first == last else f"events {first:,} to {last:,} are"
        said = f"{which} no longer retained by the broker, and not shown"
    if json_:
        terminal.as_json(found, indent=None)
    else:
        terminal.fault(said)


def changes(answer: Mapping[str, Any]) -> None:
    for change in answer["changes"]:
        fields = ", ".join(
            f"{field} {_value(change['was'].get(field))} -> {_value(value)}"
            if change["action"] == "update"
            else f"{field} {value}"
            for field, value in change["attributes"].items()
        )
        terminal.line(f"{_SIGNS[change['action']]} {short_name(change['object'])}{': ' if fields else ''}{fields}")
    for place, sentence in answer["problems"].items():
        terminal.fault(sentence if not place or place in sentence else f"{place}: {sentence}")
    if answer["left_alone"]:
        terminal.line(
            f"{len(answer['left_alone'])} objects are not in the file and stay as they are"
            " (--prune removes their settings)."
        )
    if answer["changes"] and not answer["problems"] and answer.get("preview") is None:
        terminal.line("Impact not known: the broker cannot preview changes.")
    if effect := answer.get("preview"):
        known = {name: _many_of(value) for name, value in effect.items()}
        terminal.line(
            "{changed} of {queues} queues affected: {overfull} become overfull, {underfull} underfull;"
            " {blocked} producers blocked, {unblocked} unblocked.".format(**known)
        )


def _many_of(value: Any) -> Any:
    return "an unknown number of" if value is None else value


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return "not set" if value is None else str(value)
