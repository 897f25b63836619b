"""`manage.py worker`: Celery's worker: what the console does later, again, or by the clock (`manage.py beat`)."""

from __future__ import annotations

import warnings
from typing import Any

from django.core.management.base import BaseCommand

from console.management.ready import require_database

#: Threads. The history's maintenance jobs may take three of them for hours, bulk edits go in slices: alerts always find
#: one.
THREADS = 8


class Command(BaseCommand):
    help = "Deliver alerts, carry out bulk edits and schedules, keep the history in shape."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        from celery.platforms import SecurityWarning

        from console.celery import app
        from console.links.registry import close_links

        require_database()
        # Of pickled messages in the hands of root: only JSON is taken.
        warnings.simplefilter("ignore", SecurityWarning)
        # Tasks wait for brokers, receivers and processes of their own: threads are enough, and one process is small.
        try:
            app.worker_main(
                [
                    "worker",
                    "--pool=threads",
                    f"--concurrency={THREADS}",
                    "--loglevel=WARNING",
                    "--without-gossip",
                    "--without-mingle",
                    "--without-heartbeat",
                ]
            )
        finally:
            close_links()
