"""Templates of alert rules, and previews: which objects meet a condition of a rule now."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.alerts import editing
from console.alerts.preview import preview
from console.alerts.templates import TEMPLATES
from console.api import alerts_schema as shapes
from console.api import schema
from console.api.base_views import PersonalView
from console.history.storage.recorder_signs import last_sign
from console.links.visible import visible_links


class RulePreviewView(PersonalView):
    @extend_schema(
        request=shapes.RuleConditions,
        responses={200: shapes.RulePreview, **schema.WRITE_REFUSALS},
        summary="Preview a rule: which objects meet one of its conditions now",
    )
    def post(self, request: Request) -> Response:
        rule = editing.unsaved_rule(self.body)
        found = preview(rule, visible_links(self.rights), _last_sign, timezone.now())
        return Response(found.as_json())


def _last_sign(broker: str) -> dt.datetime | None:
    return last_sign(settings.HEADGATE_HISTORY_URL, broker)


class TemplatesView(PersonalView):
    @extend_schema(responses={200: shapes.RuleTemplate(many=True)}, summary="List templates of rules")
    def get(self, request: Request) -> Response:
        return Response(
            [
                {
                    "id": each.identifier,
                    "title": each.title,
                    "text": each.text,
                    "rule": {**editing.RULE, **each.values, "name": each.title},
                }
                for each in TEMPLATES
            ]
        )
