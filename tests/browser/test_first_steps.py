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
    needs = step(page, 3).locator(".needs")
    await expect(needs).to_contain_text("Debian: apt-get install python3-venv")
    await expect(needs.get_by_role("link", name="users and TLS")).to_have_attribute(
        "href", "/help/broker/#users-permissions-and-tls"
    )
    await expect(needs).not_to_contain_text("object")
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


async def test_programs_send_twice_as_many_messages_as_the_queue_takes(people: People, broker: Broker) -> None:
    create(broker, capacity_messages=30)
    page = await first_steps(people)
    await expect(step(page, 3)).to_contain_text("It sends 60 messages, more than the queue takes")
    await expect(page.locator("#send-text")).to_contain_text("range(1, 61)")
    await expect(page.locator("#receive-text")).to_contain_text("range(60)")


@pytest.mark.parametrize(
    ("capacity", "why"), [(5000, "it has a capacity of 5,000 messages"), (0, "it has no capacity in messages")]
)
async def test_queue_that_takes_all_messages_says_so_and_what_to_do(
    people: People, broker: Broker, capacity: int, why: str
) -> None:
    create(broker, **({"capacity_messages": capacity} if capacity else {}))
    page = await first_steps(people)
    await expect(step(page, 3)).to_contain_text(f"the queue orders takes them all, since {why}")
    await expect(step(page, 3).get_by_role("link", name="its page")).to_have_attribute(
        "href", "/queues/default/orders/"
    )
    await expect(step(page, 4)).to_contain_text("Not with this queue")
    broker.do(lambda memory: memory.fill("orders", 200))
    await expect(step(page, 3)).to_have_attribute("data-state", "done")
    await expect(step(page, 4)).to_have_attribute("data-state", "open")
    await expect(step(page, 4)).to_contain_text("Not with this queue")


async def test_block_and_release_are_shown_live_and_lead_to_the_reason(people: People, broker: Broker) -> None:
    create(broker, capacity_messages=10, flow_resume_messages=8)
    page = await first_steps(people)
    await expect(step(page, 2)).to_have_attribute("data-state", "done")
    why = step(page, 4).locator("a.button")
    await expect(why).to_be_hidden()
    await expect(step(page, 5)).to_contain_text("At 8 messages or fewer the producer goes on.")

    # From here on the page learns of changes from its snapshots alone.
    await page.route("**/api/v1/brokers/*/objects/**", lambda route: None)
    broker.do(lambda memory: memory.fill("orders", 20))
    await expect(step(page, 4)).to_have_attribute("data-state", "done")
    await expect(step(page, 4)).to_contain_text("1 blocked now, 11 messages in the queue")
    await expect(step(page, 5)).to_have_attribute("data-state", "open")
    await expect(why).to_have_text("Why is it blocked?")
    await expect(why).to_have_attribute("href", "/why/?object=type%3DQueue%2Cvirtualhost%3Ddefault%2Cname%3Dorders")

    # Raised while a program runs: the receiver still receives what the sender was made for.
    def raise_capacity(memory: InMemoryBroker) -> None:
        version = memory.management.read(ORDERS).version
        memory.management.update(ORDERS, {"capacity_messages": 5000, "flow_resume_messages": 4000}, version, "ada")
        memory._end_turn()

    broker.do(raise_capacity)
    await expect(step(page, 5)).to_have_attribute("data-state", "done")
    await expect(step(page, 5)).to_contain_text("Released")
    await expect(why).to_have_text("Why it was blocked")
    await expect(why).to_have_attribute("href", "/timeline/?queue=type%3DQueue%2Cvirtualhost%3Ddefault%2Cname%3Dorders")
    await expect(page.locator("#receive-text")).to_contain_text("range(20)")


async def test_generated_password_is_copied_and_the_capacity_says_when_producers_go_on(
    people: People, broker: Broker
) -> None:
    page = await first_steps(people)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Create client user").click()
    await dialog.get_by_role("button", name="Create client user").click()
    await dialog.get_by_role("button", name="Copy the password").click()
    await expect(dialog.locator(".toast")).to_contain_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == await page.locator("#first-password").text_content()
    await dialog.locator(".dialog-actions").get_by_role("button", name="Close").click()

    await page.get_by_role("button", name="Create queue").click()
    await expect(dialog).to_contain_text("With more than 100 messages its producers are blocked, until 80 or fewer")
    await dialog.get_by_label("Capacity in messages").fill("5,000")
    await expect(dialog).to_contain_text(
        "With more than 5,000 messages its producers are blocked, until 4,000 or fewer"
    )
    await dialog.get_by_label("Capacity in messages").fill("")
    await expect(dialog).to_contain_text("Empty: no limit")
