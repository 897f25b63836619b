"""Everything that the command line prints for people goes through here, and every question.

Names of queues, container-ids, reasons and texts of messages come from others, who must not control the terminal of the
one who looks at them: a text is one line, and its control characters, and those that change its direction, are shown as
escapes. In JSON they are escapes, too, of JSON's own syntax.
"""

from __future__ import annotations

import json
from typing import Any

import click


def harmless(text: str) -> str:
    r"""Return the text as one line, with escapes for what is not printable: `\n`, `\u001b`, `\u202e`."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def line(text: str = "", *, bold: bool = False, colour: str | None = None, err: bool = False) -> None:
    """Print one line. `err`: to standard error."""
    click.secho(harmless(text), bold=bold, fg=colour, err=err)


def fault(text: str) -> None:
    """Print what is wrong, as one line."""
    line(f"! {text}", colour="red")


def as_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON; without `indent` as one line."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    click.echo("".join(c if c == "\n" or c.isprintable() else _json_escape(c) for c in text))


def verbatim(text: str) -> None:
    """Print a text of this program, of several lines."""
    click.echo(text)


def confirm(question: str) -> None:
    """Ask, and end the command unless the answer is yes."""
    click.confirm(harmless(question), abort=True)


def secret(what: str) -> str:
    """Ask for a secret, which is not shown."""
    return str(click.prompt(harmless(what), hide_input=True))


def _escape(character: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    return short or (f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}")


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) > 127 else f"\\u{ord(character):04x}"
