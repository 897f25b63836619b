"""A client for applications that publish to an AMQP 1.0 broker with producer flow control, of whatever make.

    with connect("amqp://127.0.0.1:5672") as connection:
        orders = connection.publisher("orders", send_timeout=60)
        orders.send("a body, or a whole proton.Message")

`send` returns when the broker has taken the message. While the broker holds the producer back it waits, says so in the
log (`headgate.client`) every `notify_period`, and after `send_timeout` raises `SendTimeout`: the message was not sent,
and connection, publisher and transaction go on as before. `errors.py` says what else can become of a message.

The two times can be set from outside, too, in seconds or `none`, for publishers that are made without them:
HEADGATE_SEND_TIMEOUT (60 unless set) and HEADGATE_NOTIFY_PERIOD (5).

It stands on `python-qpid-proton` and on nothing else of this project.
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
