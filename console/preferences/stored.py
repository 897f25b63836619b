"""Read and change the preferences of a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from brokers.admin import InvalidValue
from console.preferences.choices import complete, fault_of
from console.preferences.models import UserPreferences


def preferences_of(user: int | None) -> dict[str, Any]:
    """Return all preferences of a user by primary key, defaults included; None: the defaults."""
    found = None if user is None else UserPreferences.objects.filter(pk=user).first()
    return complete({} if found is None else found.values)


def change_preferences(user: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Store some preferences of a user, and return all. Raises InvalidValue."""
    if wrong := {name: fault for name, value in given.items() if (fault := fault_of(name, value))}:
        raise InvalidValue(wrong)
    with transaction.atomic():
        found, _ = UserPreferences.objects.select_for_update().get_or_create(pk=user)
        found.values = {**found.values, **given}
        found.save()
    return complete(found.values)
