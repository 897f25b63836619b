"""The rules for names of new queues, exchanges and virtual hosts, at any broker. Pure.

Existing objects keep their names and can be managed by them, even if a name breaks these rules.
"""

from __future__ import annotations

from brokers.input_limits import NAME


def new_name_fault(what: str, name: str) -> str:
    """Return why the name is invalid; "" if it is valid. `what`: a word such as "queue"."""
    shown = repr(name if len(name) <= NAME else name[:60] + "…")
    if not name or len(name) > NAME or name != name.strip() or not name.isprintable():
        return f"{shown} cannot be the name of a {what}: 1 to {NAME} printable characters, no blank at the ends"
    if name.startswith("$"):
        return f"{shown} cannot be the name of a {what}: names with $ are the broker's own"
    if {".", ".."}.intersection(name.split("/")):
        return f"{shown} cannot be the name of a {what}: . and .. between slashes are ways through folders, not names"
    return ""
