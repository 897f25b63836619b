"""Export all policies of a broker as a YAML file, compare a broker with such a file, or apply the file."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from brokers.admin import AdminError, InvalidValue
from brokers.input_checks import on_one_line
from brokers.model import ObjectName
from console.access.actor import Actor
from console.brokers.configured import refresh
from console.links.registry import BrokerLink, UnknownBroker, close_links, link
from console.operations import PolicyChange
from console.operations.policy_import import Difference, apply_file, difference, export_policies, previewed


class Command(BaseCommand):
    help = (
        "export: write all policies as YAML. diff FILE: show the differences and the impact of applying the file; exit"
        " status 1 if there are any. apply FILE: apply the file, object by object; exit status 1 if any change failed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--broker", default="", help="slug of the broker (default: the first one)")
        actions = parser.add_subparsers(dest="action", required=True)
        export = actions.add_parser("export", help="write the file")
        export.add_argument("file", nargs="?", default="-", help="output file (default: standard output)")
        for name, text in (("diff", "dry run"), ("apply", "apply the file")):
            action = actions.add_parser(name, help=text)
            action.add_argument("file", help="policy file; - for standard input")
            action.add_argument(
                "--prune", action="store_true", help="remove settings and delete patterns that are not in the file"
            )
            action.add_argument("--json", action="store_true", help="write JSON")
        action.add_argument("--user", required=True, help="user of the console that has the permissions")
        action.add_argument("--reason", default="", help="reason for the audit trail")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            refresh()
            self._run(link(options["broker"]), options)
        except InvalidValue as invalid:
            lines = [on_one_line(f"  {path}: {fault}") for path, fault in invalid.errors.items()]
            raise CommandError("\n".join(["invalid policy file:", *lines])) from None
        except (AdminError, UnknownBroker, PermissionDenied, OSError, UnicodeDecodeError) as error:
            raise CommandError(on_one_line(str(error))) from None
        finally:
            close_links()

    def _run(self, broker: BrokerLink, options: dict[str, Any]) -> None:
        if options["action"] == "export":
            self._export(broker, options)
            return
        text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text()
        if options["action"] == "diff":
            self._diff(broker, text, options)
        else:
            self._apply(broker, text, options)

    def _export(self, broker: BrokerLink, options: dict[str, Any]) -> None:
        text = export_policies(broker)
        if options["file"] == "-":
            self.stdout.write(text, ending="")
        else:
            Path(options["file"]).write_text(text)

    def _diff(self, broker: BrokerLink, text: str, options: dict[str, Any]) -> None:
        found = difference(broker, text, prune=options["prune"])
        preview, problems = previewed(broker, found)
        if options["json"]:
            self._json(found, problems=problems, preview=preview)
        else:
            self._show_difference(found, problems)
            if found.changes and preview is None and not problems:
                self.stdout.write("Impact not known: the broker cannot preview changes.")
            self._show_impact(preview)
        if found.changes or problems:
            sys.exit(1)

    def _apply(self, broker: BrokerLink, text: str, options: dict[str, Any]) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}")
        found, applied = apply_file(Actor(user, "command line"), broker, text, **_given(options))
        failed = [each for each in applied if each.outcome != "done"]
        if options["json"]:
            self._json(found, problems=dict(found.problems), applied=[each.as_json() for each in applied])
        else:
            for each in applied:
                self._say(f"{each.outcome}: {_line(each.change)}{f': {each.detail}' if each.detail else ''}")
            for sentence in found.problems.values():
                self._say(f"! {sentence}")
            self.stdout.write(f"{len(applied) - len(failed)} changed, {len(failed) + len(found.problems)} failed.")
        if failed or found.problems:
            sys.exit(1)

    def _show_difference(self, found: Difference, problems: dict[str, str]) -> None:
        for change in found.changes:
            self._say(_line(change))
        for sentence in problems.values():
            self._say(f"! {sentence}")
        if found.left_alone:
            self.stdout.write(
                f"{len(found.left_alone)} objects with settings are not in the file and stay unchanged (--prune)."
            )
        if not found.changes and not problems:
            self.stdout.write("No differences.")

    def _show_impact(self, preview: dict[str, Any] | None) -> None:
        if preview and preview["changed"]:
            self.stdout.write(
                "{changed} of {queues} queues affected: {overfull} become overfull, {underfull} underfull;"
                " {blocked} producers blocked, {unblocked} unblocked.".format(
                    **{name: "an unknown number of" if value is None else value for name, value in preview.items()}
                )
            )

    def _say(self, text: str) -> None:
        """Print a line. Names are those of the broker, and must not control the terminal."""
        self.stdout.write(on_one_line(text))

    def _json(self, found: Difference, **more: Any) -> None:
        document = {
            "changes": [change.as_json() for change in found.changes],
            "left_alone": [str(name) for name in found.left_alone],
            **more,
        }
        self.stdout.write(json.dumps(document, indent=2, default=str))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {"prune": options["prune"], "reason": options["reason"]}


_SIGNS = {"update": "~", "create": "+", "delete": "-"}


def _line(change: PolicyChange) -> str:
    values = [
        f"{field} {_text(change.was.get(field))} -> {_text(value)}" if change.action == "update" else f"{field} {value}"
        for field, value in change.attributes.items()
    ]
    return f"{_SIGNS[change.action]} {_words(change.name)}{': ' if values else ''}{', '.join(values)}"


def _words(name: ObjectName) -> str:
    kind = {"Policy": "pattern", "VirtualHost": "virtual host"}.get(name.type, name.type.lower())
    return f"{kind} {'/'.join(value for _, value in name.keys)}".strip()


def _text(value: Any) -> str:
    return "not set" if value is None else str(value)
