"""Screenshots of every page of a running console, in both themes, at five widths, to be looked at by a person.

    uv run python -m tests.browser.screenshots OUTDIR --url http://127.0.0.1:8000 --user admin --password-file FILE

The password may come from HEADGATE_PASSWORD instead. Nothing is changed at the broker: dialogs are opened and closed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.chromium import ARGUMENTS, MISSING, PATH

SIZES = {"narrow": (390, 844), "tablet": (768, 1024), "small": (1024, 768), "wide": (1440, 900), "huge": (2560, 1440)}
THEMES = ("light", "dark")
READY = 15_000  # ms
#: Texts of which a part cannot be seen, and that have no title to read them by.
CUT_OFF = """() => [...document.querySelectorAll("body *")].filter((element) => {
  const style = getComputedStyle(element);
  const cuts = /hidden|clip/.test(style.overflowX) && element.clientWidth > 2;
  return cuts && element.checkVisibility() && element.scrollWidth > element.clientWidth + 1 &&
    element.textContent.trim() && !element.closest("svg, [title]") && !element.querySelector("[title]");
}).map((element) => element.textContent.trim().slice(0, 80))"""


def overview(page: Page) -> None:
    page.goto("/")
    page.wait_for_selector("#queue-rows tr, #queues-empty:not([hidden]) strong", timeout=READY)


def queue(page: Page) -> None:
    overview(page)
    link = page.locator("#queue-rows th a")
    if not link.count():
        return
    page.goto(str(link.first.get_attribute("href")))
    page.wait_for_selector("#facts dd:not(:empty)", timeout=READY)
    page.wait_for_timeout(int(os.environ.get("HEADGATE_SCREENSHOT_WAIT", "4000")))  # a chart needs some history


def why(page: Page) -> None:
    overview(page)
    name = page.locator("#queue-rows th a").first.get_attribute("href") or ""
    _, host, queue_name = name.strip("/").split("/", 2)
    page.goto(f"/why/?object=type=Queue,virtualhost={host},name={queue_name}")
    page.wait_for_selector("#chain li", timeout=READY)
    page.wait_for_timeout(1500)


def messages(page: Page) -> None:
    overview(page)
    name = page.locator("#queue-rows th a").first.get_attribute("href") or ""
    _, host, queue_name = name.strip("/").split("/", 2)
    page.goto(f"/messages/?object=type=Queue,virtualhost={host},name={queue_name}")
    page.wait_for_selector("#messages tr, #messages-empty strong", timeout=READY)


def dead_letters(page: Page) -> None:
    page.goto("/dead-letters/")
    page.wait_for_selector("#dead-letters tr, #dead-letters-empty strong", timeout=READY)


def conditions(page: Page) -> None:
    page.goto("/conditions/")
    page.wait_for_selector("#conditions li, #conditions-empty strong", timeout=READY)


def keys(page: Page) -> None:
    overview(page)
    page.keyboard.press("?")
    page.wait_for_selector("#keys-dialog", timeout=READY)


def timeline(page: Page) -> None:
    page.goto("/timeline/")
    page.wait_for_selector("#entries li, #entries-empty:not([hidden])", timeout=READY)


def limits(page: Page) -> None:
    queue(page)
    if page.locator("#edit-limits").count():
        page.locator("#edit-limits").click()


def stop_dialog(page: Page) -> None:
    overview(page)
    page.locator("#stop-all").click()
    page.wait_for_timeout(600)


def policies(page: Page) -> None:
    page.goto("/policies/")
    page.wait_for_selector("#own tr, #own-empty:not([hidden])", timeout=READY)


def policy(page: Page) -> None:
    page.goto("/policies/scope/?object=type%3DBroker")
    page.wait_for_selector(".effective:not(:empty)", timeout=READY)
    page.fill("form [name=capacity_messages]", "5")
    page.wait_for_timeout(1200)


def policy_file(page: Page) -> None:
    page.goto("/policies/file/")
    page.locator("#take").click()
    page.wait_for_timeout(600)
    page.locator("#compare").click()
    page.wait_for_timeout(600)


def bulk(page: Page) -> None:
    page.goto("/policies/bulk/")
    page.wait_for_selector("#queues tr", timeout=READY)
    page.check("#all")
    page.check("[name=set-capacity_messages]")
    page.fill("form [name=capacity_messages]", "+50%")
    page.wait_for_timeout(1200)


def history_status(page: Page) -> None:
    page.goto("/history/status/")
    page.wait_for_selector("#tables tr", timeout=READY)


def alerts(page: Page) -> None:
    page.goto("/alerts/")
    page.wait_for_selector("#rules tr, #rules-empty:not([hidden])", timeout=READY)
    page.wait_for_timeout(600)


def schedules(page: Page) -> None:
    page.goto("/schedules/")
    page.wait_for_selector("#schedules tr, #schedules-empty:not([hidden])", timeout=READY)
    page.wait_for_timeout(600)


def objects(page: Page) -> None:
    page.goto("/objects/")
    page.wait_for_selector(".attributes-table td.value", timeout=READY)
    page.wait_for_timeout(300)


def operations(page: Page) -> None:
    overview(page)
    queue_link = page.locator("#queue-rows th a")
    objects(page)
    if queue_link:
        page.locator("#tab-operations").click()


def audit(page: Page) -> None:
    page.goto("/audit/")
    page.wait_for_selector("#audit-rows", timeout=READY)


def api(page: Page) -> None:
    page.goto("/api/")


def missing(page: Page) -> None:
    page.goto("/nowhere/")


SHOTS: dict[str, Callable[[Page], None]] = {
    "overview": overview,
    "queue": queue,
    "why": why,
    "messages": messages,
    "dead-letters": dead_letters,
    "conditions": conditions,
    "keys": keys,
    "timeline": timeline,
    "limits": limits,
    "stop-dialog": stop_dialog,
    "policies": policies,
    "policy": policy,
    "policy-file": policy_file,
    "bulk": bulk,
    "history-status": history_status,
    "alerts": alerts,
    "schedules": schedules,
    "objects": objects,
    "operations": operations,
    "audit": audit,
    "api": api,
    "404": missing,
}


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--user", required=True)
    arguments.add_argument("--password-file", type=Path)
    arguments.add_argument("--only", nargs="*", default=[], choices=["login", *SHOTS])
    arguments.add_argument("--sizes", nargs="*", default=[*SIZES], choices=SIZES)
    arguments.add_argument("--locale", default="en-US", help="of the browser: decides how its own fields show dates")
    arguments.add_argument("--prefix", default="")
    arguments.add_argument("--full", action="store_true", help="the whole page, not only what is in sight")
    given = arguments.parse_args()
    password = (
        given.password_file.read_text().strip() if given.password_file else os.environ.get("HEADGATE_PASSWORD", "")
    )
    if PATH is None:
        sys.stderr.write(f"{MISSING}\n")
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = given.only or ["login", *SHOTS]
    trouble: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=ARGUMENTS)
        for size in given.sizes:
            (width, height) = SIZES[size]
            for theme in THEMES:
                context = browser.new_context(
                    base_url=given.url,
                    viewport={"width": width, "height": height},
                    color_scheme=theme,
                    locale=given.locale,
                )
                page = context.new_page()
                page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
                page.on("pageerror", lambda error: trouble.append(str(error)))

                def shoot(name: str, page: Page = page, ending: str = f"{size}-{theme}") -> None:
                    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
                    if wide:
                        trouble.append(f"{name} {ending}: the page scrolls sideways")
                    trouble.extend(f"{name} {ending}: cut off: {text}" for text in page.evaluate(CUT_OFF))
                    page.screenshot(path=given.out / f"{given.prefix}{name}-{ending}.png", full_page=given.full)

                page.goto("/login/")
                if "login" in wanted:
                    shoot("login")
                page.fill("[name=username]", given.user)
                page.fill("[name=password]", password)
                page.click("button[type=submit]")
                page.wait_for_url(lambda url: "/login" not in url)
                for name in [name for name in SHOTS if name in wanted]:
                    SHOTS[name](page)
                    shoot(name)
                context.close()
        browser.close()
    for line in dict.fromkeys(trouble):
        sys.stderr.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
