"""Messages for an incoming webhook of Slack, and its responses. Mattermost accepts the same."""

from __future__ import annotations

import datetime as dt
from typing import Any

from brokers.input_checks import shortened
from console.alerts.messages import link_of, subject
from console.alerts.models import Notification
from console.alerts.webhook import Response

#: Objects that a message lists at most; Slack allows 50 blocks.
MAX_OBJECTS = 10
#: Longest texts that Slack allows, of a header and a section.
_HEADER, _SECTION = 150, 3000

#: What Slack's errors mean, by the text of the response.
_ERRORS = {
    "invalid_payload": "Slack could not read the message",
    "invalid_blocks": "Slack could not read the message",
    "invalid_token": "the webhook's URL is not valid: copy it from Slack again",
    "no_service": "the webhook was removed or disabled in Slack: create a new one",
    "no_team": "the workspace does not exist any more",
    "no_active_hooks": "the webhook is disabled in Slack",
    "channel_not_found": "the channel does not exist any more",
    "channel_is_archived": "the channel is archived",
    "posting_to_general_channel_denied": "the webhook may not post to this channel",
    "action_prohibited": "an administrator of the workspace does not allow it",
    "user_not_found": "the recipient does not exist any more",
    "too_many_attachments": "Slack could not read the message",
}


def message(notification: Notification, console_url: str) -> dict[str, Any]:
    title = subject(notification)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, _HEADER), "emoji": False}}
    ]
    for each in notification.items[:MAX_OBJECTS]:
        blocks.append(
            {"type": "section", "text": {"type": "mrkdwn", "text": _section(console_url, notification, each)}}
        )
    more = notification.count - min(len(notification.items), MAX_OBJECTS)
    notes = [f"and {more:,} more"] if more > 0 else []
    notes.append(f"Rule: {notification.rule_name}" if notification.rule_name else "From the Alerts page of the console")
    blocks.append({"type": "context", "elements": [{"type": "plain_text", "text": cut("; ".join(notes), _HEADER)}]})
    return {"text": _escaped(title), "blocks": blocks}


def check(response: Response) -> str:
    """Return the outcome of a delivery. Slack's response is `ok`; an error may have the status 200, too. Raises
    Refused."""
    text = response.text.strip()
    if response.is_success and text.lower() == "ok":
        return f"{response}: Slack accepted it"
    known = _ERRORS.get(text)
    if known is not None:
        raise response.refused(f"{text}: {known}", permanent=True)
    said = shortened(" ".join(text.split()), 200) or "an empty response"
    raise response.refused(f"Slack did not accept it: {said}", permanent=False if response.is_success else None)


def cut(text: str, most: int) -> str:
    """Return the text with at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _section(console_url: str, notification: Notification, each: dict[str, Any]) -> str:
    url, name = link_of(console_url, notification, each), _escaped(cut(each["name"], 300))
    since = dt.datetime.fromisoformat(each["since"])
    # Readers see the time in their own time zone.
    when = f"<!date^{int(since.timestamp())}^{{date_short_pretty}} {{time_secs}}|{since:%Y-%m-%d %H:%M:%S} UTC>"
    lines = [
        f"*{_escaped(each['title'])}*: " + (f"<{url}|{name.replace('|', '¦')}>" if url else name),
        *(_escaped(cut(each[part], 800)) for part in ("saw", "advice") if each[part]),
        when if notification.phase == "event" else f"since {when}",
    ]
    return cut("\n".join(lines), _SECTION)


def _escaped(text: str) -> str:
    """Return text without references to channels, users and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
