"""The URL of this console, for links in notifications: HEADGATE_URL, else what an administrator entered.

It is read from the database for each delivery, so that the worker sees a change without a restart. An entered URL makes
links and nothing else: the origins whose pages may open WebSockets come from the settings alone (`live/origin.py`),
since they are for the one who runs the console, and a stolen session of an administrator must not add any.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port

from brokers.admin import InvalidValue
from console.access.actor import Actor
from console.alerts.models import ConsoleUrl
from console.operations.console_changes import console_change

#: Where the effective URL comes from.
SOURCES = ("environment", "entered", "none")
#: Characters of an entered URL.
MAX_LENGTH = 300
_WHAT = "console-url"
_FOR_EXAMPLE = "write it as https://headgate.example.com"


def console_url() -> str:
    """Return the effective URL of this console; empty: not known, so that notifications have no links."""
    return settings.HEADGATE_URL or _entered()


def console_url_json() -> dict[str, Any]:
    """Return the effective URL, its source, and what is entered, which HEADGATE_URL overrides."""
    row = ConsoleUrl.objects.first()
    entered = row.url if row else ""
    source = "environment" if settings.HEADGATE_URL else "entered" if entered else "none"
    return {
        "url": settings.HEADGATE_URL or entered,
        "source": source,
        "entered": entered,
        "changed": row.changed if row else None,
        "changed_by": row.changed_by if row else "",
    }


def enter_console_url(by: Actor, text: str) -> None:
    """Store the URL. Raises PermissionDenied, InvalidValue."""
    with console_change(by, _WHAT, "update", administer="enter the URL of the console") as this:
        if settings.HEADGATE_URL:
            raise InvalidValue({"url": f"HEADGATE_URL sets the URL of this console: {settings.HEADGATE_URL}"})
        try:
            url = parsed_console_url(text)
        except ValueError as error:
            raise InvalidValue({"url": str(error)}) from None
        this.before, this.after = {"url": _entered()}, {"url": url}
        ConsoleUrl.objects.update_or_create(pk=ConsoleUrl.ONLY, defaults={"url": url, "changed_by": by.name})


def remove_console_url(by: Actor) -> None:
    """Remove the entered URL, if there is one. Raises PermissionDenied."""
    with console_change(by, _WHAT, "delete", administer="remove the URL of the console") as this:
        this.before = {"url": _entered()}
        ConsoleUrl.objects.all().delete()


def parsed_console_url(text: str) -> str:
    """Return scheme, host and port of an absolute URL in lower case, such as https://headgate.example.com:8443. Raises
    ValueError with a sentence that does not repeat credentials."""
    text = text.strip()
    if any(ord(c) <= 32 or ord(c) >= 127 or c == "\\" for c in text):
        raise ValueError(f"a URL has only ASCII characters, no blanks and no backslashes: {_FOR_EXAMPLE}")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"it is not a URL: {error}; {_FOR_EXAMPLE}") from None
    if parts.scheme not in ("http", "https") or not text.lower().startswith(f"{parts.scheme}://"):
        raise ValueError(f"it must begin with https:// or http://: {_FOR_EXAMPLE}")
    if "@" in parts.netloc:
        raise ValueError("it must not contain a user or password: links are sent to all recipients")
    host, _ = split_domain_port(parts.netloc)
    if not host.strip(".") or port == 0 or parts.netloc.endswith(":"):
        raise ValueError(f"it has no valid host: {_FOR_EXAMPLE}")
    if parts.path not in ("", "/") or "?" in text or "#" in text:
        raise ValueError(f"it must end after the host and its port, where the console's pages begin: {_FOR_EXAMPLE}")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _entered() -> str:
    row = ConsoleUrl.objects.first()
    return row.url if row else ""
