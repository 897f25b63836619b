"""Export and import of all policies of a broker as a YAML file."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console import operations
from console.api import policies_schema, schema
from console.api.base_views import BrokerView
from console.operations.policy_import import Difference


class PolicyFileView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        responses={200: policies_schema.PolicyFile, **schema.READ_REFUSALS},
        summary="Export all policies",
    )
    def get(self, request: Request) -> Response:
        return Response({"yaml": operations.export_policies(self.link)})

    @extend_schema(
        parameters=[schema.BROKER],
        request=policies_schema.PolicyFileRequest,
        responses={200: policies_schema.PolicyFileAnswer, **schema.WRITE_REFUSALS, 409: schema.STALE},
        summary="Apply a policy file",
        description="Sets each object in the file exactly as the file says. Objects that are not in the file stay as"
        " they are, or lose their settings with `prune`; for users with a role for some virtual hosts, the broker's"
        " own settings always stay. Each object is changed and audited separately. Unless all changes are permitted,"
        " the answer is 403, and nothing is changed. With `dry_run` nothing is changed, and any role suffices.",
    )
    def post(self, request: Request) -> Response:
        text, prune = self.body["yaml"], self.body["prune"]
        if self.body["dry_run"]:
            found = operations.difference(self.link, text, prune=prune)
            preview, problems = operations.previewed(self.link, found)
            return Response({**_shown(found), "problems": problems, "preview": preview})
        found, applied = operations.apply_file(
            self.actor,
            self.link,
            text,
            prune=prune,
            reason=self.body["reason"],
            digest=self.body["digest"],
        )
        return Response({**_shown(found), "applied": [each.as_json() for each in applied]})


def _shown(found: Difference) -> dict[str, Any]:
    return {
        "changes": [change.as_json() for change in found.changes],
        "problems": dict(found.problems),
        "left_alone": [str(name) for name in found.left_alone],
        "digest": found.digest,
        "preview": None,
        "applied": [],
    }
