"""`headgate import-log FILE…`: import the flow-control history of a broker from its logs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import tzlocal
from django.conf import settings
from django.core.management.base import BaseCommand

from console.brokers.configured import configured_now
from console.history.importing.layouts import Layout, LayoutError, parse_layout
from console.history.importing.log_files import LogError
from console.history.importing.log_import import LogImport
from console.history.importing.log_reading import Options
from console.history.importing.log_report import Report
from console.history.storage.landing import Landing, LandingError
from console.management.progress import progress

#: Exit status of a command ended by Ctrl-C.
_INTERRUPTED = 130

HELP = """Import the flow-control history of a broker from its logs: overfull queues and stores, blocked producers.

Reads logs of Qpid's Java broker (old and new) and C++ broker, Artemis, ActiveMQ, RabbitMQ, Headgate's own broker, and
warnings of clients; plain or .gz, as text or JSON. Importing the same lines again, also from a renamed or longer file,
adds nothing, and continues where the last import ended, if --broker and --timezone are the same. Interrupt it at any
time, and repeat the command to continue.

    headgate import-log --broker qpid-1 --timezone Europe/Paris /var/log/qpid/*.log*
    headgate import-log --broker mq --layout '%d{dd/MM/yyyy HH:mm:ss} | %-5p | %m | %c | %t%n' activemq.log
    headgate import-log --broker mq --layout json:time=when,message=event.text broker.json

A log of which more than 1 % of the event lines cannot be read is refused.
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
            "--fold",
            choices=["order", "first", "second"],
            default="order",
            help="which one a time is that a clock shows twice in autumn: the second after a step back in the log"
            " (order, the default), or always the first or second, for a log with few lines",
        )
        parser.add_argument(
            "--layout",
            type=_layout,
            help="how a line is laid out, if that is not found: the pattern of logback or log4j that writes it, or"
            " json:time=FIELD,message=FIELD",
        )
        parser.add_argument(
            "--allow-unread",
            action="store_true",
            help="import a log although more than 1 %% of its event lines cannot be read; their time is not covered",
        )
        parser.add_argument(
            "--again", action="store_true", help="read files from the beginning, not from the end of the last import"
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
        if before is None and broker in configured_now():
            self._refuse(
                f"--broker {broker}: the recorder records a broker of that name, and its events would count twice."
                " Choose another name, or set --before to the start of the recording"
            )
        if not broker.strip():
            self._refuse("--broker is empty: it must be the name of the broker that wrote the logs")
        reading = Options(
            zone,
            options["fold"],
            options["layout"],
            before,
            allow_unread=options["allow_unread"],
            resume=not options["again"],
        )
        failed = False
        try:
            importing = LogImport(Landing(settings.HEADGATE_HISTORY_URL), broker, reading)
            for path in files:
                try:
                    report = self._import(importing, path)
                except LogError as error:
                    failed = True
                    self.stderr.write(str(error))
                else:
                    self.stdout.write("\n".join(_report_lines(report, zone)))
                    self.stdout.flush()
        except LandingError as error:
            self._refuse(str(error))
        except KeyboardInterrupt:
            self.stderr.write("interrupted: repeat the command to continue")
            sys.exit(_INTERRUPTED)
        if failed:
            sys.exit(1)

    def _import(self, importing: LogImport, path: Path) -> Report:
        with progress(path.name, size=True) as bar:

            def on_read(report: Report, done: int, size: int) -> None:
                bar.at(done, size, note=f"{report.lines:,} lines, {report.total:,} events")

            return importing.import_file(path, on_read)

    def _refuse(self, why: str) -> None:
        self.stderr.write(why)
        sys.exit(1)


def _report_lines(report: Report, zone: tzinfo) -> list[str]:
    """Return the lines of the report on one file, for people."""
    lines = [f"{report.path}: {report.lines:,} lines, {report.total:,} events"]
    if report.continued:
        lines[0] += f" after the first {report.continued:,} bytes, which have been imported before"
    if report.damage:
        lines.append(f"  {report.damage}")
    if report.first is not None and report.last is not None:
        lines.append(f"  from {_shown(report.first)} to {_shown(report.last)} (times without a zone: {zone})")
    if report.lines and not report.known:
        lines.append("  no line of a known broker: the time of this log is not recorded as covered")
    lines += [f"  {count:>12,}  {kind}" for kind, count in report.events.most_common()]
    if report.skipped:
        lines.append(f"  {report.skipped:>12,}  skipped: not before --before")
    if other := report.other_messages.total():
        codes = ", ".join(f"{code} {count:,}" for code, count in report.other_messages.most_common(5))
        lines.append(f"  {other:>12,}  operational messages of other kinds ({codes})")
    if report.other_lines:
        lines.append(f"  {report.other_lines:>12,}  lines of other kinds")
    if report.unread:
        lines.append(
            f"  {report.unread:>12,}  unread event lines, {report.unread_share:.1%} of all; the time about them is not"
            " covered. Examples:"
        )
        for shape, examples in report.examples.items():
            why = shape.partition(":")[0]
            lines += [f"                {why}: {example}" for example in examples]
    return lines


def _shown(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _layout(text: str) -> Layout:
    try:
        return parse_layout(text)
    except LayoutError as error:
        raise ArgumentTypeError(str(error)) from None


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
