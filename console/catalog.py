"""Which commands there are, and how a process of Headgate's own is started. Plain data, without Django."""

from __future__ import annotations

import sys
from pathlib import Path

#: command -> (module and its function `(argv) -> exit code`, what it does). Nothing here may import Django.
OURS = {
    "up": (
        "console.up.main:main",
        "start everything under one supervisor and print where to sign in (--demo: with demo clients)",
    ),
    "broker": ("brokers.server.main:main", "the broker engine alone"),
    "store": (
        "brokers.server.store_command:main",
        "check or print what is in a stopped broker's message stores; convert, adopt or set them aside",
    ),
    "backup": ("console.backup.commands:main_backup", "copy everything in a data folder, also one in use, to a file"),
    "restore": ("console.backup.commands:main_restore", "restore such a file into an empty folder"),
    "demo": ("brokers.demo.main:main", "demo producers and consumers against a running broker"),
}
#: commands of the console that are worth naming first
CONSOLE = {
    "web": "the web console alone",
    "history": "turn what was recorded into the history's tables, every few seconds",
    "worker": "deliver alerts, carry out bulk edits and schedules, keep the history in shape",
    "beat": "send what is due by the clock to the workers, and evaluate alerts",
    "policies": "all policies as one YAML file: export, diff, apply",
    "recorder": "record the brokers' events and samples for the history",
    "import-log": "take the history of other brokers from their logs",
    "make-history": "generate a year of history, as a demo",
    "migrate": "create or update the console's database",
    "changepassword": "set a user's password, e.g. `changepassword admin`",
}
#: Those of them that go on until they are stopped. They have ended what they do when they return: what Python would
#: still take down object by object then, the kernel does at once.
SERVICES = frozenset({"web", "history", "worker", "beat", "recorder"})
#: Django's commands that are neither named above nor a service. `headgate manage COMMAND` runs those that are not here.
MANAGED = frozenset({"adapters", "ensure_admin", "rotate_broker_key"})
#: What `headgate` runs here; its other commands ask a console. It has its own `policies`, over the API.
HERE = frozenset(OURS) | frozenset(CONSOLE) - {"policies"} | MANAGED
#: How a process is started: without the current folder among the places where Python looks for modules.
PROGRAM = (sys.executable, str(Path(__file__).with_name("__main__.py")))

#: Those whose output is a log: JSON lines with `--log-format json`, or HEADGATE_LOG_FORMAT=json.
LOGGED = SERVICES | {"adapters", "broker"}
