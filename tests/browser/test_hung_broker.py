"""A broker that hangs: its process is stopped, its sockets stay open, nothing answers. No page and no call says
then what is not known, everything is dated by what was known last, and all of it comes back without a reload.

The pages are those of the URLconf, the calls those of the description of the interface: what is new is walked, too.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator
from playwright.async_api import BrowserContext, Page, expect
from proton import Message, ProtonException
from proton.utils import BlockingConnection

from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from brokers.steady_clock import time_of_day
from console.alerts.models import Rule
from console.bulk.models import BulkEdit, BulkEditRow
from console.links.registry import Pace, close_links, connect_bundled, link
from console.pages.urls import urlpatterns
from console.schedules.models import Schedule
from tests.amqp.test_broker_command import broker_process
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Console, connections, until_in_page
from tests.console.conftest import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(400),
]

LIMIT = 40_000  # ms, for what a page does on a busy machine
ORDERS = "type=Queue,virtualhost=default,name=orders"

#: What each page of the URLconf is opened with: its arguments, and what follows the `?`. Files are fetched.
PAGES: dict[str, tuple[dict[str, Any], str]] = {
    "overview": ({}, ""),
    "first-steps": ({}, ""),
    "help": ({}, ""),
    "help-document": ({"slug": "terms"}, ""),
    "fleet": ({}, ""),  # of one broker its overview; of several: test_fleet.py
    "queue": ({"virtualhost": "default", "name": "orders"}, ""),
    "policies": ({}, ""),
    "policy": ({}, f"?object={ORDERS}"),
    "policy-file": ({}, ""),
    "bulk": ({}, ""),
    "bulk-job": ({"number": 1}, ""),
    "timeline": ({}, ""),
    "why": ({}, f"?object={ORDERS}"),
    "clients": ({}, ""),
    "connection": ({}, "?object=type=Connection,virtualhost=default,id=1"),
    "client": ({}, "?virtualhost=default&user=anonymous"),
    "conditions": ({}, ""),
    "messages": ({}, f"?object={ORDERS}"),
    "dead-letters": ({}, ""),
    "history": ({}, ""),
    "history-compare": ({}, f"?queue={ORDERS}"),
    "history-incident": ({}, ""),
    "history-advice": ({}, ""),
    "history-status": ({}, ""),
    "history-what-if": ({"virtualhost": "default", "name": "orders"}, ""),
    "history-queue": ({"virtualhost": "default", "name": "orders"}, ""),
    "alerts": ({}, ""),
    "alert-rule-new": ({}, ""),
    "alert-rule": ({"number": 1}, ""),
    "schedules": ({}, ""),
    "schedule-new": ({}, ""),
    "schedule": ({"number": 1}, ""),
    "objects": ({}, ""),
    "audit": ({}, ""),
    "access": ({}, ""),
    "brokers": ({}, ""),
    "tokens": ({}, ""),
    "preferences": ({}, ""),
    "api-docs": ({}, ""),
}
FILES = {"policies-export"}

#: Statements that are facts only while the broker answers.
UNTRUE = (
    r"No (producers|consumers) attached(?! at \d)|No clients connected(?! at \d)|No (events|queues|schedules|rules) yet"
    r"|No active conditions(?! at \d)|No entries yet|No such (object|queue)(?! at \d)|Loading…"
)
#: What a page that was opened before may still say of then, and one that was opened later does not know.
UNKNOWN = r"not set|no limit\s+default|No patterns yet|No matching queues|Updating live|\b0 of 0\b"
#: On pages where nothing is known at all these stand for counts: none of them is a number.
COUNTS = ".total-value, #queues-count, #conditions-count, #producers-count, #consumers-count, #own-count, #count"

#: Calls whose answers are the console's own, not the broker's: the same whether it answers or not. Metrics leave out
#: what is unknown (tests/console/test_metrics.py).
OWN = re.compile(
    r"/api/schema/|/metrics|/readyz|/v1/(me|preferences|selections|audit|alerts|schedules|history|policies/bulk|message-jobs|brokers/(file|kinds))/(?!preview)(?!.*(revert|undo)/$)"
)
VALUES = {
    "slug": "local",
    "virtualhost": "default",
    "number": "1",
    "part": "status",
    "operation": "explain",
    "identifier": "1",
}
PARAMETERS = {
    "brokers/{slug}/objects/": "?type=Queue",
    "queues/groups/": "?by=virtualhost",
    "fleet/queues/groups/": "?by=prefix",
    **dict.fromkeys(
        ("why/", "messages/", "messages/summary/", "messages/{identifier}/", "messages/{identifier}/body/"),
        f"?object={ORDERS}",
    ),
}


class Hanging:
    """A broker in a process of its own, with a queue that is full, a blocked producer and an idle consumer."""

    def __init__(self, pid: int, port: int, secret: Path) -> None:
        self.pid, self.port, self.secret = pid, port, secret

    async def furnish(self) -> None:
        admin = await BundledBroker.connect("127.0.0.1", self.port, "console", self.secret.read_text().strip())
        try:
            await admin.create(object_name("Queue", virtualhost="default", name="orders"), {"capacity_messages": 5})
        finally:
            await admin.close()

    def hang(self) -> int:
        """Returns when the broker answered last, at the latest: ms."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED, 10)
        return time_of_day()

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@contextmanager
def clients(port: int) -> Iterator[None]:
    """A producer that is blocked, since its queue is full, and a consumer that takes nothing. Clients whose broker
    hangs give their connections up, and come again."""
    ended = threading.Event()

    def publish(connection: BlockingConnection) -> None:
        sender = connection.create_sender("orders")
        while not ended.is_set():
            sender.send(Message(body="x" * 100))

    def consume(connection: BlockingConnection) -> None:
        connection.create_receiver("orders", credit=0)
        connection.wait(ended.is_set, timeout=3000)

    def again(act: Callable[[BlockingConnection], None]) -> None:
        while not ended.is_set():
            with suppress(ProtonException, OSError):
                act(BlockingConnection(f"127.0.0.1:{port}", timeout=3000, allowed_mechs="ANONYMOUS"))

    for act in (publish, consume):
        threading.Thread(target=again, args=(act,), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@pytest.fixture
def hanging(database: None, tmp_path: Path, settings: Any) -> Iterator[Hanging]:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    data = tmp_path / "broker"
    close_links()
    with broker_process(data, "--demo") as (process, port):
        made = Hanging(process.pid, port, data / "console.secret")
        asyncio.run(made.furnish())
        settings.HEADGATE_BROKERS = [
            {
                "slug": "local",
                "title": "Local broker",
                "connect": connect_bundled,
                "options": {"host": "127.0.0.1", "port": port, "user": "console", "secret": str(made.secret)},
                "pace": Pace(answer=4, probe=0.5, retry_most=1),
            }
        ]
        with clients(port):
            for attribute in ("blocked_producers", "consumers"):
                until(lambda named=attribute: (link("local").queue(ORDERS) or {}).get(named), 60)
            try:
                yield made
            finally:
                made.go_on()
                close_links()


@pytest.fixture
def console(hanging: Hanging) -> Iterator[Console]:
    running = Console()
    running.start()
    yield running
    running.stop()


def furnished() -> None:
    """A rule, a schedule and a bulk edit, so that their pages are there. For a thread of its own."""
    now = dt.datetime.now(dt.UTC)
    user = User.objects.get(username="adele")
    Rule.objects.create(pk=1, name="overfull", kinds=["queue-overfull"])
    Schedule.objects.create(
        pk=1, name="nightly", broker="local", action="stop", target="type=Broker", zone="UTC", user=user, user_name="a"
    )
    BulkEdit.objects.create(pk=1, user_name="adele", broker="local", lease_until=now, finished=now, state="done")
    BulkEditRow.objects.create(
        edit_id=1, object=ORDERS, wanted={"capacity_messages": 5}, before={"capacity_messages": 4}, state="done"
    )
    connections.close_all()


async def person(people: Any) -> BrowserContext:
    page = await people.page("adele", "administrators")
    await asyncio.to_thread(furnished)
    # What the hanging broker brings about, and files of a history that is not there.
    people.expected += ["503", "404", "WebSocket", "ERR_CONNECTION_REFUSED", "Failed to load resource"]
    page.context.set_default_timeout(LIMIT)
    expect.set_options(timeout=LIMIT)
    return page.context  # type: ignore[no-any-return]


def where(name: str) -> str:
    arguments, parameters = PAGES[name]
    return reverse(name, kwargs=arguments) + parameters


async def open_page(context: BrowserContext, name: str) -> Page:
    page = await context.new_page()
    answer = await page.goto(where(name))
    assert answer is not None
    assert answer.ok, f"{name}: {answer.status}"
    return page


def ms_of(clock: str, near: int) -> int:
    """A time of the day in this machine's zone, on the day of `near`, as ms."""
    hours, minutes, seconds = map(int, clock.split(":"))
    day = dt.datetime.fromtimestamp(near / 1000).astimezone()
    return int(day.replace(hour=hours, minute=minutes, second=seconds, microsecond=0).timestamp() * 1000)


WORDS = "() => document.getElementById('main').innerText + document.getElementById('banners').innerText"
LOADED = """() => ![...document.querySelectorAll("main .loading")].some((e) => e.getClientRects().length)"""
#: Besides the entries of looks at messages that failed meanwhile: the timeline and the audit trail list them.
KNOWN = """() => {
    let said = document.getElementById("main").innerText;
    for (const entry of document.querySelectorAll("#entries > li, #audit-rows tbody tr"))
        if (/read[- ]message/i.test(entry.textContent)) said = said.replace(entry.innerText, "");
    return !/not known|Local broker (cannot be reached|did not answer|has not)/i.test(said);
}"""
ENABLED = """() => [...document.querySelectorAll("[data-acts]")].filter((e) => e.getClientRects().length && !e.disabled
    && !(e.getAttribute("aria-disabled") === "true" && e.title)).map((e) => e.outerHTML.slice(0, 120))"""
#: An hour passes for the page and the console; resolves with the times that went on when the banner's own has.
AN_HOUR = """async () => {
    const all = [...document.querySelectorAll("time[data-since]")].filter((e) => !e.closest("[data-own-times]"));
    const before = all.map((e) => e.textContent);
    const [real, parse] = [Date.now, JSON.parse];
    Date.now = () => real() + 3600_000;
    JSON.parse = (...given) => {  // the server's clock, in frames
        const read = parse(...given);
        if (typeof read?.at === "number") read.at += 3600_000;
        return read;
    };
    const own = () => document.querySelector("#banner-lost time[data-since]").textContent;
    while (!/\\d h/.test(own())) await new Promise((resume) => setTimeout(resume, 50));
    [Date.now, JSON.parse] = [real, parse];
    return all.map((e, n) => [before[n], e.textContent]).filter(([was, is]) => was !== is);
}"""


async def check_hung(name: str, page: Page, hung_at: int | None, *, fresh: bool = True) -> None:
    """What holds of every page while the broker hangs. `hung_at`: None if nothing is known. `fresh`: the page was
    opened after it had hung."""
    banner = page.locator("#banner-lost")
    await expect(banner, name).to_contain_text("Local broker cannot be reached")
    await page.wait_for_load_state("networkidle")
    await until_in_page(page, LOADED)
    said = await page.evaluate(WORDS)
    forbidden = f"{UNTRUE}|{UNKNOWN}" if fresh else UNTRUE
    assert not (found := re.search(forbidden, said)), f"{name} says {found.group()!r}: {said}"
    shown = re.search(r"Shown as of ([\d:]+)", said)
    if hung_at is None:
        assert shown is None, f"{name}: {said}"
        assert "Nothing is known yet" in said, name
        counts = await page.evaluate(f"() => [...document.querySelectorAll({COUNTS!r})].map((e) => e.innerText)")
        assert not any(re.search(r"\d", count) for count in counts), f"{name}: {counts}"
    else:
        assert shown is not None, f"{name}: {said}"
        assert ms_of(shown.group(1), hung_at) <= hung_at, f"{name} is dated {shown.group(1)}, after the hang"
    assert await page.evaluate(ENABLED) == [], name
    assert await page.evaluate(AN_HOUR) == [], f"{name}: times go on"


async def check_back(name: str, page: Page) -> None:
    await expect(page.locator("#connection-text"), name).to_have_text("Live")
    await expect(page.locator("#banner-lost"), name).to_be_hidden()
    await expect(page.locator("[data-off]"), name).to_have_count(0)
    if not name.endswith("api-docs"):  # which says it of calls
        try:
            await until_in_page(page, KNOWN)
        except TimeoutError:
            said = await page.evaluate(WORDS)
            raise AssertionError(f"{name} does not know again: {said}") from None
    assert await page.evaluate("window.notReloaded === true"), f"{name} was loaded again"


def calls() -> list[str]:
    """Every GET of the interface, ready to be called."""
    found = []
    for path, operations in SchemaGenerator().get_schema(request=None, public=True)["paths"].items():
        if "get" not in operations:
            continue
        values = {**VALUES, "name": "orders" if "queues" in path else ORDERS}
        filled = path
        for part in re.findall(r"\{(\w+)\}", path):
            filled = filled.replace(f"{{{part}}}", values.get(part, "1"))
        found.append(filled + next((given for end, given in PARAMETERS.items() if path.endswith(f"v1/{end}")), ""))
    assert len(found) > 30
    return found


async def check_calls(context: BrowserContext, hung_at: int | None) -> None:
    for path in calls():
        began = time.monotonic()
        answer = await context.request.get(path, timeout=LIMIT)
        assert time.monotonic() - began < 15, path
        if OWN.search(path):
            continue
        body = await answer.json() if "json" in answer.headers.get("content-type", "") else None
        if answer.status == 503:
            assert body is not None, path
            assert re.search(r"\w+ .*\w", body["detail"]), path
            continue
        if answer.status == 404 and "/1/" in path:
            continue  # objects with numbers are the console's own
        assert answer.status == 200, f"{path}: {answer.status}"
        dated = body[0] if isinstance(body, list) else body
        assert dated is None or "as_of" in dated, f"{path}: {body}"
        as_of = int(answer.headers["headgate-as-of"]) if dated is None else dated["as_of"]
        if hung_at is None:
            assert as_of is None, f"{path}: {body}"
        else:
            assert as_of <= hung_at, path
            assert dated is None or dated["stale"] is True, path


async def test_every_page_of_the_urlconf_is_covered() -> None:
    assert {pattern.name for pattern in urlpatterns} == set(PAGES) | FILES


@pytest.mark.domain("4 hung broker")
async def test_no_page_and_no_call_states_unknown_facts_while_the_broker_hangs(people: Any, hanging: Hanging) -> None:
    context = await person(people)
    open_pages = {name: await open_page(context, name) for name in PAGES}
    for name, page in open_pages.items():
        await expect(page.locator("#connection-text"), name).to_have_text("Live")
        await page.evaluate("window.notReloaded = true")
    await expect(open_pages["queue"].locator("#producers tr")).to_have_count(1)
    hung_at = hanging.hang()
    for name, page in open_pages.items():
        await check_hung(name, page, hung_at, fresh=False)
    fresh = {}
    for name in PAGES:
        fresh[name] = await open_page(context, name)
        await fresh[name].evaluate("window.notReloaded = true")
        await check_hung(f"fresh {name}", fresh[name], hung_at)
    queue = fresh["queue"]
    for part in ("producers", "consumers"):
        await expect(queue.locator(f"#{part}-empty")).to_have_text("Not known while the broker does not answer.")
    await expect(queue.locator("#facts")).to_contain_text("not known")
    # Nor does a colour say that nothing is blocked.
    assert await fresh["why"].locator("#verdict-card").get_attribute("data-blocked") is None
    await expect(queue.locator("#limits")).to_contain_text("origin not known")
    for page in (open_pages["queue"], queue):
        ends = await page.evaluate(
            "Math.max(...document.getElementById('chart').data.flatMap((line) => line.x)"
            ".map((x) => new Date(x.replace(' ', 'T')).getTime()))"
        )
        assert ends <= hung_at, "the chart goes on after the hang"
    await check_calls(context, hung_at)
    hanging.go_on()
    for name, page in [*open_pages.items(), *fresh.items()]:
        await check_back(name, page)
    await expect(queue.locator("#producers tr")).to_have_count(1)
    await expect(fresh["overview"].locator("#queue-rows tr .state")).to_have_text("Overfull")


async def test_console_that_starts_while_the_broker_hangs_reports_that_nothing_is_known(
    people: Any, hanging: Hanging, console: Console
) -> None:
    context = await person(people)
    hanging.hang()
    await asyncio.to_thread(console.stop)
    await asyncio.to_thread(close_links)
    await asyncio.to_thread(console.start)
    fresh = {}
    for name in PAGES:
        fresh[name] = await open_page(context, name)
        await fresh[name].evaluate("window.notReloaded = true")
        await check_hung(name, fresh[name], None)
    await check_calls(context, None)
    hanging.go_on()
    for name, page in fresh.items():
        await check_back(name, page)
    await expect(fresh["overview"].locator("#queue-rows tr .state")).to_have_text("Overfull")
    await expect(fresh["queue"].locator("#producers tr")).to_have_count(1)
    await expect(fresh["policies"].locator("#own tr")).to_have_count(1)
