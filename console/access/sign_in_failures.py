"""Failed sign-ins, counted by django-axes; correct also after the clock has been set back."""

from __future__ import annotations

import datetime as dt
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.http import HttpRequest
from django.utils import timezone

#: Tolerated difference between the clocks of hosts that share a database.
_SLACK = dt.timedelta(seconds=30)


class SignInFailures(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes has no types
    """A failure in the future counts as a failure now: its age is unknown after the clock was set back, and the user
    must not stay locked until that time."""

    def get_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> Any:
        now = timezone.now()
        future = AccessAttempt.objects.filter(attempt_time__gt=now + _SLACK)
        if future.exists():  # reads first, since writing takes the database's lock
            future.update(attempt_time=now)
        return super().get_user_attempts(request, credentials)
