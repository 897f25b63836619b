"""The application of the users' preferences."""

from __future__ import annotations

from django.apps import AppConfig


class PreferencesConfig(AppConfig):
    name = "console.preferences"
    label = "preferences"
