"""The row of a named lease. `app_label` and `db_table` are those of the history, which had the first lease."""

from __future__ import annotations

from django.db import models

from console.leases.leased_row import LeasedRow


class Lease(LeasedRow):
    """A named lease; see `lease.py`. Its columns have the names of the first version."""

    name = models.CharField(max_length=40, primary_key=True)
    lease_holder = models.CharField(max_length=200, db_column="holder")
    lease_until = models.DateTimeField(db_column="until")

    class Meta:
        app_label = "history"
        db_table = "history_held"
