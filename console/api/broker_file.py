"""Export and import of the added brokers as a YAML file."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from console.api import brokers_schema as shapes
from console.api import schema
from console.api.base_views import PersonalView
from console.operations.broker_import import (
    BrokerDifference,
    apply_broker_file,
    broker_difference,
    export_brokers,
)


class BrokerFileView(PersonalView):
    @extend_schema(
        operation_id="brokers_file",
        responses={200: shapes.BrokerFile, **schema.READ_REFUSALS},
        summary="Export the added brokers",
        description="For administrators of all brokers. Passwords are not exported.",
    )
    def get(self, request: Request) -> Response:
        return Response({"yaml": export_brokers(self.actor)})

    @extend_schema(
        operation_id="brokers_file_apply",
        request=shapes.BrokerFileRequest,
        responses={200: shapes.BrokerFileAnswer, **schema.WRITE_REFUSALS, 409: schema.STALE},
        summary="Apply a file of brokers",
        description="For administrators of all brokers. Adds and changes brokers as the file says; those that are not"
        " in the file stay, or are removed with `prune`. Each is changed and audited separately. Passwords are not in"
        " the file: a dry run without them returns which ones it names, and they are sent in `passwords`.",
    )
    def post(self, request: Request) -> Response:
        text, prune = self.body["yaml"], self.body["prune"]
        passwords = {each["slug"]: each["password"] for each in self.body["passwords"]}
        if len(passwords) < len(self.body["passwords"]):
            raise InvalidValue({"passwords": "passwords has two for one broker"})
        if self.body["dry_run"]:
            return Response(_shown(broker_difference(self.actor, text, passwords=passwords, prune=prune)))
        found, applied = apply_broker_file(
            self.actor,
            text,
            passwords=passwords,
            prune=prune,
            reason=self.body["reason"],
            digest=self.body["digest"],
        )
        return Response({**_shown(found), "applied": [each.as_json() for each in applied]})


def _shown(found: BrokerDifference) -> dict[str, Any]:
    return {
        "changes": [change.as_json() for change in found.changes],
        "problems": dict(found.problems),
        "left_alone": list(found.left_alone),
        "passwords": [{"slug": slug, "key": key, "name": name} for slug, (key, name) in sorted(found.secrets.items())],
        "digest": found.digest,
        "applied": [],
    }
