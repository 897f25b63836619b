"""Django's entry to the history: the records of its runs."""

from __future__ import annotations

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    name = "console.history"
    label = "history"
    verbose_name = "History"
