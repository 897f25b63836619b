"""The whole API against its OpenAPI description: no request causes a server error, and responses conform to their
schemas.

Schemathesis generates valid and invalid requests from the description. The console has an in-memory broker, and changes
by one request are visible to the next ones.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import response_schema_conformance

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.access.actor import Actor
from console.access.administration import create_token
from console.permissions.rights import Grant, Role
from tests.console.conftest import Broker

ORDERS = "type=Queue,virtualhost=default,name=orders"
#: Number of valid requests for each operation, and of invalid ones.
EXAMPLES = {Role.ADMIN: 4, Role.VIEWER: 3}
#: For more requests: `HEADGATE_CONTRACT_EXAMPLES=500 uv run pytest -n 0 tests/console/test_api_contract.py`.
MANY = int(os.environ.get("HEADGATE_CONTRACT_EXAMPLES", "0"))
#: These start processes, or change a password.
LEFT_OUT = ("/history/run", "/history/interrupt")


def furnished(memory: InMemoryBroker) -> None:
    """Create an object of each type, so that requests by name can find one."""
    memory.management.create(object_name("Queue", virtualhost="default", name="orders"), {"capacity_messages": 10})
    memory.fill("orders", 20)
    memory.attach_consumer("orders")
    memory.management.create(object_name("Policy", virtualhost="default", pattern="orders.>"), {"capacity_bytes": 9000})
    memory.management.create(object_name("Exchange", virtualhost="default", name="news"), {"exchange_type": "topic"})


@pytest.mark.slow
@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.timeout(0 if MANY else 900)
@pytest.mark.parametrize("role", [Role.ADMIN, Role.VIEWER])
def test_responses_conform_to_the_description_without_server_errors(
    role: Role, broker: Broker, tmp_path: Path, settings: Any
) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    settings.CELERY_TASK_ALWAYS_EAGER = False
    broker.connected()
    broker.do(furnished)
    boss = User.objects.create_superuser("boss")
    _, secret = create_token(Actor(boss), "contract", [Grant(role)], days=1)
    bearer = {"Authorization": f"Bearer {secret}"}
    description = schemathesis.openapi.from_wsgi("/api/schema/?format=json", get_wsgi_application(), headers=bearer)
    wrong: dict[str, str] = {}
    answered: Counter[int] = Counter()
    for found in description.get_all_operations():
        operation = found.ok()
        if operation.path.startswith("/api/schema") or any(part in operation.path for part in LEFT_OUT):
            continue

        def ask(case: schemathesis.Case) -> None:
            _name_what_is_there(case)
            with transaction.atomic():
                answer = case.call(headers=bearer)
                transaction.set_rollback(True)
            answered[answer.status_code // 100] += 1
            case.validate_response(answer, checks=[not_a_server_error, response_schema_conformance])

        for mode in GenerationMode:
            try:
                _run(operation, mode, ask, MANY or EXAMPLES[role])
            except (Failure, FailureGroup) as failure:
                wrong[operation.label] = str(failure)
            except Unsatisfiable:
                pass  # a request without input cannot be invalid
    assert answered[2] > 100
    assert answered[4] > 100
    assert not wrong, "\n\n".join(f"{label}: {said}" for label, said in wrong.items())


def _name_what_is_there(case: schemathesis.Case) -> None:
    """Replace random names by existing ones in three of four requests, since random names rarely exist."""
    if zlib.crc32(repr(case.path_parameters | {"": case.body}).encode()) % 4 == 0:
        return
    known = {"slug": "local", "virtualhost": "default", "name": "orders", "operation": "explain", "number": 1}
    path = case.path_parameters
    path.update({name: value for name, value in known.items() if name in path})
    if "/objects/" in case.path:
        path.update({"name": ORDERS} if "name" in path else {})
    if isinstance(case.body, dict):
        case.body.update({name: ORDERS for name in ("object", "scope") if name in case.body})
        case.body.update({"version": 1} if "version" in case.body else {})
    if isinstance(case.query, dict):
        names = {"object": ORDERS, "broker": "local", "virtualhost": "default", "queue": "orders"}
        case.query.update({name: value for name, value in names.items() if name in case.query})


def _run(operation: Any, mode: GenerationMode, ask: Any, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def asking(case: schemathesis.Case) -> None:
        ask(case)

    asking()
