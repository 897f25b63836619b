"""The sign-in page: locks after failures, and secure cookies with HTTPS."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

ROOT = Path(__file__).resolve().parent.parent.parent


def sign_in(password: str, *, user: str = "vera", address: str = "203.0.113.9") -> tuple[int, str]:
    answer = Client(REMOTE_ADDR=address).post("/login/", {"username": user, "password": password, "next": "/audit/"})
    return answer.status_code, answer.content.decode()


@pytest.fixture
def vera(db: None) -> User:
    return User.objects.create_user("vera", password="see-everything")


def fail_often(**more: str) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        sign_in("wrong", **more)


def test_user_is_locked_after_too_many_failures(vera: User) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT - 1):
        status, page = sign_in("wrong")
        assert status == 200
        assert "Please enter a correct" in page
    assert sign_in("wrong")[0] == 429
    status, page = sign_in("see-everything")
    assert status == 429
    assert "Wait 5 minutes" in page
    assert 'value="/audit/"' in page


def test_other_users_and_addresses_are_not_locked(vera: User) -> None:
    User.objects.create_user("otto", password="another")
    fail_often()
    assert sign_in("another", user="otto")[0] == 302
    assert sign_in("see-everything", address="203.0.113.10")[0] == 302


def test_lock_ends_after_the_pause(vera: User) -> None:
    fail_often()
    for attempt in AccessAttempt.objects.all():
        attempt.attempt_time -= settings.AXES_COOLOFF_TIME + datetime.timedelta(seconds=1)
        attempt.save()
    assert sign_in("see-everything")[0] == 302
    assert not AccessAttempt.objects.exists()


def test_success_resets_the_failures(vera: User) -> None:
    for _ in range(3):
        for _ in range(settings.AXES_FAILURE_LIMIT - 1):
            assert sign_in("wrong")[0] == 200
        assert sign_in("see-everything")[0] == 302


def test_failures_do_not_store_passwords(vera: User) -> None:
    sign_in("nearly-see-everything")
    [attempt] = AccessAttempt.objects.values()
    assert "nearly" not in repr(attempt)


@pytest.mark.parametrize("https", ["", "1"])
def test_https_makes_cookies_secure(tmp_path: Path, https: str) -> None:
    code = (
        "from django.conf import settings as s;"
        "print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_HSTS_SECONDS > 0)"
    )
    environment = {**os.environ, "HEADGATE_DATA": str(tmp_path), "HEADGATE_HTTPS": https}
    command = [sys.executable, "manage.py", "shell", "-v0", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(bool(https))] * 3


@pytest.mark.parametrize("by", [3600, -3600])
def test_setting_the_clock_does_not_extend_the_lock(vera: User, monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    fail_often()
    assert sign_in("see-everything")[0] == 429
    real = timezone.now
    ahead = [datetime.timedelta(seconds=by)]
    for module in ("django.utils.timezone", "axes.middleware", "axes.decorators", "axes.handlers.proxy"):
        with contextlib.suppress(AttributeError):
            monkeypatch.setattr(f"{module}.now", lambda: real() + ahead[0])
    # Set forward, the lock ends at once; set back, it starts again.
    assert sign_in("see-everything")[0] == (302 if by > 0 else 429)
    ahead[0] += settings.AXES_COOLOFF_TIME + datetime.timedelta(seconds=1)
    assert sign_in("see-everything")[0] == 302
