"""Nightly clean-up: rows past their retention are deleted, others stay."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from console.access import tasks as access
from console.alerts import tasks as alerts
from console.alerts.models import Silence
from console.bulk import tasks as bulk
from console.bulk.models import BulkEdit, BulkEditRow, State
from console.celery import app
from console.history.models import JobRequest
from console.history.pipeline.run_records import forget_old_runs
from console.schedules import tasks as schedules
from console.schedules.models import Run, RunState

pytestmark = pytest.mark.django_db

DAY = dt.timedelta(days=1)


def ago(days: float) -> dt.datetime:
    return timezone.now() - days * DAY


def test_every_cleanup_task_runs_each_night() -> None:
    app.loader.import_default_modules()
    nightly = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    wanted = {name for name in app.tasks if name.endswith(".forget")}
    assert {"access.forget", "alerts.forget", "bulk.forget", "schedules.forget"} <= wanted <= nightly


def test_expired_sessions_are_deleted_and_active_ones_stay() -> None:
    vera = User.objects.create_user("vera")
    stays, left = Client(), Client()
    for client in (stays, left):
        client.force_login(vera, "django.contrib.auth.backends.ModelBackend")
    Session.objects.filter(session_key=left.session.session_key).update(expire_date=ago(0.001))
    access.forget()
    assert list(Session.objects.values_list("session_key", flat=True)) == [stays.session.session_key]
    assert [client.get("/").status_code for client in (stays, left)] == [403, 302], (
        "signed in, and redirected to the sign-in page"
    )


def test_old_sign_in_failures_are_deleted() -> None:
    for name, at in (("old", ago(1)), ("new", timezone.now())):
        AccessAttempt.objects.create(username=name, ip_address="203.0.113.9", failures_since_start=1)
        AccessAttempt.objects.filter(username=name).update(attempt_time=at)
    access.forget()
    assert [attempt.username for attempt in AccessAttempt.objects.all()] == ["new"]


def test_old_silences_are_deleted() -> None:
    for days in (alerts.DAYS + 1, 1, -1):
        Silence.objects.create(until=ago(days), made_by="olga", reason=str(days))
    alerts.forget()
    assert Silence.objects.count() == 2


def test_old_schedule_runs_are_deleted_and_open_ones_stay() -> None:
    def made(state: RunState, finished: dt.datetime | None, due: dt.datetime) -> Run:
        return Run.objects.create(
            schedule_name="night", broker="local", action="stop", target="x", user_name="olga", state=state,
            finished=finished, due=due, retry_at=due,
        )  # fmt: skip

    retained = [made(RunState.OPEN, None, ago(400)), made(RunState.DONE, ago(300), ago(301))]
    made(RunState.DONE, ago(366), ago(367))
    schedules.forget()
    assert set(Run.objects.all()) == set(retained)


def test_old_bulk_edits_are_deleted_with_their_rows_and_undo() -> None:
    def made(state: State, finished: dt.datetime | None, **more: Any) -> BulkEdit:
        edit = BulkEdit.objects.create(
            user_name="olga", broker="local", state=state, finished=finished, lease_until=ago(0), **more
        )
        BulkEditRow.objects.create(edit=edit, object="x", wanted={})
        return edit

    first = made(State.DONE, ago(370))
    made(State.DONE, ago(369), undo_of=first)
    undone_lately = made(State.DONE, ago(368))
    retained = [undone_lately, made(State.DONE, ago(2), undo_of=undone_lately), made(State.INTERRUPTED, None)]
    bulk.forget()
    assert set(BulkEdit.objects.all()) == set(retained)
    assert BulkEditRow.objects.count() == 3


def test_old_job_requests_of_the_history_are_deleted() -> None:
    retained = JobRequest.objects.create(work="compact", requested=ago(2), finished=ago(2))
    JobRequest.objects.create(work="compact", requested=ago(40), finished=ago(40))
    queued = JobRequest.objects.create(work="compact", requested=ago(40))
    forget_old_runs()
    assert set(JobRequest.objects.all()) == {retained, queued}
