"""The errors of a send, and of the connection to the broker.

A `SendError` is about one message, and its class says where that message is:

    NotSent (SendTimeout, LinkRefused)   it never left; send it again when you like
    Rejected, Released                   the broker gave it back; it holds no copy
    SendInDoubt                          it left, and its outcome is not known; sent again, it may be there twice

After each of them the publisher can be used again. `ConnectionFailed` alone is the end of a connection.
"""

from __future__ import annotations


class ClientError(Exception):
    """Every error of this client."""


class ConnectionFailed(ClientError):
    """The connection could not be made, or has been closed for good."""


class TransactionFailed(ClientError):
    """A transaction could not begin, or nothing of it was committed. `condition`: AMQP's, if the broker named one."""

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
    """`condition`: the broker's AMQP error condition; `description`: its words."""

    def __init__(self, text: str, condition: str, description: str) -> None:
        said = f"{text}: {condition}" if condition else text
        super().__init__(f"{said}: {description}" if description else said)
        self.condition = condition
        self.description = description


class LinkRefused(_Refusal, NotSent):
    """The broker does not let this client publish to the address, or ended that."""


class Rejected(_Refusal):
    """The broker refused the message, for instance with `amqp:resource-limit-exceeded` for want of room."""


class Released(SendError):
    """The broker gave the message back without judging it. It may take it another time."""


class SendInDoubt(SendError):
    """The message was sent, and the broker did not say within `send_timeout`, or before the link ended, what became
    of it."""
