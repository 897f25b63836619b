"""The row of a lease. Its table is the history's, which had the first lease: `app_label` keeps it where it is."""

from __future__ import annotations

from django.db import models

from console.leases.leased_row import LeasedRow


class Held(LeasedRow):
    """Who does what only one may do at a time; see `lease.py`. The columns of the lease are older than the others'."""

    name = models.CharField(max_length=40, primary_key=True)
    lease_holder = models.CharField(max_length=200, db_column="holder")
    lease_until = models.DateTimeField(db_column="until")

    class Meta:
        app_label = "history"
