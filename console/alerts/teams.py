"""Messages for a webhook of Microsoft Teams (the workflow "Post to a channel when a webhook request is received"), as
Adaptive Cards, and its responses.

Texts are runs of rich text, in which Teams interprets no Markdown: names of queues can contain any character.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from brokers.input_checks import shortened
from console.alerts.messages import link_of, subject
from console.alerts.models import Notification
from console.alerts.slack import cut
from console.alerts.webhook import Response, encoded

#: Objects that a card lists at most.
MAX_OBJECTS = 10
#: Largest message in bytes; Teams refuses those above 28 KB.
MAX_BYTES = 24_000

#: Responses of successful requests; that of a workflow is empty.
_ACCEPTED = ("", "1", "ok", "accepted")


def message(notification: Notification, console_url: str) -> dict[str, Any]:
    """Return the message with as many objects as fit."""
    objects = min(len(notification.items), MAX_OBJECTS)
    while True:
        made = _message(console_url, notification, objects)
        if objects == 0 or len(encoded(made)) <= MAX_BYTES:
            return made
        objects -= 1


def check(response: Response) -> str:
    """Return the outcome of a delivery. Raises Refused: also for a success that reports an error in its body, as
    connectors do."""
    text = " ".join(response.text.split())
    if response.is_success and text.lower() in _ACCEPTED:
        return f"{response}: Teams accepted it"
    if response.status in (401, 403):
        raise response.refused("the workflow does not allow it: copy its URL again, and let anyone trigger the flow")
    if response.status in (404, 410):
        raise response.refused("the workflow does not exist any more: create a new one")
    said = shortened(text, 200) or "an empty response"
    raise response.refused(f"Teams did not accept it: {said}", permanent=False if response.is_success else None)


def _message(console_url: str, notification: Notification, objects: int) -> dict[str, Any]:
    body: list[dict[str, Any]] = [_text(cut(subject(notification), 300), size="Medium", weight="Bolder")]
    for each in notification.items[:objects]:
        body += _of_object(console_url, notification, each)
    more = notification.count - objects
    notes = [f"and {more:,} more"] if more > 0 else []
    notes.append(f"Rule: {notification.rule_name}" if notification.rule_name else "From the Alerts page of the console")
    body.append(_text("; ".join(notes), isSubtle=True, size="Small"))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _of_object(console_url: str, notification: Notification, each: dict[str, Any]) -> list[dict[str, Any]]:
    url = link_of(console_url, notification, each)
    name: dict[str, Any] = {"type": "TextRun", "text": cut(each["name"], 300)}
    if url:
        name |= {"selectAction": {"type": "Action.OpenUrl", "url": url}, "color": "Accent"}
    since = dt.datetime.fromisoformat(each["since"])
    when = f"{'' if notification.phase == 'event' else 'since '}{since:%Y-%m-%d %H:%M:%S} UTC"
    head = {"type": "TextRun", "text": f"{each['title']}: ", "weight": "Bolder"}
    sentences = [cut(each[part], 800) for part in ("saw", "advice") if each[part]]
    return [
        {"type": "RichTextBlock", "spacing": "Medium", "separator": True, "inlines": [head, name]},
        *(_text(sentence, spacing="None") for sentence in sentences),
        _text(when, spacing="None", isSubtle=True, size="Small"),
    ]


def _text(text: str, spacing: str = "Default", **style: Any) -> dict[str, Any]:
    """Return a block of one run of text. `style`: of the run."""
    return {"type": "RichTextBlock", "spacing": spacing, "inlines": [{"type": "TextRun", "text": text, **style}]}
