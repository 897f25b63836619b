"""The user's own preferences: time zone, clock, and tables of queues."""

from __future__ import annotations

from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import schema
from console.api.base_views import PersonalView
from console.preferences.choices import CLOCKS, COLUMNS, DENSITIES, GROUP_STATES, GROUPINGS, NAME_WIDTHS, PAGE_SIZES
from console.preferences.stored import change_preferences, preferences_of


class Preferences(serializers.Serializer[Any]):
    time_zone = serializers.CharField(
        required=False, allow_blank=True, max_length=60, help_text="IANA name; empty: the browser's."
    )
    clock = serializers.ChoiceField(required=False, choices=list(CLOCKS), help_text="Hours of the clock.")
    density = serializers.ChoiceField(required=False, choices=list(DENSITIES), help_text="Height of rows of queues.")
    page_size = serializers.IntegerField(
        required=False,
        min_value=PAGE_SIZES[0],
        max_value=PAGE_SIZES[-1],
        help_text=f"Rows of queues per page: one of {', '.join(map(str, PAGE_SIZES))}.",
    )
    name_width = serializers.ChoiceField(
        required=False, choices=list(NAME_WIDTHS), help_text="Width of the column of names, px."
    )
    hidden_columns = serializers.ListField(
        required=False,
        child=serializers.ChoiceField(choices=list(COLUMNS)),
        max_length=len(COLUMNS),
        help_text="Columns that tables of queues do not show.",
    )
    group_by = serializers.ChoiceField(required=False, choices=list(GROUPINGS), help_text="Groups of the overview.")
    groups = serializers.ChoiceField(
        required=False, choices=list(GROUP_STATES), help_text="How the groups of the overview are shown at first."
    )


class PreferencesView(PersonalView):
    permission_classes = [IsAuthenticated]

    @extend_schema(responses={200: Preferences, 403: schema.Refusal}, summary="Get your preferences")
    def get(self, request: Request) -> Response:
        return Response(preferences_of(request.user.pk))

    @extend_schema(
        request=Preferences,
        responses={200: Preferences, 400: schema.INVALID, 403: schema.Refusal},
        summary="Change your preferences",
        description="Changes the given ones. They affect only your pages.",
    )
    def patch(self, request: Request) -> Response:
        user = cast("int", request.user.pk)  # an authenticated one
        return Response(change_preferences(user, self.body))
