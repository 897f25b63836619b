"""What is kept of people's sign-ins for a while only: sessions that have ended, failures that count no longer."""

from __future__ import annotations

from importlib import import_module

from axes.models import AccessAttempt
from django.conf import settings
from django.utils import timezone

from console.celery import app


@app.task(name="access.forget")  # type: ignore[untyped-decorator]
def forget() -> None:
    """Drop them. Who signs out drops their own; of who does not, Django keeps it until somebody does this."""
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
    AccessAttempt.objects.filter(attempt_time__lt=timezone.now() - settings.AXES_COOLOFF_TIME).delete()
