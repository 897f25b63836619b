"""Names of landing files of a recorder, and the transaction identifiers of the tables. Pure.

A recorder's file is `recorder~<broker>~<sequence>[~<rest>].parquet`. The sequence increases strictly by broker and
kind, also across restarts, so one number says which of them a table contains: the version of the transaction identifier
`landing/<kind>/<broker>` of the table. Delta Lake stores it in the commit of the rows.

Each of the tables `minutes`, `hours` and `days` has the transaction identifier `rolled/<broker>`: its version is the
time, in ms, up to which the table contains the rollups of the broker. They are committed one after the other.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

_DIGITS = 19


def part(name: str) -> str:
    """Encode a text as a part of a file name. Parts are separated by `~`, which the result never contains."""
    return quote(name, safe="").replace("~", "%7E").replace(".", "%2E")


def recorder_file(broker: str, sequence: int, rest: str = "") -> str:
    """Return the name of a recorder's landing file, without its extension. `rest`: encoded by `part`."""
    return f"{recorder_prefix(broker)}{sequence:0{_DIGITS}}{'~' if rest else ''}{rest}"


def recorder_prefix(broker: str) -> str:
    return f"recorder~{part(broker)}~"


def sequence_of(name: str) -> int | None:
    """Return the sequence of a recorder's file; None for another file, or one of a release without sequences."""
    words = name.removesuffix(".parquet").split("~")
    if len(words) < 3 or words[0] != "recorder":
        return None
    return int(words[2]) if len(words[2]) == _DIGITS and words[2].isdecimal() else None


def broker_of(name: str) -> str:
    """Return the broker of a landing file, `<writer>~<broker>~…`; empty if the name has none."""
    words = name.split("~")
    return unquote(words[1]) if len(words) >= 3 else ""


def landed_id(kind: str, broker: str) -> str:
    """Return the transaction identifier of the landing files that a table contains."""
    return f"landing/{kind}/{broker}"


def rolled_id(broker: str) -> str:
    """Return the transaction identifier of the time up to which rollups are in the tables."""
    return f"rolled/{broker}"


def retained_id(broker: str) -> str:
    """Return the transaction identifier of the time, in ms, from which on a table has all rows: retention has deleted
    earlier ones."""
    return f"retained/{broker}"
