"""Moments in Chromium: entered and shown in the browser's zone, which is named; URLs have the offset."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from urllib.parse import quote

import pytest
from django.db import connections
from playwright.async_api import expect

from console.audit.models import AuditEntry
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_overview import opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

#: ms -> what a field of the page has for it.
LOCAL = "(ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19)"


async def test_time_fields_use_the_zone_of_the_rows(people: People, broker: Broker) -> None:
    """Time fields are the same on all pages, with the zone next to them; URLs have the offset."""
    await asyncio.to_thread(stopped_and_audited, broker)
    page = await people.page("ada", timezone_id="America/New_York")
    await opened(page, "/audit/")
    await expect(page.locator(".zone")).to_contain_text(re.compile(r"America/New_York \(UTC-0[45]:00\)"))
    when = page.locator(".audit-table tbody time").first
    at = await when.evaluate("(time) => Date.parse(time.dateTime)")
    local = await page.evaluate(LOCAL, at)
    await expect(when).to_have_text(re.compile(re.escape(local[11:])))
    field = page.locator('input[data-moment="from"]')
    await field.fill(local)  # as the row has it
    await expect(page).to_have_url(re.compile("from=" + quote(iso(at // 1000 * 1000))))
    await expect(page.locator(".audit-table tbody tr")).to_have_count(1)
    await field.fill(await page.evaluate(LOCAL, at + 60_000))
    await expect(page.locator("#audit-rows")).to_contain_text("No matching entries")
    await page.goto(f"/audit/?from={iso(at // 1000 * 1000)}")
    await expect(field).to_have_value(re.compile(re.escape(local[:16])))
    for path in ("/timeline/", "/history/incident/"):
        people.expected.append("404")  # the test has no history
        await page.goto(f"{path}?from=2026-07-01T12:00:00Z&until=2026-07-01T13:00:00Z")
        await expect(page.locator('input[name="from"]')).to_have_value(re.compile("2026-07-01T08:00"))
        await expect(page.locator(".zone")).to_contain_text("America/New_York")


async def test_moment_in_the_repeated_hour_of_a_clock_change_stays_exact(people: People, broker: Broker) -> None:
    page = await people.page("ada", timezone_id="America/New_York")
    second = "2025-11-02T06:30:00Z"  # 01:30 for the second time that night
    await opened(page, f"/timeline/?from={second}")
    await expect(page.locator('input[name="from"]')).to_have_value(re.compile("2025-11-02T01:30"))
    async with page.expect_request(re.compile(r"/api/v1/timeline/\?.*search=x")) as request:
        await page.locator("#search").fill("x")
    assert f"from={quote(second)}" in (await request.value).url


def iso(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stopped_and_audited(broker: Broker) -> None:
    """An operator's attempt, in the audit trail."""
    AuditEntry.objects.create(
        user_name="ada", broker="local", object="type=Broker", operation="stop-producers", outcome="done"
    )
    connections.close_all()
