"""Messages for Slack, Microsoft Teams and PagerDuty against schemas of what these accept, and their responses."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from console.alerts import pagerduty, slack, teams
from console.alerts.models import Notification
from console.alerts.webhook import Refused, Response, encoded
from tests.console.alerts.receiver_schemas import LARGEST, PAGERDUTY, SLACK, TEAMS
from tests.console.alerts.test_transitions import T0

KEY = "e93facc04764012d7bfb002500d5d1a6"
HOSTILE = "<!channel> <https://evil.example|x> & *a* _b_ [x](javascript:1) \u202e </b> | ¦ ` \N{PILE OF POO}"


def item(number: int = 0, **values: Any) -> dict[str, Any]:
    return {
        "kind": "overfull",
        "title": "Overfull",
        "object": f"type=Queue,virtualhost=default,name=orders.{number}",
        "name": f"default/orders.{number}",
        "severity": "trouble",
        "saw": "The queue is overfull: 5 messages; blocked producers: 1.",
        "advice": "Check why it is blocked.",
        "since": T0.isoformat(),
        "ended": None,
        "events": 0,
        **values,
    }


def notification(phase: str = "firing", items: list[dict[str, Any]] | None = None, **values: Any) -> Notification:
    listed = [item()] if items is None else items
    return Notification(
        **{
            "id": uuid.UUID(int=1),
            "at": T0,
            "rule_name": "stuck orders",
            "broker": "local",
            "phase": phase,
            "items": listed,
            "count": len(listed),
            "incident": "7/local",
            **values,
        }
    )


LONG = "ü" * 5000
CASES = {
    "firing": notification(),
    "resolved": notification("resolved"),
    "resolved, others still fire": notification("resolved", still_firing=2),
    "event": notification("event", [item(severity="warning", events=12, advice="")]),
    "test": notification("test", [], rule_name=""),
    "thousands": notification(items=[item(number) for number in range(100)], count=12_345),
    "hostile": notification(items=[item(name=HOSTILE, saw=HOSTILE, title=HOSTILE)], rule_name=HOSTILE),
    "long": notification(items=[item(name=LONG, saw=LONG, advice=LONG) for _ in range(100)], rule_name="r" * 100),
}
EACH = pytest.mark.parametrize("case", CASES)


@pytest.fixture(params=["", "https://headgate.example.org/console"], autouse=True)
def url(request: Any) -> str:
    """The URL of the console; empty: not known."""
    return str(request.param)


def check(schema: dict[str, Any], kind: str, message: dict[str, Any]) -> None:
    faults = [fault.message for fault in Draft202012Validator(schema).iter_errors(message)]
    assert not faults, faults
    assert len(encoded(message)) <= LARGEST[kind]


@EACH
def test_slack_accepts_the_message(case: str, url: str) -> None:
    check(SLACK, "slack", slack.message(CASES[case], url))


@EACH
def test_teams_accepts_the_message(case: str, url: str) -> None:
    check(TEAMS, "teams", teams.message(CASES[case], url))


@EACH
def test_pagerduty_accepts_the_event(case: str, url: str) -> None:
    if not pagerduty.action(CASES[case]):
        assert case == "resolved, others still fire"
        return
    made = pagerduty.event(CASES[case], KEY, "0123456789abcdef", url)
    check(PAGERDUTY, "pagerduty", made)
    check(PAGERDUTY, "pagerduty", pagerduty.resolution(made))


def test_names_cannot_mention_people_or_link_elsewhere_in_slack(url: str) -> None:
    made = slack.message(CASES["hostile"], url)
    section = made["blocks"][1]["text"]["text"]
    assert "<!channel>" not in section
    assert "<https://evil" not in section
    assert "&lt;!channel&gt;" in section
    assert "<!" not in made["text"]


@pytest.mark.parametrize("make", [slack.message, teams.message])
def test_objects_beyond_those_listed_are_counted(make: Any, url: str) -> None:
    text = json.dumps(make(CASES["thousands"], url), ensure_ascii=False)
    assert "and 12,335 more" in text
    assert "orders.9" in text
    assert "orders.10" not in text


def test_links_lead_to_the_page_of_the_object_if_the_address_is_known(url: str) -> None:
    texts = [
        json.dumps(made)
        for made in (
            slack.message(CASES["firing"], url),
            teams.message(CASES["firing"], url),
            pagerduty.event(CASES["firing"], KEY, "n", url),
        )
    ]
    assert all(("https://headgate.example.org/console/why/?object=" in text) == bool(url) for text in texts)


def test_all_notifications_of_a_rule_at_a_broker_share_an_incident(url: str) -> None:
    def event(case: Notification) -> tuple[str, str]:
        made = pagerduty.event(case, KEY, "n", url)
        return made["event_action"], made["dedup_key"]

    trigger, resolve = event(CASES["firing"]), event(CASES["resolved"])
    assert (trigger[0], resolve[0]) == ("trigger", "resolve")
    assert trigger[1] == resolve[1] == event(CASES["thousands"])[1]
    assert event(notification(incident="8/local"))[1] != trigger[1]
    assert event(CASES["event"])[1] != trigger[1], "events do not end"
    assert event(CASES["test"])[1] != trigger[1]
    assert pagerduty.event(CASES["firing"], KEY, "other", url)["dedup_key"] != trigger[1]


def test_severity_of_an_incident(url: str) -> None:
    def severity(case: str) -> Any:
        return pagerduty.event(CASES[case], KEY, "n", url)["payload"]["severity"]

    assert (severity("firing"), severity("event"), severity("test")) == ("critical", "warning", "info")


def refused(check: Any, status: int, text: str) -> Refused:
    with pytest.raises(Refused) as raised:
        check(Response(status, "", text, 7.0))
    assert raised.value.wait == 7.0
    return raised.value


ACCEPTED = [
    (slack.check, 200, "ok"),
    (teams.check, 202, ""),
    (teams.check, 200, "1"),
    (pagerduty.check, 202, '{"status": "success", "message": "Event processed", "dedup_key": "k"}'),
]
REFUSED = [
    (slack.check, 200, "invalid_payload", True),
    (slack.check, 400, "invalid_payload", True),
    (slack.check, 404, "no_service", True),
    (slack.check, 410, "channel_is_archived", True),
    (slack.check, 200, "<html>Sign in to the proxy</html>", False),
    (slack.check, 429, "rate_limited", False),
    (slack.check, 500, "rollup_error", False),
    (slack.check, 200, "", False),
    (teams.check, 200, "Webhook message delivery failed with error: returned HTTP error 429", False),
    (teams.check, 401, "", True),
    (teams.check, 404, '{"error": {"code": "WorkflowTriggerNotFound"}}', True),
    (teams.check, 400, '{"error": {"code": "TriggerInputSchemaMismatch"}}', True),
    (teams.check, 429, "", False),
    (teams.check, 502, "", False),
    (pagerduty.check, 400, '{"status": "invalid event", "message": "Event object is invalid", "errors": ["no"]}', True),
    (pagerduty.check, 200, '{"status": "throttled"}', False),
    (pagerduty.check, 202, "not JSON", False),
    (pagerduty.check, 202, "[1]", False),
    (pagerduty.check, 202, '{"status": "error", "errors": {"a": 1}}', False),
    (pagerduty.check, 429, "", False),
    (pagerduty.check, 503, "", False),
]


@pytest.mark.parametrize(("check", "status", "text"), ACCEPTED)
def test_response_of_success(check: Any, status: int, text: str) -> None:
    assert "accepted it" in check(Response(status, "", text))


@pytest.mark.parametrize(("check", "status", "text", "permanent"), REFUSED)
def test_error_is_found_whatever_its_status_and_retried_only_if_that_can_help(
    check: Any, status: int, text: str, permanent: bool
) -> None:
    error = refused(check, status, text)
    assert error.permanent is permanent
    assert str(error).startswith(f"HTTP {status}")
    assert len(str(error)) < 500
