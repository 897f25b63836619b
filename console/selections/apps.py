"""The application of saved selections."""

from __future__ import annotations

from django.apps import AppConfig


class SelectionsConfig(AppConfig):
    name = "console.selections"
    label = "selections"
