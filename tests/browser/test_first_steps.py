"""The page of the first steps: what each step shows, for a queue in memory. `test_whole.py` runs its programs."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

ORDERS = object_name("Queue", virtualhost="default", name="orders")


@pytest.fixture(autouse=True)
def address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where clients connect: of a broker in memory the console does not know it."""
    monkeypatch.setattr("console.pages.frame.amqp_address", lambda broker: "amqp://127.0.0.1:5672")


async def first_steps(people: People) -> Page:
    page = await people.page("ada", "administrators")
    await page.goto("/first-steps/")
    await expect(page.locator("#steps > li")).to_have_count(5)
    return page


def step(page: Page, number: int) -> Locator:
    return page.locator("#steps > li").nth(number - 1)


def create(broker: Broker, **attributes: Any) -> None:
    def work(memory: InMemoryBroker) -> None:
        memory.management.create(ORDERS, attributes)

    broker.do(work)


async def test_receiving_program_has_names_of_its_own_in_the_chosen_language(people: People, broker: Broker) -> None:
    page = await first_steps(people)
    await expect(step(page, 3)).to_contain_text("Save this program as send.py")
    await expect(step(page, 5)).to_contain_text("Save this program as receive.py")
    await expect(step(page, 5).locator("#receive-text")).to_contain_text("create_receiver")
    await page.get_by_label("Language").select_option("Go")
    await expect(step(page, 3)).to_contain_text("Save this program as send/main.go")
    await expect(step(page, 3).locator("#send-commands")).to_contain_text("go mod init")
    await expect(step(page, 5)).to_contain_text("Save this program as receive/main.go")
    await expect(step(page, 5).locator("#receive-text")).to_contain_text("session.NewReceiver")
    await expect(step(page, 5).locator("#receive-commands")).to_have_text("go run ./receive")


async def test_programs_and_commands_are_copied(people: People, broker: Broker) -> None:
    page = await first_steps(people)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name, what in (
        ("send-text", "the program that sends"),
        ("send-commands", "the commands that run it"),
        ("receive-text", "the program that receives"),
        ("receive-commands", "the command that runs it"),
    ):
        await page.get_by_role("button", name=f"Copy {what}").click()
        await expect(page.locator(".toast").last).to_contain_text("Copied")
        shown = await page.locator(f"#{name}").text_content()
        assert await page.evaluate("navigator.clipboard.readText()") == shown
