"""Django application of role assignments and tokens."""

from __future__ import annotations

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "console.access"
    label = "access"
