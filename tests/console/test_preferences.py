"""Preferences of users: each has their own, invalid values are refused by name, and pages have them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from console.audit.models import AuditEntry
from console.permissions.rights import Grant, Role
from console.preferences.choices import DEFAULTS, complete, time_zones
from console.preferences.models import UserPreferences
from tests.console.access.conftest import person
from tests.console.conftest import Broker, signed_in

pytestmark = pytest.mark.django_db
PATH = "/api/v1/preferences/"


@pytest.fixture
def vera(broker: Broker) -> APIClient:
    return signed_in(person("vera", Grant(Role.VIEWER)))


def test_preferences_are_of_one_user_and_of_each_browser(vera: APIClient) -> None:
    assert vera.get(PATH).json() == DEFAULTS
    changed = vera.patch(PATH, {"time_zone": "Europe/Berlin", "hidden_columns": ["depth"]}, format="json").json()
    assert changed == {**DEFAULTS, "time_zone": "Europe/Berlin", "hidden_columns": ["depth"]}
    vera.patch(PATH, {"page_size": 250}, format="json")
    assert vera.get(PATH).json() == {**changed, "page_size": 250}
    assert signed_in(person("olaf", Grant(Role.OPERATOR))).get(PATH).json() == DEFAULTS
    assert not AuditEntry.objects.filter(operation__contains="preference").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_zone", "Mars/Olympus"),
        ("time_zone", "../../etc/passwd"),
        ("time_zone", 5),
        ("clock", "25"),
        ("density", "dense"),
        ("page_size", 51),
        ("page_size", True),
        ("name_width", "1px;"),
        ("hidden_columns", ["name"]),
        ("hidden_columns", "depth"),
        ("group_by", "colour"),
        ("groups", True),
        ("colour", "red"),
    ],
)
def test_invalid_preference_is_refused_by_name(vera: APIClient, name: str, value: Any) -> None:
    answer = vera.patch(PATH, {name: value}, format="json")
    assert answer.status_code == 400
    assert list(answer.json()) == [name]
    assert vera.get(PATH).json() == DEFAULTS


def test_stored_value_that_is_no_longer_valid_is_the_default() -> None:
    assert complete({"density": "gone", "time_zone": "UTC", "old": 1}) == {**DEFAULTS, "time_zone": "UTC"}
    assert "Europe/Berlin" in time_zones()


def test_signed_out_user_has_no_preferences(broker: Broker) -> None:
    assert APIClient().get(PATH).status_code == 401
    assert APIClient().patch(PATH, {"clock": "12"}, format="json").status_code == 401


def test_pages_have_the_preferences_of_their_user(broker: Broker) -> None:
    user = person("vera", Grant(Role.VIEWER))
    UserPreferences.objects.create(pk=user.pk, values={"density": "compact", "time_zone": "Asia/Tokyo"})
    client = Client()
    client.force_login(user)
    html = client.get("/").content.decode()
    assert 'data-density="compact"' in html
    settings = re.search(r'<script id="page-settings" type="application/json">(.*?)</script>', html)
    assert settings is not None
    assert json.loads(settings[1])["preferences"]["time_zone"] == "Asia/Tokyo"
    assert 'value="Asia/Tokyo"' in client.get("/preferences/").content.decode()
