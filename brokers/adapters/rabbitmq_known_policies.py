"""The policies of a RabbitMQ as they were last listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokers.adapters.adapter import Objects
from brokers.adapters.http import JsonHttp
from brokers.adapters.rabbitmq_policies import Listed
from brokers.adapters.rabbitmq_reading import LIMIT_PREFIX, STOP_PREFIX
from brokers.admin import NotAllowed


class KnownPolicies:
    """`all` and `operator`: as listed, of all virtual hosts."""

    def __init__(self, http: JsonHttp) -> None:
        self._http = http
        self.all: Sequence[Mapping[str, Any]] = []
        self.operator: Sequence[Mapping[str, Any]] = []
        self._listed = Listed(self.all)

    async def read(self) -> None:
        self.all = await self._http.request("GET", "/policies")

    def lacks(self, found: Objects) -> bool:
        """Return whether queues have a policy that another client has just made. `found`: queues, as observed. Those of
        Headgate are named some seconds longer than they exist."""
        names = {(name["virtualhost"], str(queue["policy"])) for name, queue in found.items() if queue.get("policy")}
        unknown = names - self.listed.by_name.keys()
        return any(not name.startswith((STOP_PREFIX, LIMIT_PREFIX)) for _, name in unknown)

    async def read_operator(self) -> None:
        """Without the permission to read operator policies, only what they do to queues is known."""
        try:
            self.operator = await self._http.request("GET", "/operator-policies")
        except NotAllowed:
            self.operator = []

    @property
    def listed(self) -> Listed:
        if self._listed.policies is not self.all:
            self._listed = Listed(self.all)
        return self._listed

    def of(self, host: str) -> Sequence[Mapping[str, Any]]:
        return [policy for policy in self.all if policy["vhost"] == host]
