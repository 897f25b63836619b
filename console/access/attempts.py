"""Failures to sign in, counted by django-axes, also when the clock has been set back since they were kept."""

from __future__ import annotations

import datetime as dt
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.http import HttpRequest
from django.utils import timezone

#: Between hosts that write to one database clocks may differ by so much.
_SLACK = dt.timedelta(seconds=30)


class Attempts(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes has no types
    """What failed at a time that is still to come failed now: how long ago it was is not known, and who failed then
    must not wait until the clock has come there again."""

    def get_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> Any:
        now = timezone.now()
        to_come = AccessAttempt.objects.filter(attempt_time__gt=now + _SLACK)
        if to_come.exists():  # asked first: to write takes a turn
            to_come.update(attempt_time=now)
        return super().get_user_attempts(request, credentials)
