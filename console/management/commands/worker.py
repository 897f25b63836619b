"""`manage.py worker`: Celery's worker with its beat, for the console's work by the clock."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Do the console's work by the clock: history runs that are overdue, compaction, retention."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        from console.celery import app

        folder = settings.DATA / "worker"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Tasks wait for processes of their own: threads are enough.
        app.worker_main(
            [
                "worker",
                "--beat",
                f"--schedule={folder / 'beat'}",
                "--pool=threads",
                "--concurrency=3",
                "--loglevel=WARNING",
                "--without-gossip",
                "--without-mingle",
                "--without-heartbeat",
            ]
        )
