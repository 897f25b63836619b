"""The audit page in Chromium: the filter is applied without a reload, and is part of the URL."""

from __future__ import annotations

import asyncio
import re

import pytest
from django.db import connections
from playwright.async_api import Route, expect

from console.audit.models import AuditEntry
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People
from tests.browser.test_overview import opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]


def record(*reasons: str) -> None:
    """Write one entry per reason, from a thread with its own database connections."""
    for reason in reasons:
        AuditEntry.objects.create(
            user_name="ada",
            broker="local",
            object="type=Broker",
            operation="stop-producers",
            outcome="done",
            reason=reason,
        )
    connections.close_all()


async def test_search_updates_rows_and_url_and_back_undoes_it(people: People, broker: Broker) -> None:
    await asyncio.to_thread(record, "deployment", "incident 7")
    page = await opened(await people.page("ada"), "/audit/")
    rows = page.locator(".audit-table tbody tr")
    await expect(rows).to_have_count(2)
    await expect(page.locator("#clear")).to_be_hidden()
    await page.evaluate("window.unchanged = true")
    await page.locator("#search").fill("deploy")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("deployment")
    await expect(page).to_have_url(re.compile(r"/audit/\?search=deploy$"))
    await expect(page.locator("#clear")).to_be_visible()
    await expect(rows.locator("time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    assert await page.evaluate("window.unchanged"), "the page was not reloaded"
    await page.get_by_label("Outcome").select_option("refused")
    await expect(page.locator("#audit-rows")).to_contain_text("No matching entries")
    await page.go_back()
    await expect(page).to_have_url(re.compile(r"/audit/\?search=deploy$"))
    await expect(rows).to_have_count(1)


async def test_late_response_does_not_replace_rows_of_a_newer_filter(people: People, broker: Broker) -> None:
    await asyncio.to_thread(record, "deployment", "incident 7")
    page = await opened(await people.page("ada"), "/audit/")
    delayed, release = asyncio.Event(), asyncio.Event()

    async def delay(route: Route) -> None:
        delayed.set()
        await release.wait()
        await route.continue_()

    await page.route("**/audit/?search=deploy", delay)
    await page.locator("#search").fill("deploy")
    await delayed.wait()
    await page.locator("#search").fill("incident")
    rows = page.locator(".audit-table tbody tr")
    await expect(rows).to_have_count(1)
    release.set()
    await expect(rows).to_contain_text("incident 7")
    await expect(page).to_have_url(re.compile(r"/audit/\?search=incident$"))


async def test_expired_session_leads_to_the_sign_in_page(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/audit/")
    await page.context.clear_cookies()
    await page.locator("#search").fill("deploy")
    await expect(page).to_have_url(re.compile(r"/login/\?next=/audit/%3Fsearch%3Ddeploy"))


async def test_request_stays_in_the_filter_and_its_link_with_the_broker(people: People, broker: Broker) -> None:
    await asyncio.to_thread(record, "deployment", "incident 7")

    def of_one_request() -> None:
        for reason in ("all of it", "the rest"):
            AuditEntry.objects.create(
                user_name="ada",
                broker="local",
                object="type=Broker",
                operation="stop-producers",
                outcome="done",
                reason=reason,
                request_id="request-17",
            )
        connections.close_all()

    await asyncio.to_thread(of_one_request)
    page = await opened(await people.page("ada"), "/audit/?broker=local")
    rows = page.locator(".audit-table tbody tr")
    await expect(rows).to_have_count(4)
    await rows.first.get_by_text("Detail").click()
    await rows.first.get_by_role("link", name="request-17").click()
    await expect(page).to_have_url(re.compile(r"/audit/\?request=request-17&broker=local$"))
    await expect(rows).to_have_count(2)
    await expect(page.locator("form.filters")).to_contain_text("Request request-17")
    await page.locator("#search").fill("rest")
    await expect(rows).to_have_count(1)
    await page.locator("#search").fill("deployment")  # of another request
    await expect(page.locator("#audit-rows")).to_contain_text("No matching entries")
    await page.locator("#clear").click()
    await expect(rows).to_have_count(4)
    await expect(page.locator("form.filters")).not_to_contain_text("request-17")
