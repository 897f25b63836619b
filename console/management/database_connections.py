"""Connections to the database that outlast one look.

Before each look for saved tasks django-celery-beat closes a connection that has reached its age, which is 0 by default:
in a process with nothing to do, opening it again was most of the work. Beat, with a few threads that stay, calls
`retain_connections`; the web process does not, since its threads come and go, and Celery's worker closes them anyway.
"""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS, connections

#: Age after which a connection is opened again, s.
AGE = 600


def retain_connections() -> None:
    """Reuse the connections of this process. One that has failed is replaced."""
    connections.settings[DEFAULT_DB_ALIAS]["CONN_MAX_AGE"] = AGE
