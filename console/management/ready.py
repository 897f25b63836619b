"""Check at the start of a process that the console's database has the schema of this version."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor


def require_database() -> None:
    """Raise CommandError if the database cannot be reached or has unapplied migrations."""
    try:
        executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
        unapplied = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except OperationalError as error:
        raise CommandError(f"cannot use the console's database: {error}") from error
    if unapplied:
        raise CommandError(
            "the console's database has unapplied migrations: run `headgate migrate` first (`headgate up` does so"
            " automatically)"
        )
