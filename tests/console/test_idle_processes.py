"""Processes of the console with nothing to do: how often they wake, and what they do then."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from celery.beat import Service
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from django.utils import timezone
from django_celery_beat.schedulers import DatabaseScheduler

from brokers.admin import BrokerUnreachable
from brokers.steady_clock import SteadyClock
from console.alerts.models import Delivery, Notification
from console.bulk.models import BulkEdit
from console.celery import app
from console.leases.process import is_dead, this_process
from console.links.state import BrokerState
from console.links.synchronization import Pace, Synchronization
from console.management import beat_scheduler
from console.management.beat_scheduler import MAY_FIND, Scheduler
from console.management.beat_thread import BeatThread
from console.management.database_connections import retain_connections
from console.management.web_server import Server
from console.messages.models import MessageJob
from console.schedules.models import Run
from tests.server.virtual_time import VirtualTimeLoop


async def _nothing(scope: Any, receive: Any, send: Any) -> None: ...


@pytest.fixture
def server() -> Server:
    config = uvicorn.Config(_nothing, lifespan="off", log_config=None)
    config.load()
    return Server(config)


@pytest.mark.domain("rest web")
def test_an_idle_web_process_wakes_once_a_second(server: Server) -> None:
    loop = VirtualTimeLoop()
    loop.call_later(60.5, server.handle_exit, signal.SIGTERM, None)
    loop.run_until_complete(server.main_loop())
    loop.close()
    assert loop.waits <= 63


def test_a_signal_ends_the_web_process_at_once(server: Server) -> None:
    """The handler runs in the loop's thread, while the loop waits."""
    loop = VirtualTimeLoop()
    before = signal.signal(signal.SIGUSR1, server.handle_exit)
    try:
        began = loop.time()
        loop.call_later(0.25, signal.raise_signal, signal.SIGUSR1)
        loop.run_until_complete(server.main_loop())
        assert loop.time() - began == pytest.approx(0.25)
    finally:
        signal.signal(signal.SIGUSR1, before)
        loop.close()


def test_the_date_of_answers_advances(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = VirtualTimeLoop()
    monkeypatch.setattr("uvicorn.server.time", SimpleNamespace(time=loop.time))
    dates = set()

    def look() -> None:
        dates.update(server.server_state.default_headers)

    for second in range(1, 6):
        loop.call_later(second + 0.5, look)
    loop.call_later(6, server.handle_exit, signal.SIGTERM, None)
    loop.run_until_complete(server.main_loop())
    loop.close()
    assert len({value for name, value in dates if name == b"date"}) == 5


@pytest.mark.django_db
@pytest.mark.domain("rest database")
def test_beat_reuses_its_connection_to_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings[DEFAULT_DB_ALIAS], "CONN_MAX_AGE", 0)
    retain_connections()
    of_another_thread = connections.create_connection(DEFAULT_DB_ALIAS)
    closed: list[int] = []
    of_another_thread.ensure_connection()
    monkeypatch.setattr(of_another_thread, "close", lambda: closed.append(1))
    # What django-celery-beat calls before each look, for each connection of its thread.
    of_another_thread.close_if_unusable_or_obsolete()
    assert not closed
    of_another_thread.errors_occurred = True
    monkeypatch.setattr(of_another_thread, "is_usable", lambda: False)
    of_another_thread.close_if_unusable_or_obsolete()
    assert closed, "one that has failed is replaced"
    monkeypatch.undo()
    of_another_thread.close()


# -- beat ----------------------------------------------------------------------------------------------------------


class Ticking:
    """A scheduler whose next task is due in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.ticks, self.closed = seconds, 0, False
        self.ticked = threading.Event()

    def tick(self) -> float:
        self.ticks += 1
        self.ticked.set()
        return self.seconds

    def should_sync(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


def beat_of(ticking: Any, monkeypatch: pytest.MonkeyPatch) -> BeatThread:
    monkeypatch.setattr("console.management.beat_thread.Service", lambda *_, **__: SimpleNamespace(scheduler=ticking))
    thread = BeatThread(app)
    thread.start()
    assert ticking.ticked.wait(60)
    return thread


@pytest.mark.domain("rest beat")
def test_beat_sleeps_until_its_next_task_and_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ticking = Ticking(3_600)
    thread = beat_of(ticking, monkeypatch)
    thread.stop()
    thread.join(60)
    assert (thread.is_alive(), ticking.ticks, ticking.closed) == (False, 1, True)


def test_an_error_of_the_scheduler_ends_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the process ends, and its supervisor starts it again."""
    ticking = Ticking(0)
    monkeypatch.setattr(ticking, "tick", lambda: ticking.ticked.set() or 1 / 0)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    thread = beat_of(ticking, monkeypatch)
    thread.join(60)
    assert (thread.is_alive(), ticking.closed) == (False, True)


def test_beat_uses_the_configured_scheduler_and_interval() -> None:
    made = Service(app, scheduler_cls=app.conf.beat_scheduler).get_scheduler(lazy=True)
    assert isinstance(made, Scheduler)
    assert made.max_interval == settings.CELERY_BEAT_MAX_LOOP_INTERVAL == 3


@pytest.mark.domain("rest beat")
def test_a_saved_task_is_looked_for_at_the_interval_however_often_beat_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    now = 100.0
    due_in = iter([0.0, 0.0, 5.0, 0.4] * 100)

    def tick(self: Scheduler) -> float:
        self.schedule_changed()
        return next(due_in)

    monkeypatch.setattr(DatabaseScheduler, "tick", tick)
    monkeypatch.setattr(DatabaseScheduler, "schedule_changed", lambda self: looks.append(now) or True)
    scheduler = Scheduler(app=app, lazy=True)
    scheduler.clock = lambda: now
    while now < 130:
        now += scheduler.tick()
    assert looks == pytest.approx([100.0 + 3 * number for number in range(len(looks))])
    assert len(looks) == 10


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that are sent."""
    tasks: list[str] = []
    monkeypatch.setattr(DatabaseScheduler, "apply_entry", lambda self, entry, producer=None: tasks.append(entry.task))
    return tasks


def beat_sends(task: str) -> None:
    Scheduler(app=app, lazy=True).apply_entry(SimpleNamespace(task=task))


@pytest.mark.django_db
@pytest.mark.domain("rest sweeps")
def test_a_sweep_that_would_find_nothing_is_not_sent(sent: list[str]) -> None:
    for task in (*MAY_FIND, "history.run", "alerts.forget"):
        beat_sends(task)
    assert sent == ["history.run", "alerts.forget"]


@pytest.mark.django_db
@pytest.mark.domain("rest sweeps")
@pytest.mark.parametrize("task", sorted(MAY_FIND))
def test_a_sweep_is_sent_while_a_row_waits(task: str, sent: list[str]) -> None:
    now = timezone.now()
    match task:
        case "alerts.sweep":
            notification = Notification.objects.create(at=now, rule_name="r", broker="b", phase="firing")
            Delivery.objects.create(notification=notification, receiver_name="r", due=now)
        case "bulk.sweep":
            BulkEdit.objects.create(user_name="ann", broker="b")
        case "message_jobs.sweep":
            MessageJob.objects.create(user_name="ann", broker="b")
        case "schedules.sweep":
            Run.objects.create(schedule_name="s", broker="b", user_name="ann", due=now, retry_at=now)
    beat_sends(task)
    assert sent == [task]


@pytest.mark.django_db
def test_sweeps_are_sent_while_the_database_cannot_answer(
    sent: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> bool:
        raise OperationalError("database is locked")

    monkeypatch.setattr(beat_scheduler, "MAY_FIND", {"alerts.sweep": fail})
    with caplog.at_level(logging.CRITICAL):
        beat_sends("alerts.sweep")
    assert sent == ["alerts.sweep"]


def test_each_periodic_sweep_is_known() -> None:
    sweeps = {each["task"] for each in settings.CELERY_BEAT_SCHEDULE.values() if each["task"].endswith(".sweep")}
    assert sweeps == set(MAY_FIND)


def test_the_identity_of_a_process_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process()

    def fail(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("console.leases.process.start_time", fail)
    assert this_process() == me
    assert not is_dead(me)


# -- links to brokers ----------------------------------------------------------------------------------------------


@pytest.mark.domain("rest probes")
def test_an_idle_broker_is_probed_every_two_seconds_and_a_hanging_one_is_noticed_within_six() -> None:
    assert (Pace().probe, Pace().probe + Pace().probe_answer) == (2, 6)


@pytest.mark.domain("rest probes")
def test_a_probe_has_a_time_limit_of_its_own() -> None:
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    loop = VirtualTimeLoop()
    state = BrokerState("local", 100, SteadyClock(lambda: 0, lambda: loop.ms() * 1_000_000))
    state.answered(state.clock.now())
    hanging: Any = SimpleNamespace(query=never)
    began = loop.time()
    with pytest.raises(BrokerUnreachable, match="within 4 s"):
        loop.run_until_complete(Synchronization(hanging, state, Pace())._probe())
    assert loop.time() - began == pytest.approx(6)
    loop.close()
