"""The application of brokers that administrators add."""

from __future__ import annotations

from django.apps import AppConfig


class BrokersConfig(AppConfig):
    name = "console.brokers"
    label = "brokers"
