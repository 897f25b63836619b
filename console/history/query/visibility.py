"""Visibility of the history: queries return no rows of brokers and virtual hosts that the user may not view.

Rows about a whole broker, and stops of all its producers, are visible to every user with permission for a part of it.
"""

from __future__ import annotations

import json

from console.history.storage.reader import Reader, columns_of
from console.permissions.rights import Grant, Rights, Role


def as_visible(reader: Reader, rights: Rights) -> Reader:
    """Return the reader for a user with these rights."""
    grants = [grant for grant in rights.grants if grant.includes(Role.VIEWER)]
    if any(not grant.broker and not grant.virtualhost for grant in grants):
        return reader
    return reader.only(lambda table: condition(table, grants))


def condition(table: str, grants: list[Grant]) -> str:
    """Return the SQL condition of the visible rows of a table; "": all rows."""
    columns = {name for name, _ in columns_of(table)}
    if "broker" not in columns:
        return ""
    return " OR ".join(f"({_of(grant, columns)})" for grant in grants) or "false"


def _of(grant: Grant, columns: set[str]) -> str:
    parts = [f"broker = {_text(grant.broker)}"] if grant.broker else []
    if grant.virtualhost and "virtualhost" in columns:
        of_broker = ["virtualhost IS NULL"]
        if "object_type" in columns:
            of_broker.append("(object_type IS NULL OR object_type = 'Broker')")
        if "scope" in columns:
            of_broker.append(f"(scope IS NULL OR {_scopes(grant.virtualhost)})")
        parts.append(f"(virtualhost = {_text(grant.virtualhost)} OR ({' AND '.join(of_broker)}))")
    return " AND ".join(parts) or "true"


def _scopes(virtualhost: str) -> str:
    """Return the SQL condition of stops of the virtual host, its objects and the whole broker
    (`storage/stop_scopes.py`)."""
    host = json.dumps(virtualhost, ensure_ascii=False)
    names = {host} if any(c in virtualhost for c in ' /"') else {host, virtualhost}
    tests = ["scope = 'broker'", "starts_with(scope, 'broker ')"]
    for name in sorted(names):
        tests.append(f"scope = {_text(f'virtualhost {name}')}")
        tests.append(f"starts_with(scope, {_text(f'virtualhost {name} ')})")
        tests += [f"starts_with(scope, {_text(f'{kind} {name}/')})" for kind in ("queue", "exchange")]
    return f"({' OR '.join(tests)})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
