"""Notifications by e-mail. A mail server accepts or refuses each recipient, and each has its outcome: one that accepted
gets the notification once, one that was refused for now is tried again, and one that was refused for good is named.

`smtplib` raises only if all are refused, and Django drops what it returns about the others.
"""

from __future__ import annotations

import smtplib
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.core.mail.message import sanitize_address

from brokers.input_checks import on_one_line, shortened
from brokers.name_lookup import look_up
from console.alerts.console_url import console_url
from console.alerts.messages import subject, text
from console.alerts.models import Delivery, Receiver

#: Characters of a refusal of the server that are recorded.
_LONGEST_REFUSAL = 200
#: Code and text of the server by recipient.
Refusals = Mapping[str, tuple[int, bytes]]


class RefusedForGood(Exception):
    """The server refused recipients, and would again. The message is a sentence."""


def send_mail(receiver: Receiver, delivery: Delivery) -> str:
    """Send the notification to the recipients that have no outcome yet, put theirs into `delivery.settled`, and return
    the outcome of the delivery. Raises RefusedForGood, SMTPException if some are to be tried again, and OSError."""
    look_up(settings.EMAIL_HOST, settings.EMAIL_PORT)  # the look-up of smtplib has no time limit
    settled: dict[str, str] = {each: delivery.settled[each] for each in receiver.recipients if each in delivery.settled}
    pending = [each for each in receiver.recipients if each not in settled]
    refused = _refused_of(_message(receiver, delivery), pending) if pending else {}
    later = {each: said for each, said in refused.items() if said[0] < 500}
    settled |= {each: "" if each not in refused else _words(refused[each]) for each in pending if each not in later}
    delivery.settled = settled
    outcome = _outcome(settled, later)
    if later:
        raise smtplib.SMTPException(outcome)
    if any(settled.values()):
        raise RefusedForGood(outcome)
    return outcome


def _message(receiver: Receiver, delivery: Delivery) -> EmailMessage:
    notification = delivery.notification
    return EmailMessage(
        subject=subject(notification).replace("\n", " ").replace("\r", " "),
        body=text(notification, console_url()),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=receiver.recipients,
        # A duplicate, after a worker died, has the same ID.
        headers={"Message-ID": f"<{notification.id}.{delivery.pk}@headgate>", "Auto-Submitted": "auto-generated"},
    )


def _refused_of(message: EmailMessage, recipients: Iterable[str]) -> dict[str, tuple[int, bytes]]:
    """Send the message in one transaction, and return the recipients that were refused. Raises SMTPException if the
    server refused the message itself, OSError."""
    addresses = {sanitize_address(each, "utf-8"): each for each in recipients}
    sender = sanitize_address(message.from_email, "utf-8")
    content: Any = message.message()  # Django's, whose `as_bytes` takes the end of lines
    backend = EmailBackend()
    backend.open()
    try:
        server = backend.connection
        assert server is not None  # only after an error that was to be ignored
        refused: Refusals = server.sendmail(sender, list(addresses), content.as_bytes(linesep="\r\n"))
    except smtplib.SMTPRecipientsRefused as error:
        # If the server ended the connection, it refused some, and was not given the others.
        refused = {each: error.recipients.get(each, (421, b"not tried")) for each in addresses}
    finally:
        backend.close()
    return {addresses[each]: (int(said[0]), bytes(said[1])) for each, said in refused.items()}


def _words(said: tuple[int, bytes]) -> str:
    return shortened(on_one_line(f"{said[0]} {said[1].decode(errors='replace')}".strip()), _LONGEST_REFUSAL)


def _outcome(settled: Mapping[str, str], later: Refusals) -> str:
    accepted = [each for each, said in settled.items() if not said]
    refused = [f"{each} ({said})" for each, said in settled.items() if said]
    again = [f"{each} ({_words(said)})" for each, said in later.items()]
    parts = [
        f"{settings.EMAIL_HOST} accepted it for {', '.join(accepted)}" if accepted else "",
        f"refused: {', '.join(refused)}" if refused else "",
        f"refused for now: {', '.join(again)}" if again else "",
    ]
    return "; ".join(part for part in parts if part)
