"""Whether the console's database is that of this version: a process that needs it says so at once, and what to do."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor


def require_database() -> None:
    """Raises CommandError: it cannot be reached, or lacks tables of this version."""
    try:
        executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except OperationalError as error:
        raise CommandError(f"the console's database cannot be used: {error}") from error
    if waiting:
        raise CommandError(
            "the console's database is not that of this version yet: run `manage.py migrate` first (`manage.py up` does"
            " so by itself)"
        )
