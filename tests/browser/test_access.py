"""Access in Chromium: roles on one virtual host, API tokens, and role assignment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from brokers.model import object_name
from console.access.models import RoleGrant
from console.permissions.rights import Role
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Console, People
from tests.console.conftest import Broker, until_async

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(PATH is None, reason=MISSING),
]

BLUE = object_name("VirtualHost", name="blue")


async def two_hosts(broker: Broker) -> None:
    link = broker.link
    await link.acall(lambda admin: admin.create(BLUE, {"create_on_attach": True, "anonymous": True}))
    await asyncio.to_thread(broker.do, lambda memory: memory.attach_producer("orders"))
    await asyncio.to_thread(broker.do, lambda memory: memory.attach_producer("secret-plans", "blue"))
    await until_async(lambda: link.queue_count == 2)


async def group(name: str, *roles: Role, virtualhost: str = "default") -> str:
    def make() -> None:
        made = Group.objects.create(name=name)
        for role in roles:
            RoleGrant.objects.create(group=made, role=role, broker="local", virtualhost=virtualhost)
        connections.close_all()

    await asyncio.to_thread(make)
    return name


async def test_viewer_of_one_virtual_host_sees_only_it_and_why_actions_are_disabled(
    people: People, broker: Broker
) -> None:
    await two_hosts(broker)
    page = await people.page("nora", await group("default viewers", Role.VIEWER))
    await page.goto("/")
    await page.get_by_role("link", name="orders").first.wait_for()
    assert "secret-plans" not in await page.content()
    assert await page.locator("#stop-all").get_attribute("aria-disabled") == "true"
    await page.locator("button.row-act").first.click(force=True)  # it is disabled, and says why
    await page.get_by_text("This requires the role of operator").wait_for()
    await page.locator("#user-menu summary").click()
    await page.get_by_text("Viewer (read-only); virtual host default").wait_for()
    assert await page.get_by_role("link", name="Access").count() == 0
    for path in ("/queues/blue/secret-plans/", "/why/?object=type%3DQueue%2Cvirtualhost%3Dblue%2Cname%3Dsecret-plans"):
        people.expected.append("403")
        answer = await page.goto(path)
        assert answer
        assert answer.status == 403
        await page.get_by_text("do not include virtual host blue").wait_for()


async def test_operator_of_one_virtual_host_stops_its_queue_and_not_the_broker(people: People, broker: Broker) -> None:
    await two_hosts(broker)
    page = await people.page("olav", await group("default operators", Role.OPERATOR))
    await page.goto("/")
    await page.get_by_role("link", name="orders").first.wait_for()
    await page.locator("#stop-all").click(force=True)
    await page.get_by_text("This requires the role of operator for the whole broker").wait_for()
    await page.locator("button.row-act").first.click()
    dialog = page.locator("dialog[open]")
    await dialog.get_by_label("Reason").fill("test")
    await dialog.get_by_role("button", name="Stop", exact=False).last.click()
    await until_async(lambda: broker.link.queue("type=Queue,virtualhost=default,name=orders")["state"] == "STOPPED")
    await page.goto("/queues/default/orders/")
    assert await page.locator("#edit-limits").get_attribute("aria-disabled") == "true"
    assert await page.locator("#start").get_attribute("aria-disabled") is None


async def test_policy_editor_edits_limits_and_does_not_stop(people: People, broker: Broker) -> None:
    await two_hosts(broker)
    page = await people.page("paula", await group("default editors", Role.POLICY_EDITOR))
    await page.goto("/queues/default/orders/")
    assert await page.locator("#stop").get_attribute("aria-disabled") == "true"
    assert await page.locator("#edit-limits").get_attribute("aria-disabled") is None


async def test_user_without_a_role_sees_how_to_get_one(people: People, console: Console) -> None:
    page = await people.page("noah", await group("nothing yet"))
    people.expected.append("403")
    answer = await page.goto("/")
    assert answer
    assert answer.status == 403
    await page.get_by_text("You have no role yet").wait_for()


async def test_new_token_is_shown_once_and_can_be_revoked(people: People, console: Console) -> None:
    page = await people.page("olga")
    await page.goto("/tokens/")
    await page.get_by_text("No tokens yet").wait_for()
    await page.get_by_label("Name", exact=True).fill("ci")
    await page.get_by_label("Operator").check()
    await page.get_by_role("button", name="Create").click()
    secret = await page.locator("#secret").inner_text()
    assert secret.startswith("headgate_")
    answer = await page.request.get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}", "Cookie": ""})
    assert (await answer.json())["token"]["name"] == "ci"
    await page.goto("/tokens/")
    assert secret not in await page.content()
    await page.get_by_role("button", name="Revoke").click()
    await page.locator("#question").get_by_role("button", name="Revoke token").click()
    await page.locator(".tag", has_text="revoked").wait_for()


async def test_administrator_assigns_and_revokes_a_role(people: People, console: Console, tmp_path: Path) -> None:
    await people.page("vic", await group("nothing yet"))
    page = await people.page("adele", "administrators")
    await page.goto("/")
    await page.locator("#user-menu summary").click()
    await page.get_by_role("link", name="Access").click()
    form = page.locator("#give")
    await form.locator("select[name=holder]").select_option("user:vic")
    await form.locator("select[name=role]").select_option("operator")
    await form.locator("select[name=broker]").select_option("local")
    await form.locator("select[name=virtualhost]").select_option("default")
    await form.get_by_role("button", name="Assign").click()
    row = page.locator("#grants tr", has_text="vic")
    await row.get_by_role("cell", name="Virtual host default of broker local", exact=True).wait_for()
    await shots(page, tmp_path)
    await row.get_by_role("button", name="Revoke").click()
    question = page.get_by_role("dialog")
    await question.get_by_text("User vic is no longer operator of virtual host default").wait_for()
    await shots(page, tmp_path)
    await page.keyboard.press("Escape")
    await question.wait_for(state="detached")
    await page.locator("#grants tr", has_text="vic").wait_for()
    await row.get_by_role("button", name="Revoke").click()
    await question.get_by_role("button", name="Revoke role").click()
    await page.locator("#grants tr", has_text="vic").wait_for(state="detached")
    await page.get_by_role("button", name="Undo").click()
    await page.locator("#grants tr", has_text="vic").wait_for()
    await page.goto("/audit/")
    await page.get_by_role("cell", name="take-role").first.wait_for()


async def shots(page: Any, folder: Path) -> None:
    """Nothing overflows, in either theme, wide or narrow; pictures for who wants to look."""
    for theme in ("light", "dark"):
        await page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        for width in (1440, 390):
            await page.set_viewport_size({"width": width, "height": 900})
            await page.screenshot(path=folder / f"{theme}-{width}.png", full_page=True)
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (theme, width, wide)
    await page.set_viewport_size({"width": 1440, "height": 900})
