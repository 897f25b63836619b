"""Flow-control policies of every scope: fields set, impact previews of changes, and the order of patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue, ManagedObject
from brokers.model import ObjectName
from brokers.model.patterns import match_rank
from console import operations
from console.api import policies_schema, schema
from console.api.base_views import MAX_PAGE_SIZE, BrokerView, number_in
from console.operations import PolicyChange


class PoliciesView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER, schema.SEARCH, *schema.PAGE],
        responses={200: policies_schema.PolicyScopes, **schema.READ_REFUSALS},
        summary="List the policy fields that are set, by scope",
        description="Patterns are in matching order. Queues that set fields themselves are in pages.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        needle = query.get("search", "").casefold()
        scopes = operations.policy_scopes(self.link)
        rows = [
            row
            for row in operations.queues_with_settings(self.link)
            if needle in f"{row['virtualhost']}/{row['name']}".casefold()
        ]
        return Response(
            {
                "broker": _scope(scopes.broker),
                "virtualhosts": [
                    {
                        **_scope(host),
                        "name": host["name"],
                        "patterns": [_pattern(policy) for policy in scopes.patterns[host["name"]]],
                        "exchanges": [
                            {**_scope(exchange), "name": exchange["name"]}
                            for exchange in scopes.exchanges[host["name"]]
                        ],
                    }
                    for host in scopes.hosts
                ],
                "queues": {
                    "count": len(rows),
                    "page": number,
                    "page_size": size,
                    "results": [_row(row) for row in rows[(number - 1) * size : number * size]],
                },
            }
        )


class PolicyPreviewView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=policies_schema.PolicyChanges,
        responses={200: policies_schema.ChangePreview, **schema.READ_REFUSALS, 409: schema.Refusal},
        summary="Preview the impact of policy changes",
        description="Previews all changes together. Changes that would be refused are refused here, too.",
    )
    def post(self, request: Request) -> Response:
        changes = [
            PolicyChange(each["object"], each["attributes"], each["action"], each["version"])
            for each in self.body["changes"]
        ]
        return Response(operations.preview_changes(self.link, changes, largest=self.body["largest"]))


class PatternOrderView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=policies_schema.PatternOrder,
        responses={200: policies_schema.PatternOrderAnswer, **schema.WRITE_REFUSALS},
        summary="Reorder the patterns of a virtual host",
        description="Sets their priorities so that they match in the given order. With `dry_run` the response has the"
        " changes and their impact, and nothing is changed.",
    )
    def post(self, request: Request) -> Response:
        host, patterns = self.body["virtualhost"], self.body["patterns"]
        scopes = operations.policy_scopes(self.link)
        if host not in scopes.patterns:
            raise InvalidValue({"virtualhost": f"virtualhost is {host!r}: there is no virtual host with this name"})
        changes = operations.reordered(scopes.patterns[host], patterns)
        answer: dict[str, Any] = {"changes": [change.as_json() for change in changes], "preview": None, "applied": []}
        if self.body["dry_run"]:
            answer["preview"] = operations.preview_changes(self.link, changes)
        else:
            applied = operations.apply_changes(self.actor, self.link, changes, reason=self.body["reason"])
            answer["applied"] = [each.as_json() for each in applied]
        return Response(answer)


def _scope(thing: ManagedObject) -> dict[str, Any]:
    return {
        "object": str(thing.name),
        "version": thing.version,
        "queues": thing.attributes.get("queues", 0),
        "set": operations.set_fields(thing.attributes),
    }


def _pattern(policy: ManagedObject) -> dict[str, Any]:
    prefix, wildcards, *_ = match_rank(policy["pattern"])
    return {
        **_scope(policy),
        "pattern": policy["pattern"],
        "priority": policy["priority"],
        "rank": [prefix, -wildcards],
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    name = ObjectName.parse(row["object"])
    return {
        "object": str(name),
        "version": row["version"],
        "virtualhost": row["virtualhost"],
        "name": row["name"],
        "set": operations.set_fields(row),
    }
