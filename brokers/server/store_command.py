"""`headgate store`: check the message stores of a stopped broker against its configuration, print their messages, and
adopt them or set them aside if they do not belong together. No Django in it."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brokers.server.data_lock import claim
from brokers.server.earlier_store.verification import verify
from brokers.server.journal.reading import damaged_messages
from brokers.server.log_file import LOG_BYTES, LOG_FILES, LogFile
from brokers.server.opening import open_folder
from brokers.server.sqlite_file import StoreError
from brokers.server.store_adoption import adopt
from brokers.server.store_content import StoreFile
from brokers.server.store_dump import Dump
from brokers.server.store_folder import is_journal, store_files
from brokers.server.store_identity import mismatches
from brokers.server.store_in_doubt import advice, in_doubt
from brokers.server.store_set_aside import set_aside
from brokers.server.store_survey import CONFIG, FOLDER, Configuration, finish, read_records, read_store

WHAT_TO_DO = (
    "Restore both from one backup; or `store adopt`: keep the messages, in recovered queues where the configuration has"
    " none; or `store set-aside`: start without them."
)


def main(argv: list[str]) -> int:
    """Run the command; return the exit code: 0 without findings, 1 if the broker would not start or data is damaged."""
    options = _parser().parse_args(argv)
    data: Path = options.data
    if not (data / CONFIG).exists() and not (data / FOLDER).exists() and (data / "broker").is_dir():
        data = data / "broker"  # the data folder of `headgate up`
    try:
        with claim(data):
            return _run(options, data)
    except StoreError as error:
        if options.json:
            _say(json.dumps({"error": str(error)}, ensure_ascii=False))
        sys.stderr.write(f"store: {error}\n")
        return 1


def _run(options: argparse.Namespace, data: Path) -> int:
    with suppress(StoreError) if options.what == "dump" else nullcontext():  # it names what it cannot read
        finish(data)
    if options.what == "convert":
        return _convert(data, as_json=options.json, leave_unreadable=options.leave_unreadable)
    if options.what == "check":
        found = examine(data, quick=options.quick)
        _say(json.dumps(found, ensure_ascii=False, indent=2) if options.json else _text(found))
        return 0 if found["belongs_together"] and not found["damage"] else 1
    if options.what == "dump":
        dump = _dump(data, options.queue or "", bodies=options.bodies)
        for line in dump.lines():
            _say(line)
        for line in dump.damaged:
            sys.stderr.write(f"store: {line}\n")
        return 1 if dump.damaged else 0
    if options.what == "adopt":
        said = adopt(data, leave_unreadable=options.leave_unreadable)
    else:
        said = set_aside(data, options.store or ())
    _say(json.dumps({"done": said}, ensure_ascii=False, indent=2) if options.json else "\n".join(said))
    return 0


def _dump(data: Path, queue: str, *, bodies: bool) -> Dump:
    """Return what dumps the messages. Without a configuration that can be read, the queues have the names that the
    stores know."""
    try:
        return Dump(data, Configuration.of(data / CONFIG, read_records(data)), queue, bodies)
    except StoreError as error:
        return Dump(data, Configuration(data / CONFIG), queue, bodies, [str(error)])


def _convert(data: Path, *, as_json: bool, leave_unreadable: bool) -> int:
    """Convert the stores of an earlier release, as a start of the broker does. `leave_unreadable`: without the messages
    that the disk cannot read. Raises StoreError."""
    said: list[str] = []
    log = logging.getLogger("headgate.broker")
    log.setLevel(logging.INFO)
    log.addHandler(LogFile(data / "broker.log", LOG_BYTES, LOG_FILES))  # it is part of a start

    def say(text: str) -> None:
        log.info("%s", text)
        said.append(text)
        if not as_json:
            _say(text)

    with open_folder(data, say=say, leave_unreadable=leave_unreadable) as (config, _, found):
        config.close()
    for line in found:
        log.error("%s", line)
        sys.stderr.write(f"store: {line}\n")
    if as_json:
        _say(json.dumps({"done": said, "damage": found}, ensure_ascii=False, indent=2))
    elif not said:
        _say(f"there is no message store of an earlier release in {data / FOLDER}")
    return 0


def examine(data: Path, *, quick: bool) -> dict[str, Any]:
    """Return the result of `check`. `quick`: without reading bodies. Raises StoreError if the configuration cannot be
    read."""
    config = Configuration.of(data / CONFIG, read_records(data))
    stores = [read_store(path) for path in store_files(data / FOLDER)]
    damage = [line for store in stores for line in (*store.damage, *(store.found.repairs if store.found else ()))]
    for store in stores:
        if not quick and not store.error:
            damage += damaged_messages(store.path, store.found) if is_journal(store.path) else verify(store.path)
    problems = mismatches(config, stores)
    return {
        "data": str(data),
        "belongs_together": not problems,
        "problems": problems,
        "damage": damage,
        "advice": advice(data, doubtful) if (doubtful := in_doubt(config)) else "" if not problems else WHAT_TO_DO,
        "configuration": {
            "file": str(config.path),
            "there": config.there,
            "identity": config.identity,
            "generation": config.generation,
            "last_queue": config.last_queue,
        },
        "stores": [_store(config, store) for store in stores],
    }


def _store(config: Configuration, store: StoreFile) -> dict[str, Any]:
    queues = []
    for number, queue in sorted(store.queues.items()):
        host, name = config.queues.get(number, ("", ""))
        known = host == store.virtualhost
        queues.append(
            {
                "number": number,
                "name": name if known else None,
                "name_in_store": queue.name or None,
                "messages": queue.messages,
                "bytes": queue.bytes,
                "orphaned": not known,
            }
        )
    return {
        "file": str(store.path),
        "virtualhost": store.virtualhost,
        "error": store.error or None,
        "stamp": asdict(store.stamp) if store.stamp else None,
        "messages": store.messages,
        "bytes": sum(queue.bytes for queue in store.queues.values()),
        "orphaned_messages": sum(queue["messages"] for queue in queues if queue["orphaned"]),
        "queues": queues,
    }


def _text(found: dict[str, Any]) -> str:
    config = found["configuration"]
    lines = [
        f"Configuration {config['file']}: "
        + (
            f"start {config['generation']:,} of {config['identity'] or 'no identity yet'}"
            if config["there"]
            else "none"
        )
    ]
    for store in found["stores"]:
        stamp = store["stamp"]
        lines.append("")
        lines.append(f"Virtual host {store['virtualhost']}: {store['file']}")
        if store["error"]:
            lines.append(f"  {store['error']}")
            continue
        lines.append(f"  start {stamp['generation']:,} of {stamp['identity']}" if stamp else "  no identity yet")
        lines.append(f"  {'Number':>8} {'Messages':>12} {'Bytes':>16}  Queue")
        for queue in store["queues"]:
            name = queue["name"] or f"orphaned, was called {queue['name_in_store'] or '(unknown)'}"
            lines.append(f"  {queue['number']:>8,} {queue['messages']:>12,} {queue['bytes']:>16,}  {name}")
    if not found["stores"]:
        lines.append("No message store")
    lines.append("")
    lines += [f"Damage: {each}" for each in found["damage"]]
    lines += [f"Problem: {each}" for each in found["problems"]]
    if found["belongs_together"]:
        lines.append("The configuration and the stores belong together.")
    else:
        lines.append(f"The broker would not start. {found['advice']}")
    return "\n".join(lines)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate store", description="The message stores of a broker that is not running."
    )
    commands = parser.add_subparsers(dest="what", required=True)
    check = commands.add_parser("check", help="list which messages belong to which queue, and any damage")
    check.add_argument("--quick", action="store_true", help="do not read the bodies of messages")
    dump = commands.add_parser("dump", help="print the messages, a line of JSON each; those of a queue in their order")
    dump.add_argument("--queue", metavar="NAME", help="only the messages of queues with this name")
    dump.add_argument("--bodies", action="store_true", help="with the encoded messages, in Base64")
    adopting = commands.add_parser("adopt", help="create queues for messages whose queue is unknown")
    convert = commands.add_parser(
        "convert", help="convert the stores of an earlier release, as the broker does at its start"
    )
    for each in (adopting, convert):
        each.add_argument(
            "--leave-unreadable",
            action="store_true",
            help="leave messages out that the disk cannot read, list them, and preserve the file; without, it is"
            " refused",
        )
    aside = commands.add_parser("set-aside", help="move the stores to a dated folder beside them; nothing is deleted")
    aside.add_argument("--store", action="append", metavar="NAME", help="only the store with this name in their folder")
    default = Path(os.environ.get("HEADGATE_DATA") or "data") / "broker"
    for each in commands.choices.values():
        each.add_argument("--data", type=Path, default=default, help="the broker's data folder (default: %(default)s)")
        each.add_argument("--json", action="store_true", help="answer in JSON")
    return parser
