"""The declared policy fields, as pages pass them to their scripts: all, or those that a broker has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest

from brokers.model import POLICY
from console.access.user_rights import request_rights
from console.links.link import BrokerLink
from console.links.visible import visible_link
from console.operations.policies import FIELDS, fields_of
from console.pages.frame import broker_of


def policy_fields() -> list[dict[str, Any]]:
    """Return all declared policy fields, for texts about values of any broker."""
    return [asdict(attribute) for attribute in POLICY]


def link_of(request: HttpRequest) -> BrokerLink:
    """Return the link to the broker of the page. Raises Http404."""
    return visible_link(request_rights(request), broker_of(request)["slug"])


def fields_shown(request: HttpRequest, type_name: str) -> list[dict[str, Any]]:
    """Return the policy fields that objects of a type have at the page's broker, whether they can be set or not."""
    declared = link_of(request).types.get(type_name)
    return [asdict(a) for a in declared.attributes if a.name in FIELDS] if declared else []


def fields_at(request: HttpRequest, type_name: str) -> list[dict[str, Any]]:
    """Return the policy fields that can be set on objects of a type at the page's broker. Raises Http404."""
    return [asdict(attribute) for attribute in fields_of(link_of(request).types, type_name)]
