"""`manage.py import-log FILE…`: import the flow-control history of a broker from its logs."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import tzlocal
from django.conf import settings
from django.core.management.base import BaseCommand

from console.history.importing.log_import import LogError, LogImport, Report
from console.history.storage.landing import Landing, LandingError

HELP = """Import the flow-control history of a broker from its logs: overfull queues and stores, blocked producers.

Reads logs of Qpid's Java broker (old and new) and C++ broker, of Headgate's own broker, and warnings of clients;
plain or .gz. Importing the same lines again, also from a renamed or longer file, adds nothing if --broker and
--timezone are the same.

    manage.py import-log --broker qpid-1 --timezone Europe/Paris /var/log/qpid/*.log*
"""


class Command(BaseCommand):
    help = HELP
    requires_system_checks = ()

    def create_parser(self, *args: Any, **options: Any) -> Any:
        return super().create_parser(*args, formatter_class=RawDescriptionHelpFormatter, **options)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="log file, plain or .gz")
        parser.add_argument("--broker", required=True, help="name of the broker in the history")
        parser.add_argument(
            "--timezone",
            type=_timezone,
            default=tzlocal.get_localzone(),
            help="time zone of times without one, e.g. Europe/Paris or UTC (default: this machine's, %(default)s)",
        )
        parser.add_argument(
            "--before",
            type=_moment,
            metavar="TIME",
            help="import only earlier events, e.g. 2026-11-01T00:00Z; required for a broker that is recorded",
        )

    def handle(self, *args: Any, files: list[Path], broker: str, **options: Any) -> None:
        zone: tzinfo = options["timezone"]
        before: int | None = options["before"]
        if before is None and broker in {entry["slug"] for entry in settings.HEADGATE_BROKERS}:
            self._refuse(
                f"--broker {broker}: the recorder records a broker of that name, and its events would count twice."
                " Choose another name, or set --before to the start of the recording"
            )
        if not broker.strip():
            self._refuse("--broker is empty: it must be the name of the broker that wrote the logs")
        try:
            importing = LogImport(Landing(settings.HEADGATE_HISTORY_URL), broker, zone, before=before)
        except LandingError as error:
            self._refuse(str(error))
        failed = False
        for path in files:
            try:
                report = importing.import_file(path, _bar(path) if sys.stderr.isatty() else _quiet)
            except LogError as error:
                failed = True
                self.stderr.write(str(error))
            except LandingError as error:
                self._refuse(str(error))
            else:
                self.stdout.write("\n".join(_report_lines(report, zone)))
                self.stdout.flush()
        if failed:
            sys.exit(1)

    def _refuse(self, why: str) -> None:
        self.stderr.write(why)
        sys.exit(1)


def _report_lines(report: Report, zone: tzinfo) -> list[str]:
    """Return the lines of the report on one file, for people."""
    lines = [f"{report.path}: {report.lines:,} lines, {report.total:,} events"]
    if report.damage:
        lines.append(f"  {report.damage}")
    if report.first is not None and report.last is not None:
        lines.append(f"  from {_shown(report.first)} to {_shown(report.last)} (times without a zone: {zone})")
    lines += [f"  {count:>12,}  {kind}" for kind, count in report.events.most_common()]
    if report.skipped:
        lines.append(f"  {report.skipped:>12,}  skipped: not before --before")
    if other := report.other_messages.total():
        codes = ", ".join(f"{code} {count:,}" for code, count in report.other_messages.most_common(5))
        lines.append(f"  {other:>12,}  operational messages of other kinds ({codes})")
    if report.other_lines:
        lines.append(f"  {report.other_lines:>12,}  lines of other kinds")
    if report.unreadable:
        lines.append(f"  {report.unreadable:>12,}  unreadable lines, for example")
        for shape, samples in report.samples.items():
            why = shape.partition(":")[0]
            lines += [f"                {why}: {sample}" for sample in samples]
    return lines


def _shown(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _quiet(report: Report, done: int, size: int) -> None:
    pass


def _bar(path: Path) -> Callable[[Report, int, int], None]:
    """Return a function that draws a progress bar on the terminal, at most every 0.2 s."""
    began = time.monotonic()
    drawn = 0.0

    def draw(report: Report, done: int, size: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < 0.2 and done < size:
            return
        drawn = now
        share = done / size if size else 1.0
        rate = report.lines / max(now - began, 0.001)
        bar = ("#" * round(share * 30)).ljust(30, ".")
        end = "\n" if done >= size else ""
        sys.stderr.write(f"\r{path.name} [{bar}] {share:4.0%}  {rate:,.0f} lines/s  {report.total:,} events {end}")
        sys.stderr.flush()

    return draw


def _timezone(text: str) -> tzinfo:
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError):
        raise ArgumentTypeError(f"{text!r} is not a time zone; examples: Europe/Paris, UTC") from None


def _moment(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time; example: 2026-11-01T00:00Z") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
