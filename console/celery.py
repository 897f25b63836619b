"""The Celery application: background and periodic tasks. Its settings are in `settings.py`.

It is at the top of the project, where Celery looks for it, with `file_transport.py`, which it registers.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from console.file_transport import register

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Django's checks would load every page, and with them 130 MB of libraries that no task needs.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
register()

app = Celery("headgate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["console.access", "console.history", "console.bulk", "console.alerts", "console.schedules"])

log = logging.getLogger(__name__)


def send(task: Any, *arguments: Any) -> None:
    """Queue a task. If the message cannot be sent, the next sweep finds the work, which is a database row."""
    try:
        task.apply_async(arguments, retry=False)
    except (OperationalError, OSError) as error:
        log.warning(
            "%s%s could not be sent to the workers (%s): the next sweep will find the work", task.name, arguments, error
        )
