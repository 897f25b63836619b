"""The pictures of the README files and of the help: starts the demo in a folder of its own, waits until there is
something to see, and takes each page in both themes, as small WebP files in .readme/. For the page of all brokers a
RabbitMQ is started and added.

    uv run python -m tests.browser.readme
"""

from __future__ import annotations

import argparse
import base64
import datetime as dt
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.chromium import ARGUMENTS, MISSING, PATH
from tests.browser.own_brokers import fill_queue
from tests.interop.rabbitmq_node import rabbitmq
from tests.up.running import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
SIZE = {"width": 1440, "height": 810}
THEMES = ("light", "dark")
READY = 180_000  # ms
QUALITY = 0.82

_TO_WEBP = """async ([png, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""


def overview(page: Page) -> None:
    page.goto("/")
    orders = page.locator("#queue-rows tr", has=page.get_by_role("link", name="orders", exact=True))
    orders.locator(".state").filter(has_text="Normal").wait_for(timeout=READY)  # so that it has just begun
    orders.locator(".state").filter(has_text="Overfull").wait_for(timeout=READY)


def why(page: Page) -> None:
    page.goto(f"/why/?object={ORDERS}")
    page.locator("#verdict").filter(has_text="blocked").wait_for(timeout=READY)


def policy(page: Page) -> None:
    why(page)  # while it is overfull, producers are blocked
    page.goto(f"/policies/scope/?object={ORDERS}")
    page.locator(".effective:not(:empty)").first.wait_for(timeout=READY)
    page.fill("form [name=capacity_messages]", "800")
    page.locator("#preview").get_by_text("unblocked").wait_for(timeout=READY)
    page.wait_for_timeout(300)


def messages(page: Page) -> None:
    page.goto("/messages/?object=type%3DQueue%2Cvirtualhost%3Ddefault%2Cname%3Dpayments.declined")
    row = page.locator("#messages tr").first
    row.wait_for(timeout=READY)
    row.locator("button, a").first.click()
    page.wait_for_timeout(1500)


def dead_letters(page: Page) -> None:
    page.goto("/dead-letters/")
    page.get_by_role("link", name="payments.declined").first.wait_for(timeout=READY)
    page.wait_for_timeout(1500)  # the counts by reason follow


def alerts(page: Page) -> None:
    page.goto("/alerts/")
    page.locator("#rules tr, #template-dead-letters").first.wait_for(state="attached", timeout=READY)
    if page.locator("#rules tr").count() == 0:  # not in the second theme
        page.locator("#template-dead-letters").get_by_role("button").click()
        page.locator("#rules tr").first.wait_for(timeout=READY)
        page.goto("/alerts/")
    page.locator("#firing li").first.wait_for(timeout=READY)


def history(page: Page) -> None:
    where = "/history/queues/default/orders/"
    page.goto(f"{where}?range=15m")
    page.locator("#episodes tbody tr").first.wait_for(timeout=READY)
    until = dt.datetime.now(dt.UTC)
    begin = until - dt.timedelta(seconds=100)
    page.goto(f"{where}?from={begin:%Y-%m-%dT%H:%M:%SZ}&until={until:%Y-%m-%dT%H:%M:%SZ}")
    page.locator("#chart .main-svg").first.wait_for(timeout=READY)
    page.wait_for_timeout(1500)


def fleet(page: Page) -> None:
    page.goto("/fleet/")
    for name in ("orders", "bills"):
        row = page.locator("#queue-rows tr", has=page.get_by_role("link", name=name, exact=True))
        row.locator(".state").filter(has_text="Overfull").wait_for(timeout=READY)


ORDERS = "type%3DQueue%2Cvirtualhost%3Ddefault%2Cname%3Dorders"
SHOTS: dict[str, Callable[[Page], None]] = {
    "overview": overview,
    "why": why,
    "policy": policy,
    "messages": messages,
    "dead-letters": dead_letters,
    "alerts": alerts,
    "history": history,
}
#: With more than one broker, which other pages would show, too.
SHOTS_OF_SEVERAL: dict[str, Callable[[Page], None]] = {"fleet": fleet}


@contextmanager
def demo() -> Iterator[tuple[str, str]]:
    """(address of the console, password of its admin)"""
    with tempfile.TemporaryDirectory(prefix="headgate-readme-") as data:
        command = [sys.executable, "manage.py", "up", "--demo", "--data", data]
        command += ["--port", str(free_port()), "--amqp-port", str(free_port())]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            url = password = ""
            for line in process.stdout:
                if found := re.search(r"Console\s+(http\S+)", line):
                    url = found[1]
                if found := re.search(r"admin, password (\S+)$", line.strip()):
                    password = found[1]
                if line.startswith("Ctrl-C"):
                    break
            else:
                raise SystemExit("manage.py up has ended")
            yield url, password
        finally:
            process.terminate()
            process.wait()


@contextmanager
def second_broker() -> Iterator[str]:
    """URL of the management of a RabbitMQ with an overfull queue, `bills`, for the user guest with its password."""
    with (
        tempfile.TemporaryDirectory(prefix="headgate-readme-") as folder,
        rabbitmq(Path(folder), plugins=("rabbitmq_management",)) as node,
    ):
        fill_queue(node.port)
        yield f"http://127.0.0.1:{node.http_port}"


def signed_in(browser: Browser, url: str, password: str, theme: str = "light") -> BrowserContext:
    context = browser.new_context(base_url=url, viewport=SIZE, color_scheme=theme)  # type: ignore[arg-type]
    context.set_default_timeout(READY)
    page = context.new_page()
    page.goto("/login/")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_url(lambda address: "/login" not in address)
    return context


def add_broker(browser: Browser, url: str, password: str, management: str) -> None:
    context = signed_in(browser, url, password)
    [page] = context.pages
    page.goto("/brokers/")
    page.get_by_label("Kind").select_option("RabbitMQ")
    given = {"Slug": "billing", "Title": "Billing", "URL": management, "User name": "guest", "Password": "guest"}
    for label, value in given.items():
        page.get_by_label(label, exact=True).fill(value)
    page.get_by_role("button", name="Add").click()
    page.get_by_text("Billing is added.").wait_for()
    context.close()


def take(browser: Browser, url: str, password: str, *, theme: str, names: list[str], into: Path) -> None:
    context = signed_in(browser, url, password, theme)
    [page] = context.pages
    blank = context.new_page()
    for name in names:
        {**SHOTS, **SHOTS_OF_SEVERAL}[name](page)
        png = base64.b64encode(page.screenshot()).decode()
        webp = base64.b64decode(blank.evaluate(_TO_WEBP, [png, QUALITY]))
        (into / f"{name}-{theme}.webp").write_bytes(webp)
        sys.stdout.write(f"{name}-{theme}.webp: {len(webp) // 1000} kB\n")
    context.close()


def main() -> int:
    names = [*SHOTS, *SHOTS_OF_SEVERAL]
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--out", type=Path, default=ROOT / ".readme")
    arguments.add_argument("--only", nargs="*", choices=names, default=names)
    given = arguments.parse_args()
    if PATH is None:
        sys.stderr.write(f"{MISSING}\n")
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    with demo() as (url, password), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=ARGUMENTS)
        time.sleep(5)
        for several in (False, True):
            chosen = [name for name in given.only if (name in SHOTS_OF_SEVERAL) == several]
            with second_broker() if several and chosen else nullcontext("") as management:
                if management:
                    add_broker(browser, url, password, management)
                for theme in THEMES if chosen else ():
                    take(browser, url, password, theme=theme, names=chosen, into=given.out)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
