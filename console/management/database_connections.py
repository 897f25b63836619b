"""Connections to the database that outlast one task.

Django closes a connection after each request or task, and the Celery scheduler does each second: in a process with
nothing to do, opening it again was most of the work. Processes with few threads that stay call `retain_connections`;
the web process does not, since its threads come and go.
"""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS, connections

#: Age after which a connection is opened again, s.
AGE = 600


def retain_connections() -> None:
    """Reuse the connections of this process. One that has failed is replaced."""
    connections.settings[DEFAULT_DB_ALIAS]["CONN_MAX_AGE"] = AGE
