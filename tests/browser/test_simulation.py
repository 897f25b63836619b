"""The simulation of limits and the recommendations in Chromium: scenarios, ranges, links to them and to the policy."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import time
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from console.links.registry import link
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_history import WHOLE, T, iso, recorded_hour, url
from tests.browser.test_overview import limited
from tests.console.other_kind import TYPES as OTHER_TYPES
from tests.history.delta import HOUR, MINUTE, write

__all__ = ["recorded_hour", "url"]  # fixtures

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)


async def outcomes(page: Page) -> list[str]:
    return await page.locator(".what-if-table tbody th strong").all_text_contents()


async def test_scenarios_are_simulated_beside_the_current_limits(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/what-if/default/orders/?{WHOLE}")
    await expect(page.locator(".what-if-table tbody tr")).to_have_count(3)  # current, twice and four times the limits
    await expect(page.locator("#caveat")).to_contain_text("not a forecast")
    await page.locator("[name=resume_messages]").first.fill("9,000")
    await page.get_by_role("button", name="Simulate").click()
    await expect(page.locator("#wrong")).to_contain_text(
        "resume level of 9,000 messages is above the capacity of 2,000"
    )
    await page.locator("[name=capacity_messages]").first.fill("10k")
    await page.get_by_role("button", name="Simulate").click()
    await expect(page.locator(".limits-words").nth(1)).to_have_text("10,000 messages, resume at 9,000")
    assert await outcomes(page) == ["Current", "Scenario 1", "Scenario 2"]
    assert "candidate=10000%3A9000%3A0%3A0" in page.url


async def test_scenario_that_is_added_while_the_first_answer_is_awaited_stays(
    people: People, recorded_hour: str
) -> None:
    page = await people.page("ada", "viewers")
    come = asyncio.Event()

    async def later(route: Route) -> None:
        await come.wait()
        await route.continue_()

    await page.route("**/api/v1/history/what-if/**", later)
    async with page.expect_request(lambda sent: "/history/what-if/" in sent.url and sent.method == "POST"):
        await page.goto(f"/history/what-if/default/orders/?{WHOLE}")
    await page.get_by_role("button", name="Add scenario").click()
    await page.locator("[name=capacity_messages]").fill("7,000")
    come.set()
    await expect(page.locator(".what-if-table tbody tr")).to_have_count(1)
    await expect(page.locator("[name=capacity_messages]")).to_have_value("7,000")


async def test_simulation_shows_what_was_just_recorded_as_soon_as_it_can_be_simulated(
    people: People, recorded_hour: str
) -> None:
    page = await people.page("ada", "viewers")
    await page.clock.install()
    answers: list[bool] = []

    async def first_without(route: Route) -> None:
        answered = await route.fetch()
        answer = await answered.json()
        nothing = {"current": None, "advice": None, "candidates": []}
        answers.append(True)
        await route.fulfill(response=answered, json={**answer, **nothing} if len(answers) == 1 else answer)

    await page.route("**/api/v1/history/what-if/**", first_without)
    now = int(time.time() * 1000)
    for query in ("range=90d", f"from={iso(T)}&until={iso(now + HOUR)}"):  # a page of the history links to both
        answers.clear()
        await page.goto(f"/history/what-if/default/orders/?{query}")
        await expect(page.locator("#outcome")).to_contain_text("can be simulated a minute later")
        await page.clock.fast_forward(10_000)
        await expect(page.locator(".what-if-table tbody tr")).to_have_count(3)


async def test_broker_without_reported_producers_and_resume_levels_has_neither(
    people: People, recorded_hour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link(), "types", OTHER_TYPES)
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/?{WHOLE}&measure=blocked")
    for part in ("#top-queues", "#heat"):
        await expect(page.locator(part)).to_contain_text(
            "Not known for Local broker: it does not report the blocked producers of queues."
        )
    await page.get_by_role("button", name="Overfull", exact=True).click()
    await expect(page.locator("#top-queues .ranked")).to_have_count(1)
    await page.goto(f"/history/queues/default/orders/?{WHOLE}")
    await expect(page.locator("#facts")).to_contain_text("Blocked producer time\N{EN DASH}")
    await page.goto(f"/history/what-if/default/orders/?{WHOLE}")
    await expect(page.locator(".what-if-table tbody tr")).to_have_count(3)
    await expect(page.locator("[name=capacity_messages]")).to_have_count(2)
    await expect(page.locator("[name=resume_messages]")).to_have_count(0)
    await page.locator("[name=capacity_messages]").first.fill("10k")
    await page.get_by_role("button", name="Simulate").click()
    await expect(page.locator(".limits-words").nth(1)).to_have_text("10,000 messages")
    assert "candidate=10000%3A8000%3A0%3A0" in page.url  # at the share of the capacity that it has now


async def test_recommendation_links_to_the_simulation_of_the_same_week(people: People, recorded_hour: str) -> None:
    about = {"broker": "local", "virtualhost": "default", "begin": T - 6 * 24 * HOUR, "at": T + HOUR}
    raised = {"kind": "raise-capacity", "text": "Recommendation: capacity 1,414 messages."}
    figures = {"recorded_blocked_seconds": 60.0, "observed_seconds": 3000.0, "recommended_blocked_low_seconds": 0.0}
    figures |= {"recommended_blocked_high_seconds": 2.0, "recommended_stop_messages": 1414, "stop_messages": 1000.0}
    figures |= {"recommended_resume_messages": 1131, "resume_messages": 800.0}
    idle = {"kind": "never-reached", "text": "The capacity was never reached.", "recorded_blocked_seconds": 0.0}
    fine = {"kind": "none", "text": "The queue was not overfull.", "recorded_blocked_seconds": 0.0}
    rows = [("orders", raised | figures), ("idle", idle), ("fine", fine)]
    write(recorded_hour, "recommendations", [{**about, "queue": queue, **advice} for queue, advice in rows])
    page = await people.page("ada", "viewers")
    await page.goto("/history/advice/")
    await expect(page.locator("#rows tr")).to_contain_text(["capacity 1,414 messages", "never reached"])
    await expect(page.locator("#rows tr")).to_have_count(2)
    await expect(page.locator("#advice-of")).to_contain_text("updated every night")
    await page.set_viewport_size({"width": 1024, "height": 900})
    assert await page.locator(".table-box").evaluate("(box) => box.scrollWidth <= box.clientWidth")
    await expect(page.locator("#caveat")).to_contain_text("not a forecast")
    await page.get_by_label("Type of recommendation").select_option("never-reached")
    await expect(page.locator("#rows tr")).to_contain_text(["never reached"])
    await page.get_by_label("Type of recommendation").select_option("")
    async with page.expect_request(lambda sent: "/history/what-if/" in sent.url and sent.method == "POST") as request:
        await page.locator("#rows tr").first.get_by_role("link", name="Simulate limits").click()
    sent = (await request.value).post_data_json
    assert [moment_of(sent[end]) for end in ("from", "until")] == [about["begin"], about["at"]]


async def test_recommendations_before_the_first_run_of_the_job_are_computed_without_a_failed_request(
    people: People, recorded_hour: str
) -> None:
    page = await people.page("ada", "viewers")  # which fails for any response of an error
    async with page.expect_request(lambda sent: "/history/what-if/" in sent.url) as replayed:
        await page.goto("/history/advice/")
    # From the first recorded moment: the week before was not recorded.
    assert (await replayed.value).post_data_json["from"] == T
    await expect(page.locator("#note")).to_contain_text("computed just now")
    await expect(page.locator("#rows tr")).to_have_count(1)


async def test_recommendation_is_readable_on_a_phone(people: People, recorded_hour: str) -> None:
    about = {"broker": "local", "virtualhost": "default", "queue": "orders", "begin": T, "at": T + HOUR}
    levels = {"stop_messages": 1000.0, "resume_messages": 800.0, "recommended_stop_messages": 1500}
    text = "Recommendation: capacity 1,500 messages, now 1,000 messages. Simulated, it avoids 100% of the time."
    write(recorded_hour, "recommendations", [{**about, **levels, "kind": "raise-capacity", "text": text}])
    page = await people.page("ada", "viewers")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto("/history/advice/")
    cells = page.locator("#rows tr").locator("th, td")
    await expect(cells).to_have_count(6)
    boxes = await cells.evaluate_all(
        """all => all.map(one => {
            const range = document.createRange();
            range.selectNodeContents(one);
            const [outer, inner] = [one.getBoundingClientRect(), range.getBoundingClientRect()];
            return {width: outer.width, over: inner.right - outer.right};
        })"""
    )
    assert boxes[1]["width"] > 300
    assert all(box["over"] <= 1 for box in boxes)


async def test_recommendation_and_scenario_open_the_policy_editor_with_their_limits_previewed(
    people: People, broker: Broker, recorded_hour: str
) -> None:
    broker.do(lambda memory: limited(memory, "orders", 1000))
    about = {"broker": "local", "virtualhost": "default", "queue": "orders", "begin": T, "at": T + HOUR}
    levels = {"stop_messages": 1000.0, "resume_messages": 800.0, "recommended_stop_messages": 1500}
    levels |= {"recommended_resume_messages": 1200, "recorded_blocked_seconds": 60.0}
    write(recorded_hour, "recommendations", [{**about, **levels, "kind": "raise-capacity", "text": "Raise it."}])
    page = await people.page("paula", "operators")
    await page.goto("/history/advice/")
    await page.locator("#rows").get_by_role("link", name="Edit policy").click()
    await expect(page.locator("#values [name=capacity_messages]")).to_have_value("1500")
    await expect(page.locator("#values [name=flow_resume_messages]")).to_have_value("1200")
    await expect(page.locator("#preview")).to_contain_text("1 queue")
    await expect(page.locator("#apply")).to_be_enabled()

    await page.goto(f"/history/what-if/default/orders/?{WHOLE}&candidate=4000:3000:0:0")
    await page.locator(".what-if-table tbody tr").nth(1).get_by_role("link", name="Edit policy").click()
    await expect(page.locator("#values [name=capacity_messages]")).to_have_value("4000")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("#toasts")).to_contain_text("Applied")

    viewer = await people.page("vera", "viewers")
    await viewer.goto(page.url)
    await expect(viewer.locator("#values [name=capacity_messages]")).to_have_value("4000")
    await expect(viewer.locator("#apply")).to_have_attribute("aria-disabled", "true")


async def test_link_to_the_simulation_works_before_the_scripts_are_loaded(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers")
    left = asyncio.Event()

    async def wait(route: Route) -> None:
        await left.wait()
        await route.abort()  # the page that wanted it has been left

    await page.route(re.compile(r"/history/queue\.[^/]*js"), wait)
    await page.goto(f"/history/queues/default/orders/?{WHOLE}", wait_until="commit")
    try:
        await page.locator("#what-if").click()
        await expect(page.locator(".what-if-table tbody tr")).to_have_count(3)
    finally:
        left.set()


async def test_zoomed_range_of_a_queue_follows_to_the_simulation(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/queues/default/orders/?from={iso(T + MINUTE)}&until={iso(T + 31 * MINUTE)}")
    await expect(page.locator("#what-if")).to_have_attribute("href", re.compile("from="))
    async with page.expect_request(lambda sent: "/history/what-if/" in sent.url and sent.method == "POST") as request:
        await page.locator("#what-if").click()
    sent = (await request.value).post_data_json
    assert [moment_of(sent[end]) for end in ("from", "until")] == [T + MINUTE, T + 31 * MINUTE]
    await page.locator("#queue-link").click()
    await expect(page).to_have_url(re.compile(f"from={iso(T + MINUTE).replace(':', '.*')}"))
    await page.locator("#incident").click()
    zoomed = re.compile(f"from={iso(T + MINUTE).replace(':', '.*')}.*until={iso(T + 31 * MINUTE).replace(':', '.*')}")
    await expect(page).to_have_url(zoomed)
    await page.locator("#charts h3 a").click()
    await expect(page).to_have_url(re.compile("/history/queues/"))
    await expect(page).to_have_url(zoomed)


async def test_range_too_long_to_simulate_is_simulated_up_to_its_end(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers")
    simulates = lambda sent: "/history/what-if/" in sent.url and sent.method == "POST"  # noqa: E731
    for address in ("range=1y", f"from={iso(T - 364 * 24 * HOUR)}&until={iso(T + HOUR)}"):
        async with page.expect_request(simulates) as request:
            await page.goto(f"/history/what-if/default/orders/?{address}")
        sent = (await request.value).post_data_json
        assert sent["until"] - sent["from"] == 90 * 24 * HOUR
        await expect(page.locator("#shortened")).to_contain_text("90 days")
    async with page.expect_request(simulates):
        await page.get_by_role("button", name="7 d", exact=True).click()
    await expect(page.locator("#shortened")).to_be_hidden()


def moment_of(given: Any) -> int:
    return given if isinstance(given, int) else round(dt.datetime.fromisoformat(given).timestamp() * 1000)
