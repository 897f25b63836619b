"""Where bulk edits are carried out: in a thread of the process that was asked, until none of its queues is left.

The lease of a job is what makes this safe with several processes; whoever is asked to resume a job whose process has
gone takes it over. A worker process calls the same `run`.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid

from django.db import connections

from console.operations.bulk import step

log = logging.getLogger(__name__)


def start(number: int) -> threading.Thread:
    """Carry out a job in the background."""
    thread = threading.Thread(target=run, args=(number,), name=f"bulk-edit-{number}", daemon=True)
    thread.start()
    return thread


def run(number: int) -> None:
    """Carry out a job here, until it is done or interrupted, or somebody else has it."""
    worker = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
    try:
        while step(number, worker):
            pass
    except Exception:
        log.exception("bulk edit %s was interrupted", number)
    finally:
        connections.close_all()
