"""The Celery application: what the console does later, again, or by the clock. Settings stand in `settings.py`."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("headgate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["console.history"])
