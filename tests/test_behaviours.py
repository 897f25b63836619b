"""What the field's four systems do and this one promises: each row has at least one test that names it.

A test names a row by `@pytest.mark.domain("row")`; the number is the section that the row is of: 1 Qpid C++ broker,
2 Qpid Java broker, 3 the design of QPID-942, 4 ActiveMQ, 5 which policy applies, 6 log messages, 7 a producer's states,
8 what comes in; 9 what is kept; `clients`: what AMQP and JMS clients may rely on.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROWS = {
    "1 limits": "a queue has a capacity in bytes, in messages, or both; none means no limit",
    "1 flow_stop_threshold": "a stop level in percent: above it, of bytes or of messages, flow control starts",
    "1 flow_resume_threshold": "a resume level in percent: at or below it, of both, flow control ends",
    "1 mechanism hold": "deliveries are taken in and stay unsettled until the queue resumes",
    "1 hold is bounded": "an overfull queue that holds takes a tenth of its stop level more, whatever comes",
    "1 ring": "a ring drops its oldest messages; it and thresholds exclude each other",
    "1 misconfiguration": "resume above stop is refused, with both values",
    "1 worked example": "204,800 bytes at 80 %: flow control starts above 163,840",
    "2 overfull": "OVERFULL when the depth exceeds the capacity, seen after the enqueue",
    "2 underfull": "NORMAL again at or below the resume level, of bytes and messages both",
    "2 defaults": "a virtual host sets both for its queues; no resume level is the capacity, no capacity no limit",
    "2 who is blocked": "the producers of the overfull queue; one with several reasons runs when the last has gone",
    "2 log messages": "flow control is written to the log and kept as events",
    "2 disk quota": "past its overfull limit a store blocks every producer of its virtual host, until below the other",
    "2 client": "send() blocks, warns every notify period, fails clearly at its time-out; the session stays usable",
    "2 old clients": "a client that sends without credit is detached with transfer-limit-exceeded",
    "2 slow consumers": "a policy by topic and subscription finds them by depth, age or count; it logs, or deletes",
    "3 first cause": "a consumer lags or has gone: its queue's producers wait, and go on when somebody consumes again",
    "3 second cause": "subscriptions that never acknowledge hold their publishers, visibly, until something gives",
    "3 third cause": "poison messages that stay unacknowledged hold producers, until the delivery maximum frees them",
    "3 send": "blocks, or fails at once, by the policy",
    "3 check after enqueue": "the check costs the same at any depth and any number of queues",
    "3 policies on queues and exchanges": "a queue without its own policy inherits its exchange's",
    "3 managed at run time": "a policy applied, changed or removed acts at once, on producers blocked now too",
    "3 stop and start all producers": "one call on any scope, idempotent, audited",
    "3 staged start": "one that halts says so everywhere: who began it, when, and which queue halted it",
    "3 known weakness": "the overshoot is one message at most, for any number of producers",
    "3 bounded waiting": "a producer that waits for credit is served in time, whatever the others do or leave undone",
    "3 never without a reason": "a producer without credit is blocked, with reasons, or shown to wait, and for what",
    "4 per producer": "several producers share a connection, and only the one with the full queue is slowed",
    "4 producer window": "what one producer may have outstanding is bounded, in messages and in bytes",
    "4 producerFlowControl=false": "flow_control off holds nobody; policies have wildcards",
    "4 memoryLimit per destination": "capacity_bytes of a queue",
    "4 cursors": "spool to disk: a queue takes more than its capacity, memory stays bounded",
    "4 sendFailIfNoSpace": "reject: the send fails at once with resource-limit-exceeded",
    "4 sendFailIfNoSpaceAfterTimeout": "reject-after: the send fails after so many ms",
    "4 systemUsage": "limits of memory, store and temp for the broker",
    "4 limits bound what is used": "a limit is exceeded by one message a producer at most",
    "4 limits exist without a setting": "memory: a part of the machine's or container's; store and temp: of the disk",
    "4 what each limit holds": "memory: what is neither stored nor spooled; store: what is stored; temp: what spools",
    "4 failing sends for systemUsage": "with reject and reject-after a send fails while a limit is exceeded",
    "4 what waits outside uses memory": "messages that wait outside queues, in fan-outs and in transactions count",
    "4 percentLimit and total": "a limit as a percentage of what is available, or of an explicit total",
    "4 hung broker": "what the console shows of a broker that does not answer is dated, and says what is not known",
    "4 hung producer": "the console says who is blocked, by what, since when, and what would release it",
    "5 order": "own, best pattern, exchange, virtual host, broker: each field on its own",
    "5 best match": "longest literal prefix, then fewer wildcards, then priority",
    "5 several exchanges": "the strictest value counts",
    "5 explain": "value and origin of every field",
    "5 patterns": "* is one word; > and # are any number of words at the end",
    "6 texts": "QUE-1003 to 1005, CHN-1005 and 1006, MST-1008 and 1009, to the letter, with grouping commas",
    "6 causes that are no queue": "a store, a limit or a wider stop is written as all queues, after what explains it",
    "6 one line a turn": "a full ring writes one QUE-1005 a turn, with its count",
    "7 states": "RUNNING, BLOCKED with a set of reasons, RUNNING when it is empty",
    "7 independent reasons": "starting producers releases the operator's reasons, not an overfull queue's",
    "clients temporary destinations": "queues and topics that live as long as the link that asked for them",
    "clients groups": "messages of a group go to one of the consumers that ask for groups, in order, until it goes",
    "clients no destination": "a send of a producer without a destination that timed out is never delivered",
    "clients sole connection": "a second connection of a user and container-id that is to be the only one is refused",
    "clients delivery delay": "a message is not seen before its delivery time; it counts in the depth until then",
    "7 attaches while stopped": "a producer that attaches while its target is stopped starts blocked",
    "8 no input kills": "no file, body, socket message or request makes a process end, whatever it nests or counts",
    "8 no input burns": "what a request may occupy is bounded by its size, count and depth before it is looked at",
    "8 answers are JSON": "everything below /api/ answers JSON, refusals and unknown addresses included",
    "8 every name opens": "a queue can be opened and managed whatever it is called; . and .. are not created",
    "8 frames": "an AMQP frame that the protocol library could not survive ends its own connection, and nothing else",
    "8 sign-in": "wrong passwords of others neither lock the console out of the broker nor keep it waiting",
    "8 a dying console": "a console that dies again and again never stops the broker",
    "8 whole origin": "a WebSocket is opened by pages of this console alone: scheme, host and port count",
    "9 kills": "what was accepted survives kill -9 at any moment, transactions as a whole or not at all",
    "9 power cuts": "what was confirmed is there after a power cut, whatever of the rest was written",
    "9 bit rot": "a flipped byte gives no wrong answer, is named, and costs at most what it hit",
    "9 read-only": "what may not be written is named in one line, and nothing is lost",
    "9 clock steps": "a clock that is set by an hour fires, repeats, skips, ends and prolongs nothing in silence",
    "9 identity": "a configuration and stores that do not belong together are refused, with what to do about it",
}


def _named() -> dict[str, list[str]]:
    """Row -> the tests that name it."""
    found: dict[str, list[str]] = {}
    for file in sorted(Path(__file__).parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.domain":
                        for argument in mark.args:
                            found.setdefault(ast.literal_eval(argument), []).append(node.name)
    return found


def test_every_row_of_the_domain_has_a_test_that_names_it():
    named = _named()
    assert sorted(set(ROWS) - set(named)) == [], "rows that no test names"
    assert sorted(set(named) - set(ROWS)) == [], "names that are no row"
