"""Everything together: `manage.py up --demo`, real AMQP clients, the real broker, and a person at the overview."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.chromium import MISSING, PATH
from tests.browser.test_overview import opened, row, was_not_reloaded
from tests.up.running import Running, free_port

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """(URL, the admin's password) of a demo that has just begun."""
    ports = ["--port", str(free_port()), "--amqp-port", str(free_port())]
    with Running(["manage.py", "up", "--demo", *ports, "--data", str(tmp_path / "data")], tmp_path) as running:
        running.wait_for("Ctrl-C stops everything", within=120)
        url = re.search(r"Console\s+(\S+)", running.out)
        password = re.search(r"password (\S+)", running.out)
        assert url
        assert password
        yield url[1], password[1]
        running.descendants()
        running.end(signal.SIGTERM, within=15)


async def test_new_user_sees_a_blocked_queue_and_stops_and_starts_all_producers(
    demo: tuple[str, str], browser: Browser
) -> None:
    url, password = demo
    context = await browser.new_context(base_url=url, viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    await page.goto("/")
    await page.get_by_label("User name").fill("admin")
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()
    await opened(page)
    # Orders come faster than the warehouse takes them: full in some ten seconds.
    await expect(row(page, "orders").locator(".state")).to_have_text("Overfull", timeout=60_000)
    await expect(page.locator("#queue-rows tr").first.locator(".state")).to_have_text("Overfull")
    await page.get_by_role("button", name="Stop all producers").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Reason").fill("a drill")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".answer")).to_contain_text("no more credit")
    await expect(dialog.locator(".draining-now")).to_contain_text("0: no messages in flight", timeout=20_000)
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#queue-rows .state", has_text=re.compile("Normal|^Overfull$"))).to_have_count(0)
    await expect(page.locator("#banner-stops")).to_contain_text("a drill")
    enqueued = "async () => (await (await fetch('/api/v1/queues/')).json()).results.map((q) => q.enqueued_messages)"
    before = await page.evaluate(enqueued)
    await asyncio.sleep(1)  # time in which stopped producers must not publish
    assert await page.evaluate(enqueued) == before
    await page.get_by_role("button", name="Start all producers").click()
    await dialog.get_by_label("Reason").fill("the drill is over")
    await dialog.locator("button[type=submit]").click()
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#banner-stops")).to_be_hidden()
    await expect(row(page, "payments").locator(".state")).to_have_text("Normal", timeout=20_000)
    assert await was_not_reloaded(page)
    await context.close()


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """(URL, the admin's password) of a real installation that has just begun, without any queue."""
    ports = ["--port", str(free_port()), "--amqp-port", str(free_port())]
    with Running(["manage.py", "up", *ports, "--data", str(tmp_path / "data")], tmp_path) as running:
        running.wait_for("Ctrl-C stops everything", within=120)
        url = re.search(r"Console\s+(\S+)", running.out)
        password = re.search(r"password (\S+)", running.out)
        assert url
        assert password
        yield url[1], password[1]
        running.descendants()
        running.end(signal.SIGTERM, within=15)


async def test_first_screen_leads_to_a_producer_that_is_blocked_and_released(
    installation: tuple[str, str], browser: Browser, tmp_path: Path
) -> None:
    """By the pages' own words alone: the programs that they show are run as they stand there."""
    url, password = installation
    context = await browser.new_context(base_url=url, viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    await page.goto("/")
    await page.get_by_label("User name").fill("admin")
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()
    await opened(page)
    await expect(page.locator("#queues-empty")).to_contain_text("No queues yet")
    await page.get_by_role("link", name="First steps").click()
    steps = page.locator("#steps > li")
    await expect(steps).to_have_count(5)
    await expect(page.locator('#steps > li[data-state="done"]')).to_have_count(0)

    async def create(what: str, step: int) -> None:
        await page.get_by_role("button", name=f"Create {what}").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name=f"Create {what}").click()
        if what == "client user":
            await expect(dialog.locator("#first-password")).to_have_text(re.compile(r"\S{20,}"))
            await dialog.get_by_role("button", name="Close").click()
        await expect(steps.nth(step)).to_have_attribute("data-state", "done", timeout=15_000)

    await create("client user", 0)
    await create("queue", 1)
    running = []
    for name, step in (("send", 2), ("receive", 4)):
        await expect(steps.nth(step)).to_contain_text(f"Save this program as {name}.py")
        program = tmp_path / f"{name}.py"
        program.write_text(await page.locator(f"#{name}-text").inner_text())
        running.append(
            await asyncio.create_subprocess_exec(
                sys.executable, str(program), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
        )
        if name == "send":
            await expect(steps.nth(3)).to_have_attribute("data-state", "done", timeout=30_000)
            await expect(steps.nth(3).locator(".first-step-found")).to_contain_text("1 blocked now")
            await expect(steps.nth(4)).to_have_attribute("data-state", "open")
            async with context.expect_page() as opening:  # beside this page, which keeps the password
                await steps.nth(3).get_by_role("link").click()
            await expect((await opening.value).locator("#verdict")).to_contain_text("queue orders is overfull")
    for client in running:
        said, _ = await asyncio.wait_for(client.communicate(), 60)
        assert client.returncode == 0, said.decode()
    done = page.locator('#steps > li[data-state="done"]')
    await expect(done).to_have_count(5, timeout=15_000)
    await page.reload()  # it is read from the broker, not remembered by the page
    await expect(done).to_have_count(5, timeout=15_000)
    await expect(page.locator("#send-text")).to_contain_text("PASSWORD")
    await page.get_by_role("button", name="New password").click()
    await page.get_by_role("dialog").get_by_role("button", name="Generate password").click()
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()
    await expect(page.locator("#send-text")).not_to_contain_text("PASSWORD")
    await page.goto("/")
    await expect(row(page, "orders")).to_be_visible()
    await context.close()
