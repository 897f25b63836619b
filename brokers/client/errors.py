"""The errors of a send, and of the connection to the broker.

A `SendError` is about one message, and its class says where that message is:

    NotSent (SendTimeout, LinkRefused)   it never left; send it again when you like
    Rejected, Released                   the broker gave it back; it holds no copy
    SendInDoubt                          it left, and its outcome is not known; sent again, it may be there twice

After each of them the publisher can be used again. `ConnectionFailed` alone is the end of a connection.
"""

from __future__ import annotations


class ClientError(Exception):
    """The base of all errors of this client."""


class ConnectionFailed(ClientError):
    """The connection could not be established, or is closed."""


class TransactionFailed(ClientError):
    """A transaction could not begin, or was not committed. `condition`: the broker's AMQP error condition, if any."""

    def __init__(self, text: str, condition: str = "") -> None:
        super().__init__(text)
        self.condition = condition


class SendError(ClientError):
    """One message was not accepted, or may not have been."""


class NotSent(SendError):
    """The message did not leave this client. It used no credit."""


class SendTimeout(NotSent):
    """The broker gave no credit for the message within `send_timeout`; `waited` in seconds."""

    def __init__(self, text: str, waited: float) -> None:
        super().__init__(text)
        self.waited = waited


class _Refusal(SendError):
    """`condition`: the broker's AMQP error condition; `description`: its text."""

    def __init__(self, text: str, condition: str, description: str) -> None:
        said = f"{text}: {condition}" if condition else text
        super().__init__(f"{said}: {description}" if description else said)
        self.condition = condition
        self.description = description


class LinkRefused(_Refusal, NotSent):
    """The broker refused or ended the link to the address."""


class Rejected(_Refusal):
    """The broker rejected the message, for instance with `amqp:resource-limit-exceeded` because a queue is overfull."""


class Released(SendError):
    """The broker released the message: it may accept it later."""


class SendInDoubt(SendError):
    """The message was sent, and its outcome did not arrive within `send_timeout`, or before the link ended."""
