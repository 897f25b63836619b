"""The limits of input: one table for every call, form, socket message, file and management request.

The limits are far above the needs of people and their scripts, and far below what could block or end a process.
`input_checks.py` checks values and texts, `model/new_names.py` the names of new objects, and a thin adapter each kind
of input: `console/intake/` HTTP, forms, JSON, YAML and sockets, `server/management_node.py` AMQP.
"""

from __future__ import annotations

from typing import NamedTuple


class Limit(NamedTuple):
    """`most` of `unit`; `what` is a phrase for people."""

    most: int
    unit: str
    what: str


#: By name, in the order in which they are documented.
LIMITS: dict[str, Limit] = {
    "body": Limit(2_500_000, "bytes", "the body of a request"),
    "file_body": Limit(20_000_000, "bytes", "the body of a request with a file of policies"),
    "file": Limit(16_000_000, "characters", "a file of policies"),
    "file_nodes": Limit(400_000, "nodes", "the names and values of a file of policies, each alias counted in full"),
    "file_depth": Limit(12, "levels", "maps and lists inside each other in a file of policies"),
    "query": Limit(16_000, "bytes", "the path and the parameters of a request"),
    "parameters": Limit(200, "parameters", "the parameters of a request"),
    "socket_message": Limit(64_000, "bytes", "a message that a page sends on its WebSocket"),
    "depth": Limit(16, "levels", "lists and objects inside each other"),
    "values": Limit(100_000, "values", "the values of a body, counting those inside lists and objects"),
    "fields": Limit(1_000, "fields", "the fields of one object"),
    "digits": Limit(19, "digits", "a whole number, which has to be from -2^63 to 2^63-1"),
    "field_name": Limit(255, "characters", "the name of a field or parameter"),
    "text": Limit(4_000, "characters", "a text"),
    "message_body": Limit(700_000, "characters", "the body of a message to publish, as base64"),
    "reason": Limit(1_000, "characters", "a reason"),
    "label": Limit(150, "characters", "the name of a user, group, token, rule, receiver, schedule or selection"),
    "name": Limit(255, "characters", "the name of a queue, exchange or virtual host that is created"),
    "named": Limit(10, "names", "unknown names that one answer lists, and faults that it names"),
}

BODY = LIMITS["body"].most
FILE_BODY = LIMITS["file_body"].most
FILE = LIMITS["file"].most
FILE_NODES = LIMITS["file_nodes"].most
FILE_DEPTH = LIMITS["file_depth"].most
QUERY = LIMITS["query"].most
PARAMETERS = LIMITS["parameters"].most
SOCKET_MESSAGE = LIMITS["socket_message"].most
DEPTH = LIMITS["depth"].most
VALUES = LIMITS["values"].most
FIELDS = LIMITS["fields"].most
DIGITS = LIMITS["digits"].most
FIELD_NAME = LIMITS["field_name"].most
TEXT = LIMITS["text"].most
MESSAGE_BODY = LIMITS["message_body"].most
REASON = LIMITS["reason"].most
LABEL = LIMITS["label"].most
NAME = LIMITS["name"].most
NAMED = LIMITS["named"].most

#: Fields whose texts have a limit of their own, at any depth.
TEXTS: dict[str, int] = {"reason": REASON, "yaml": FILE, "body": MESSAGE_BODY, "body_base64": MESSAGE_BODY}


def table() -> str:
    """The limits as a Markdown table."""
    rows = [f"| {limit.what} | {limit.most:,} {limit.unit} |" for limit in LIMITS.values()]
    return "\n".join(["| what | at most |", "|---|---|", *rows])
