"""The application of message jobs."""

from __future__ import annotations

from django.apps import AppConfig


class MessagesConfig(AppConfig):
    name = "console.messages"
    label = "message_jobs"  # Django's own application is called messages
