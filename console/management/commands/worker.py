"""`manage.py worker`: the Celery worker for background and scheduled tasks (`manage.py beat`)."""

from __future__ import annotations

import warnings
from typing import Any

from django.core.management.base import BaseCommand

from console.management.ready import require_database

#: Threads. Maintenance jobs of the history may occupy three of them for hours; bulk edits run in slices. So there is
#: always one for alerts.
THREADS = 8


class Command(BaseCommand):
    help = "Deliver alerts, run bulk edits, schedules and maintenance jobs of the history."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        from celery.platforms import SecurityWarning

        from console.celery import app
        from console.links.registry import close_links

        require_database()
        # A warning about pickled messages as root; only JSON is accepted.
        warnings.simplefilter("ignore", SecurityWarning)
        # Tasks mostly wait for brokers, receivers and other processes, so threads of one process suffice.
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
