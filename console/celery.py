"""The Celery application: background and periodic tasks. Its settings are in `settings.py`.

It is at the top of the project, where Celery looks for it, with `file_transport.py`, which it registers.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from celery import Celery, signals
from kombu.exceptions import OperationalError

from brokers import log_records
from console.file_transport import register

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Django's checks would load every page, and with them 130 MB of libraries that no task needs.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
register()

app = Celery("headgate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "console.access",
        "console.history",
        "console.bulk",
        "console.messages",
        "console.alerts",
        "console.schedules",
    ]
)

log = logging.getLogger(__name__)

_REQUEST = "headgate_request_id"


def _attach_request(headers: dict[str, Any], **_: Any) -> None:
    """Let the task know which request sent it, also through tasks that it sends."""
    if name := log_records.field("request_id"):
        headers[_REQUEST] = name


def _set_fields(task_id: str, task: Any, **_: Any) -> None:
    request = task.request.get(_REQUEST) or log_records.field("request_id")
    of_task = {"task_id": task_id, "task": task.name, **({"request_id": request} if request else {})}
    task.request.fields_before = log_records.replace_fields(of_task)


def _unset_fields(task: Any, **_: Any) -> None:
    log_records.replace_fields(task.request.get("fields_before") or {})


signals.before_task_publish.connect(_attach_request)
signals.task_prerun.connect(_set_fields)
signals.task_postrun.connect(_unset_fields)


def send(task: Any, *arguments: Any) -> None:
    """Queue a task. If the message cannot be sent, the next sweep finds the work, which is a database row."""
    try:
        task.apply_async(arguments, retry=False)
    except (OperationalError, OSError) as error:
        log.warning(
            "%s%s could not be sent to the workers (%s): the next sweep will find the work", task.name, arguments, error
        )
