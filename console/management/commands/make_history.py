"""`headgate make-history`: generate history data for trying out and measuring the history."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.brokers.configured import configured_now
from console.history.generate.generator import AlreadyMade, Plan, interrupted, make_history
from console.history.storage.landing import Landing, LandingError
from console.management.progress import progress

HELP = """Generate realistic history data into the landing folder: traffic with daily and weekly patterns, incidents,
overfull queues and their blocked producers, policy edits, operators' stops with user and reason, gaps in the recording.

Use a separate data folder: only the broker's name distinguishes generated from recorded data:

    HEADGATE_DATA=./demo-year uv run headgate make-history
    uv run headgate up --data ./demo-year

Samples are a minute apart in the last --fine-days and an hour apart before; events are complete. The default (1,000
queues for a year) takes some minutes and about half a gigabyte. The same options and --seed generate the same data;
repeated after an interruption, the same command continues.
"""


class Command(BaseCommand):
    help = HELP
    requires_system_checks = ()

    def create_parser(self, *args: Any, **options: Any) -> Any:
        return super().create_parser(*args, formatter_class=RawDescriptionHelpFormatter, **options)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queues", type=_count(1, 100_000), default=1000, help="default: 1000")
        parser.add_argument("--days", type=_count(1, 3660), default=365, help="default: 365")
        parser.add_argument(
            "--fine-days", type=_count(0, 3660), default=7, help="days with a sample per minute; default: 7"
        )
        parser.add_argument("--seed", type=_count(0, 1 << 31), default=942, help="default: 942")
        parser.add_argument("--broker", default="made", help="name of the broker in the history; default: made")
        parser.add_argument("--until", type=_moment, metavar="TIME", help="end of the data; default: this hour")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["broker"] in configured_now():
            self._refuse(f"--broker {options['broker']} is a configured broker: choose another name")
        until = options["until"] or datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        plan = Plan(options["queues"], options["days"], options["seed"], until, options["fine_days"], options["broker"])
        began = time.monotonic()
        try:
            landing = Landing(settings.HEADGATE_HISTORY_URL)
            if options["until"] is None and (begun := interrupted(landing, plan)):
                plan = replace(plan, until=begun)
                self.stdout.write(f"continuing the interrupted history until {begun:%Y-%m-%dT%H:%MZ}")
            with progress(f"history of {plan.broker}", total=plan.days, unit="days") as bar:
                made = make_history(landing, plan, bar.at)
        except (AlreadyMade, LandingError) as error:
            self._refuse(str(error))
        self.stdout.write(
            f"{plan.days} days of {plan.queues:,} queues of broker {plan.broker}: {made.samples:,} samples,"
            f" {made.events:,} events, {made.episodes:,} overfull episodes in {time.monotonic() - began:.0f} s,"
            f" in {settings.HEADGATE_HISTORY_URL}"
        )

    def _refuse(self, why: str) -> None:
        self.stderr.write(why)
        sys.exit(1)


def _count(least: int, most: int) -> Any:
    def count(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r} is not a number from {least:,} to {most:,}")
        return int(text)

    return count


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time; example: 2026-11-01T00:00Z") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
