"""Django application of schedules."""

from __future__ import annotations

from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    name = "console.schedules"
    label = "schedules"
