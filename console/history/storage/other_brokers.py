"""Parse the flow-control lines of Artemis, ActiveMQ and RabbitMQ. Pure.

They name an address, a destination or a node. Each rule cites the source of its text, in the broker's repository. An
address or destination is a queue of the virtual host `default` in the history; an ActiveMQ topic has its whole name,
such as `topic://prices`. ActiveMQ and RabbitMQ write more lines than states: `importing/implied.py` converts these.
"""

from __future__ import annotations

import re
from typing import Any

from brokers.model import object_name

Columns = dict[str, Any]

#: Brokers without virtual hosts are recorded with this one.
ONLY_VIRTUALHOST = "default"

#: One of these is in each line that `read_other` knows; bytes, since most lines are excluded before they are decoded.
NEEDLES = (b"AMQ22", b"resource limit alarm", b"Usage Manager", b"tore is Full", b"Server startup complete")

#: The kind of a line that says a queue or broker is blocked now, in a log that has no line for the end.
BLOCKED_NOW = "blocked-now"

# Artemis: ActiveMQServerLogger.java has the texts, PagingStoreImpl.getPageInfo the sizes. Releases before 2.21 wrote
# "size is currently: N bytes; max-size-bytes: N; global-size-bytes: N".
_ARTEMIS = re.compile(r"(?P<code>AMQ22(?:2183|1046|2212|2210|2211|4114|4115)): (?P<words>.*)")
_ADDRESS = re.compile(r"[^']*'(?P<address>.*?)'(?:[;.]|$)(?P<sizes>.*)")
_SIZES = re.compile(
    r" size=(?P<bytes>-?\d+) bytes \((?P<messages>-?\d+) messages\);"
    r" maxSize=(?P<max_bytes>-?\d+) bytes \((?P<max_messages>-?\d+) messages\);"
)
_OLD_SIZES = re.compile(r" size is currently: (?P<bytes>-?\d+) bytes; max-size-bytes: (?P<max_bytes>-?\d+)")

# RabbitMQ: deps/rabbit/src/rabbit_alarm.erl, handle_set_resource_alarm and handle_clear_resource_alarm; the end of a
# start: deps/rabbit/src/rabbit.erl. `~tp` prints a node with quotes if its name has a hyphen or a dot.
_ALARM = re.compile(
    r"(?P<source>\S+) resource limit alarm (?P<what>set|cleared)"
    r"(?: (?:on|for dead) node '?(?P<node>[^\s']+?)'?\.?| across the cluster)\s*$"
)
_RABBIT_READY = re.compile(r"Server startup complete; ")

# ActiveMQ: region/Queue.java and region/Topic.java of activemq-broker, at the beginning of a block and then every
# `blockedProducerWarningInterval` (30 s); BaseDestination.waitForSpace adds how long the producer has been blocked.
# Releases before 5.16 name the user of the memory first and the limit not at all.
_USAGE = re.compile(
    r"(?:Usage Manager Memory Limit(?: \((?P<limit>\d+)\))? reached on (?P<queue>(?:temp-)?(?:queue|topic)://\S+?)"
    r"(?:, size (?P<size>\d+))?\. "
    r"|(?P<topic>(?:temp-)?(?:queue|topic)://\S+), Usage Manager memory limit reached (?P<topic_limit>\d+)\. "
    r"|Usage Manager (?:Memory Limit|Memory Usage limit) reached\. .*? flooding (?P<flooded>\S+?)\. "
    r"|(?P<store>Persistent store|Temp Store|Job Scheduler Store) is Full[ ,(].*)"
)
#: The usage that the line begins with: the destination's, and the broker's memory as its parent.
_BROKER_MEMORY_FULL = re.compile(r"Parent:Usage\([^)]*:?memory\) percentUsage=1\d\d%")
_BLOCKING_FOR = re.compile(r"\(blocking for: (?P<seconds>\d+)s\)")


#: What a column can have. Digits are counted first: the time to convert them grows with the square of their number.
_LARGEST, _DIGITS = 2**63 - 1, 19
#: A producer is not blocked for longer, in seconds: about three years.
_LONGEST = 10**8


def whole_number(text: str, largest: int = _LARGEST) -> int:
    """Return the number of a line. Raises ValueError for one that is none of bytes, messages or seconds."""
    if len(text.lstrip("-")) > _DIGITS or abs(number := int(text)) > largest:
        raise ValueError(f"{text[:40]} is too large")
    return number


def milliseconds(seconds: str | None) -> int | None:
    """Return the time of a line in ms. Raises ValueError for one that no line means."""
    return whole_number(seconds, _LONGEST) * 1000 if seconds else None


def may_be_other(line: bytes) -> bool:
    """Return whether the line may be one of `read_other`."""
    return any(needle in line for needle in NEEDLES)


def read_other(line: str) -> tuple[int, Columns] | None:
    """Return the position of the message in the line and its columns; None for another line. Raises ValueError for a
    line with the code of one of these, but not its format."""
    if match := _ARTEMIS.search(line):
        return match.start(), _artemis(match["code"], match["words"].rstrip())
    if "resource limit alarm" in line:
        if not (match := _ALARM.search(line)):
            raise ValueError(line)
        return None if match["node"] is None else (match.start(), _alarm(match))
    if match := _RABBIT_READY.search(line):
        return match.start(), {"kind": "broker-ready", "text": match.string[match.start() :], **_BROKER}
    if match := _USAGE.search(line):
        return match.start(), _usage(match)
    return None


_BROKER = {"object": "type=Broker", "object_type": "Broker"}


def of_queue(kind: str, queue: str, text: str, state: str | None) -> Columns:
    name = object_name("Queue", virtualhost=ONLY_VIRTUALHOST, name=queue)
    return {
        "kind": kind,
        "text": text,
        "state": state,
        "object": str(name),
        "object_type": "Queue",
        "virtualhost": ONLY_VIRTUALHOST,
        "queue": queue,
    }


def of_broker(kind: str, text: str, reason: str) -> Columns:
    """Return a stop or start of all producers by the broker itself, which is its actor."""
    return {"kind": kind, "text": text, "scope": "broker", "reason": reason, "actor": "broker", **_BROKER}


def _artemis(code: str, words: str) -> Columns:
    text = f"{code}: {words}"
    if code in ("AMQ222210", "AMQ222211"):
        return {"kind": "store-overfull" if code == "AMQ222210" else "store-underfull", "text": text, **_BROKER}
    match = _ADDRESS.match(words)
    if not match:
        raise ValueError(text)
    address = match["address"]
    if code in ("AMQ224114", "AMQ224115"):  # an operator blocks the address, and unblocks it
        kind = "producers-stopped" if code == "AMQ224114" else "producers-started"
        return of_queue(kind, address, text, None) | {"scope": f"queue {ONLY_VIRTUALHOST}/{address}"}
    blocked = code != "AMQ221046"
    kind, state = ("queue-overfull", "OVERFULL") if blocked else ("queue-underfull", "NORMAL")
    columns = of_queue(kind, address, text, state)
    sizes = _SIZES.match(match["sizes"]) or _OLD_SIZES.match(match["sizes"])
    if sizes:
        level = "stop" if blocked else "resume"
        found = {name: whole_number(value) for name, value in sizes.groupdict().items()}
        columns["depth_bytes"] = found["bytes"]
        columns[f"{level}_bytes"] = max(found["max_bytes"], 0)
        if "messages" in found:
            columns["depth_messages"] = found["messages"]
            columns[f"{level}_messages"] = max(found["max_messages"], 0)
    return columns


def _alarm(match: re.Match[str]) -> Columns:
    kind = "producers-stopped" if match["what"] == "set" else "producers-started"
    return of_broker(kind, match[0].rstrip(), f"{match['source']} alarm on {match['node']}")


def _usage(match: re.Match[str]) -> Columns:
    text = match.string[match.start() :].rstrip()
    duration = _BLOCKING_FOR.search(text)
    lasted = {"lasted_ms": milliseconds(duration["seconds"]) if duration else None}
    if match["store"]:
        return of_broker(BLOCKED_NOW, text, f"{match['store'].lower()} full") | lasted
    if match["flooded"] and _BROKER_MEMORY_FULL.search(match.string, 0, match.start()):
        return of_broker(BLOCKED_NOW, text, "broker memory full") | lasted
    name = match["queue"] or match["topic"] or match["flooded"]
    columns = of_queue(BLOCKED_NOW, name.removeprefix("queue://"), text, "OVERFULL") | lasted
    if limit := match["limit"] or match["topic_limit"]:
        columns["stop_bytes"] = whole_number(limit)
    if match["size"]:
        columns["depth_messages"] = whole_number(match["size"])
    return columns
