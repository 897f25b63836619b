"""What a queue, an exchange or a virtual host may be called."""

from __future__ import annotations

from brokers.admin import InvalidValue

MAX_NAME = 255


def check_name(what: str, name: str) -> None:
    """Raises InvalidValue with a sentence that names the name."""
    if fault := name_fault(what, name):
        raise InvalidValue({"name": fault})


def name_fault(what: str, name: str) -> str:
    """What is wrong with the name; "" if nothing is."""
    if not name or len(name) > MAX_NAME or name != name.strip() or not name.isprintable():
        return f"{name!r} cannot be the name of a {what}: 1 to {MAX_NAME} printable characters, no blank at the ends"
    if name.startswith("$"):
        return f"{name!r} cannot be the name of a {what}: names with $ are the broker's own"
    return ""
