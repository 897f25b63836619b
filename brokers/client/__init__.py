"""A client for applications that publish to any AMQP 1.0 broker with producer flow control.

    with connect("amqp://127.0.0.1:5672") as connection:
        orders = connection.publisher("orders", send_timeout=60)
        orders.send("a body, or a whole proton.Message")

`send` returns when the broker has accepted the message. While the broker blocks the producer, `send` waits, logs a
warning (`headgate.client`) every `notify_period`, and raises `SendTimeout` after `send_timeout`: the message was not
sent, and connection, publisher and transaction remain usable. `errors.py` has the other errors.

Environment variables set the defaults of both times, in seconds or `none`: HEADGATE_SEND_TIMEOUT (60 unless set) and
HEADGATE_NOTIFY_PERIOD (5).

It depends on `python-qpid-proton`, and on no other part of this project.
"""

from brokers.client.connection import Connection, connect
from brokers.client.errors import (
    ClientError,
    ConnectionFailed,
    LinkRefused,
    NotSent,
    Rejected,
    Released,
    SendError,
    SendInDoubt,
    SendTimeout,
    TransactionFailed,
)
from brokers.client.publisher import Publisher
from brokers.client.transaction import Transaction

__all__ = [
    "ClientError",
    "Connection",
    "ConnectionFailed",
    "LinkRefused",
    "NotSent",
    "Publisher",
    "Rejected",
    "Released",
    "SendError",
    "SendInDoubt",
    "SendTimeout",
    "Transaction",
    "TransactionFailed",
    "connect",
]
