"""The row of a lease. Its table is the history's, which had the first lease: `app_label` keeps it where it is."""

from __future__ import annotations

from django.db import models


class Held(models.Model):
    """Who does what only one may do at a time; see `lease.py`. `until`: the holder is taken for dead after that."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=200)
    until = models.DateTimeField()

    class Meta:
        app_label = "history"
