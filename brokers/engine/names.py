"""What a queue, an exchange or a virtual host may be called."""

from __future__ import annotations

from brokers.admin import InvalidValue

MAX_NAME = 255


def check_name(what: str, name: str) -> None:
    """Raises InvalidValue with a sentence that names the name."""
    if not name or len(name) > MAX_NAME or name != name.strip() or not name.isprintable():
        raise InvalidValue(
            {
                "name": f"{name!r} cannot be the name of a {what}: 1 to {MAX_NAME} printable characters,"
                " no blank at the ends"
            }
        )
    if name.startswith("$"):
        raise InvalidValue({"name": f"{name!r} cannot be the name of a {what}: names with $ are the broker's own"})
