"""The README's table of what each kind of broker can do is what the adapters declare.

`uv run python -m tests.adapters.test_kinds_table` prints the table.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from brokers.adapters.kinds import KINDS, Account
from brokers.model import TYPES, ManagedType

README = Path(__file__).parents[2] / "README.md"
HEAD = (
    "| kind | stop of a queue | stop of all | blocked producers | limits of a queue | policies |",
    "|---|---|---|---|---|---|",
)


def table() -> list[str]:
    rows = [row("Headgate", TYPES)]
    for kind in KINDS.values():
        adapter = kind.open(Account("http://127.0.0.1:1"), lambda: 0)
        rows.append(row(kind.title, adapter.types))
        asyncio.run(adapter.close())
    return [*HEAD, *rows]


def row(title: str, types: Mapping[str, ManagedType]) -> str:
    queue = types["Queue"]
    limits = [a.name for a in queue.writable if a.name.startswith("capacity_")]
    policy = types.get("Policy")
    cells = [
        title,
        stop(queue),
        stop(types["Broker"]),
        "by queue" if queue.attribute("blocked_producers") else "by client" if "Producer" in types else "no",
        ", ".join(name.removeprefix("capacity_") for name in sorted(limits)) or "read only",
        "no"
        if policy is None
        else "yes"
        if policy.creatable
        else "changed, not created"
        if policy.writable
        else "read",
    ]
    return f"| {' | '.join(cells)} |"


def stop(declared: ManagedType) -> str:
    operation = declared.operation("stop-producers")
    return operation.producer_effect if operation is not None else "no"


def test_readme_has_the_table_of_what_each_kind_can_do() -> None:
    lines = README.read_text().splitlines()
    at = lines.index(HEAD[0])
    assert lines[at : at + len(table())] == table()


if __name__ == "__main__":
    sys.stdout.write("\n".join([*table(), ""]))
