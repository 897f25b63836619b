"""`headgate beat`: Celery beat, the evaluator of alerts and the recorder of halted staged starts, in one process.
Only one process works at a time; others wait for its lease (`console/leases/lease.py`)."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from brokers.steady_clock import SteadyClock
from console.management.database_connections import retain_connections
from console.management.ready import require_database

#: Duration of the lease, s. A process that died on the same host is replaced at once.
LEASE = 20.0
#: Interval of trying to acquire the lease, s.
RETRY = 2.0
#: Interval of looking at the clock and the threads, s.
LOOK = 1.0
#: A step of the clock by at least this much restarts beat, ms.
CLOCK_STEP = 2000


class Command(BaseCommand):
    help = "Send due tasks to the workers, evaluate alerts and record halted staged starts."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        from console.leases.lease import Busy, Lost, lease

        require_database()
        retain_connections()
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        waiting_for = ""
        while not ended.is_set():
            try:
                with lease("beat", seconds=LEASE) as lost:
                    self._say("at work")
                    alive = _run(ended, lost)
                if not alive:
                    self.stderr.write("a thread has ended unexpectedly")
                    sys.exit(1)
            except Busy as busy:
                if busy.holder != waiting_for:
                    waiting_for = busy.holder
                    self._say(f"{busy.holder} is at work: standing by")
                ended.wait(RETRY)
            except Lost as error:
                self.stderr.write(f"{error}: restarting")
                sys.exit(1)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _run(ended: threading.Event, lost: threading.Event) -> bool:
    """Run until `ended` is set or the lease is lost. Return False if one of the threads has ended unexpectedly."""
    from django.conf import settings

    from console.alerts.evaluator import start as start_alerts
    from console.brokers.configured import follow
    from console.celery import app
    from console.history.storage.recorder_signs import last_sign
    from console.links.registry import close_links
    from console.management.beat_thread import BeatThread
    from console.management.beat_times import reset_future_run_times
    from console.operations import halted_starts

    def start_beat() -> BeatThread:
        reset_future_run_times(timezone.now())
        made = BeatThread(app)
        made.start()
        return made

    over, unfollowed = threading.Event(), follow()
    clock = SteadyClock()
    alerts = start_alerts(over, lambda slug: last_sign(settings.HEADGATE_HISTORY_URL, slug))
    halted = halted_starts.begin(over)
    beat = start_beat()
    try:
        while not (ended.is_set() or lost.is_set()):
            if abs(clock.look()) >= CLOCK_STEP:
                beat.stop()
                beat.join()
                beat = start_beat()
            if not (beat.is_alive() and alerts.is_alive() and halted.is_alive()):
                return False
            ended.wait(LOOK)
        return True
    finally:
        over.set()
        unfollowed.set()
        beat.stop()
        # Interrupted work is atomic, so do not wait for a broker that ends at the same time.
        for part in (beat, alerts, halted):
            part.join(1)
        close_links()
