"""The application of bulk edits."""

from __future__ import annotations

from django.apps import AppConfig


class BulkConfig(AppConfig):
    name = "console.bulk"
    label = "bulk"
