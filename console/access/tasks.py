"""Celery task that deletes expired sessions and failed sign-ins."""

from __future__ import annotations

from importlib import import_module

from axes.models import AccessAttempt
from django.conf import settings
from django.utils import timezone

from console.celery import app


@app.task(name="access.forget")  # type: ignore[untyped-decorator]
def forget() -> None:
    """Delete expired sessions, which Django itself deletes only on sign-out, and failures that no longer count."""
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
    AccessAttempt.objects.filter(attempt_time__lt=timezone.now() - settings.AXES_COOLOFF_TIME).delete()
