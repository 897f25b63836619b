"""`manage.py beat`: Celery's beat and, beside it, the evaluator of alerts and the one who records halted staged starts.
Each must be there once: with several processes one works and the others stand by (`console/leases/lease.py`)."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from brokers.steady_clock import SteadyClock
from console.management.ready import require_database

#: Seconds after which a beat that gives no sign of life is replaced; one that died on the same host is at once.
LEASE = 20.0
#: Seconds between looks whether it is free.
AGAIN = 2.0
#: By so much, ms, the clock was set: what is due by it is reckoned anew.
SET = 2000


class Command(BaseCommand):
    help = "Send what is due by the clock to the workers, and look for what alerts shall tell."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        from console.leases.lease import Busy, Lost, lease

        require_database()
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        waiting_for = ""
        while not ended.is_set():
            try:
                with lease("beat", seconds=LEASE) as lost:
                    self._say("at work")
                    alive = _work(ended, lost)
                if not alive:
                    self.stderr.write("a part of it has ended: see above")
                    sys.exit(1)
            except Busy as busy:
                if busy.holder != waiting_for:
                    waiting_for = busy.holder
                    self._say(f"{busy.holder} is at work: standing by")
                ended.wait(AGAIN)
            except Lost as lost_it:
                self.stderr.write(f"{lost_it}: starting anew")
                sys.exit(1)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _work(ended: threading.Event, lost: threading.Event) -> bool:
    """Until it is told to end or has lost the lease. False: a part of it ended by itself."""
    from celery.beat import EmbeddedService

    from console.alerts.evaluator import start as start_alerts
    from console.celery import app
    from console.links.registry import close_links
    from console.management.beat_times import again_in_time
    from console.operations import halted_starts

    def by_the_clock() -> EmbeddedService:
        again_in_time(timezone.now())
        made = EmbeddedService(app, thread=True, scheduler_cls=app.conf.beat_scheduler)
        made.start()
        return made

    over = threading.Event()
    clock = SteadyClock()
    alerts, halted = start_alerts(over), halted_starts.begin(over)
    beat = by_the_clock()
    try:
        while not (ended.is_set() or lost.is_set()):
            if abs(clock.look()) >= SET:
                beat.service.stop()
                beat.join()
                beat = by_the_clock()
            if not (beat.is_alive() and alerts.is_alive() and halted.is_alive()):
                return False
            time.sleep(0.1)
        return True
    finally:
        over.set()
        beat.service.stop()
        # Whatever they are at is done whole or not at all: nobody waits for a broker that goes at the same time.
        for part in (beat, alerts, halted):
            part.join(1)
        close_links()
