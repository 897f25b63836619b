"""What Slack, Microsoft Teams and PagerDuty accept, as JSON Schemas written down from their public documentation.

Slack: incoming webhooks, Block Kit (header, section, context). Teams: workflows with Adaptive Cards 1.4. PagerDuty:
Events API v2, trigger and resolve.
"""

from __future__ import annotations

from typing import Any


def _text(kind: str, most: int) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", "text"],
        "properties": {
            "type": {"const": kind},
            "text": {"type": "string", "minLength": 1, "maxLength": most},
            **({"emoji": {"type": "boolean"}} if kind == "plain_text" else {"verbatim": {"type": "boolean"}}),
        },
        "additionalProperties": False,
    }


def _block(kind: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", *properties],
        "properties": {"type": {"const": kind}, **properties},
        "additionalProperties": False,
    }


SLACK: dict[str, Any] = {
    "type": "object",
    "required": ["text", "blocks"],
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 40_000},
        "blocks": {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "items": {
                "oneOf": [
                    _block("header", text=_text("plain_text", 150)),
                    _block("section", text=_text("mrkdwn", 3000)),
                    _block(
                        "context",
                        elements={
                            "type": "array",
                            "minItems": 1,
                            "maxItems": 10,
                            "items": {"oneOf": [_text("plain_text", 3000), _text("mrkdwn", 3000)]},
                        },
                    ),
                ]
            },
        },
    },
    "additionalProperties": False,
}

_RUN: dict[str, Any] = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {
        "type": {"const": "TextRun"},
        "text": {"type": "string", "minLength": 1},
        "size": {"enum": ["Default", "Small", "Medium", "Large", "ExtraLarge"]},
        "weight": {"enum": ["Default", "Lighter", "Bolder"]},
        "color": {"enum": ["Default", "Dark", "Light", "Accent", "Good", "Warning", "Attention"]},
        "isSubtle": {"type": "boolean"},
        "selectAction": {
            "type": "object",
            "required": ["type", "url"],
            "properties": {"type": {"const": "Action.OpenUrl"}, "url": {"type": "string", "pattern": "^https?://"}},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}

TEAMS: dict[str, Any] = {
    "type": "object",
    "required": ["type", "attachments"],
    "properties": {
        "type": {"const": "message"},
        "attachments": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["contentType", "content"],
                "properties": {
                    "contentType": {"const": "application/vnd.microsoft.card.adaptive"},
                    "contentUrl": {"type": ["string", "null"]},
                    "content": {
                        "type": "object",
                        "required": ["type", "version", "body"],
                        "properties": {
                            "$schema": {"const": "http://adaptivecards.io/schemas/adaptive-card.json"},
                            "type": {"const": "AdaptiveCard"},
                            "version": {"enum": ["1.2", "1.3", "1.4", "1.5"]},
                            "msteams": {
                                "type": "object",
                                "properties": {"width": {"const": "Full"}},
                                "additionalProperties": False,
                            },
                            "body": {
                                "type": "array",
                                "minItems": 1,
                                "items": {
                                    "type": "object",
                                    "required": ["type", "inlines"],
                                    "properties": {
                                        "type": {"const": "RichTextBlock"},
                                        "inlines": {"type": "array", "minItems": 1, "items": _RUN},
                                        "spacing": {"enum": ["None", "Small", "Default", "Medium", "Large"]},
                                        "separator": {"type": "boolean"},
                                    },
                                    "additionalProperties": False,
                                },
                            },
                        },
                        "additionalProperties": False,
                    },
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}

_KEYS: dict[str, Any] = {
    "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
    "dedup_key": {"type": "string", "minLength": 1, "maxLength": 255},
}

PAGERDUTY: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "required": ["routing_key", "event_action", "payload"],
            "properties": {
                **_KEYS,
                "event_action": {"const": "trigger"},
                "client": {"type": "string"},
                "client_url": {"type": "string", "pattern": "^https?://"},
                "links": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["href"],
                        "properties": {
                            "href": {"type": "string", "pattern": "^https?://"},
                            "text": {"type": "string"},
                        },
                        "additionalProperties": False,
                    },
                },
                "payload": {
                    "type": "object",
                    "required": ["summary", "source", "severity"],
                    "properties": {
                        "summary": {"type": "string", "minLength": 1, "maxLength": 1024},
                        "source": {"type": "string", "minLength": 1},
                        "severity": {"enum": ["critical", "error", "warning", "info"]},
                        "timestamp": {"type": "string", "format": "date-time"},
                        "component": {"type": "string"},
                        "group": {"type": "string"},
                        "class": {"type": "string"},
                        "custom_details": {"type": "object"},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
        {
            "type": "object",
            "required": ["routing_key", "event_action", "dedup_key"],
            "properties": {**_KEYS, "event_action": {"enum": ["acknowledge", "resolve"]}},
            "additionalProperties": False,
        },
    ]
}

#: Largest request in bytes.
LARGEST = {"slack": 100_000, "teams": 28 * 1024, "pagerduty": 512 * 1024}
