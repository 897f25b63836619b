"""The history pages in Chromium: all queues, one queue, an incident, status, errors."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from playwright.async_api import Route, expect

from console.celery import app
from console.history.models import HistoryRun
from console.history.storage.landing import Landing
from console.history.storage.landing_names import recorder_file
from console.history.storage.layout import table_url
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, People
from tests.history.delta import HOUR, MINUTE, SECOND, coverage, episode, event, rollup, sample, write
from tests.history.rows import Story, land, table

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

#: A past whole hour that is on one day in all time zones below.
T = (int(time.time() * 1000) // (24 * HOUR) - 1) * 24 * HOUR + 10 * HOUR
QUEUE = {"object": "type=Queue,virtualhost=default,name=orders", "object_type": "Queue", "queue": "orders"}


def iso(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


WHOLE = f"from={iso(T)}&until={iso(T + HOUR)}"


@pytest.fixture(autouse=True)
def url(tmp_path: Path, settings: Any) -> str:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    return str(tmp_path / "history")


@pytest.fixture
def recorded_hour(url: str) -> str:
    """One hour of `orders`: recorded except for the last ten minutes, overfull for a minute, stopped for a minute."""
    write(url, "coverage", [coverage(T, T + 50 * MINUTE)])
    levels = {"capacity_messages": 1000, "stop_messages": 1000, "resume_messages": 800}
    samples = []
    for second in range(0, 3000, 5):
        filling = second < 1200
        came = second * 30 if filling else 36_000
        depth = max(0, came - second * 20)
        samples.append(
            sample(
                T + second * SECOND, min(depth, 1001), enqueued_messages=came, dequeued_messages=came - depth, **levels
            )
        )
    write(url, "samples", samples)
    write(
        url,
        "minutes",
        [
            rollup(
                T + m * MINUTE,
                messages_mean=100.0 + m,
                messages_max=1001 if m == 10 else 200,
                overfull_ms=MINUTE if m == 10 else 0,
                blocked_ms=3 * MINUTE if m == 10 else 0,
                **levels,
            )
            for m in range(50)
        ],
    )
    stop = {"scope": "virtualhost default", "object": "type=VirtualHost,name=default", "object_type": "VirtualHost"}
    stopped = {"kind": "stopped", "virtualhost": None, "scope": stop["scope"], "actor": "olga", "reason": "deployment"}
    write(
        url,
        "episodes",
        [
            episode(T + 10 * MINUTE, T + 11 * MINUTE),
            episode(T + 30 * MINUTE, T + 31 * MINUTE, None, id="stop", **stopped),
        ],
    )
    write(
        url,
        "events",
        [
            event(T + 10 * MINUTE, "queue-overfull", 1, **QUEUE, depth_messages=1001, text="QUE-1003 : Overfull"),
            event(
                T + 10 * MINUTE,
                "producer-blocked",
                2,
                object_type="Producer",
                queue="orders",
                client="<img src=x onerror=alert(1)>",
            ),
            event(T + 11 * MINUTE, "queue-underfull", 3, **QUEUE, depth_messages=800),
            event(
                T + 20 * MINUTE,
                "policy-changed",
                4,
                **QUEUE,
                actor="olga",
                before='{"capacity_messages": 500}',
                after='{"capacity_messages": 1000}',
            ),
            event(T + 30 * MINUTE, "producers-stopped", 5, **stop, actor="olga", reason="deployment"),
        ],
    )
    return url


async def test_pages_without_data_show_how_to_record_or_import(people: People) -> None:
    page = await people.page("ada", "viewers")
    for path in ("/history/", "/history/queues/default/orders/", "/history/incident/", "/history/advice/"):
        await page.goto(path)
        await expect(page.locator("#nothing")).to_contain_text("Nothing has been recorded yet")
        await expect(page.locator("#nothing code")).to_contain_text(
            ["headgate recorder", "headgate up", "headgate import-log", "headgate make-history"]
        )


async def test_page_of_a_new_recording_shows_the_first_figures_once_computed(people: People, url: str) -> None:
    page = await people.page("ada", "viewers")
    people.expected.append("404 (Not Found)")
    await page.clock.install()
    land(url, Story("local").watch(0, 60).rows)
    await page.goto("/history/")
    await expect(page.locator("#nothing")).to_contain_text("Recording has started")
    now = int(time.time() * 1000)
    write(url, "coverage", [coverage(now - 40 * MINUTE, now)])
    await page.clock.fast_forward(1_100)
    await expect(page.locator("#history")).to_be_visible()
    await expect(page.locator("#top-queues")).to_contain_text("follow within seconds")
    # By default the range covers a young history.
    await expect(page.get_by_role("button", name="1 h", exact=True)).to_have_attribute("aria-pressed", "true")


async def test_unrecorded_time_is_not_shown_as_overfull(people: People, url: str) -> None:
    write(url, "coverage", [coverage(T, T + 10 * MINUTE), coverage(T + 40 * MINUTE, T + 60 * MINUTE)])
    write(url, "samples", [sample(T, 1), sample(T + 45 * MINUTE, 1)])
    write(url, "episodes", [episode(T + 5 * MINUTE, T + 45 * MINUTE)])
    write(url, "events", [event(T, "queue-overfull", 1, **QUEUE)])
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/queues/default/orders/?{WHOLE}")
    await expect(page.locator("#facts")).to_contain_text("10 min 0 s (33.3% of recorded time)")
    widths = await page.evaluate(
        """() => document.querySelector("#chart .js-plotly-plot, #chart.js-plotly-plot").data
            .find((trace) => trace.meta === "overfull").width.map((ms) => ms / 60000)"""
    )
    assert widths == [5, 5]


async def test_charts_hatch_unrecorded_time_in_rollups_too_and_draw_nothing_through_it(
    people: People, url: str
) -> None:
    write(url, "coverage", [coverage(T, T + 90 * SECOND), coverage(T + 30 * MINUTE, T + 60 * MINUTE)])
    minutes = [rollup(T + m * MINUTE, messages_mean=5.0, rate_in=0.5) for m in (0, 1, *range(30, 60))]
    blocked = rollup(T + MINUTE, blocked_ms=1000, watched_ms=30_000, messages_mean=5.0, rate_in=0.5)
    write(url, "minutes", [*minutes[:1], blocked, *minutes[2:]])
    write(url, "episodes", [episode(T + MINUTE, T + MINUTE + SECOND)])
    write(url, "events", [event(T + MINUTE, "queue-overfull", 1, **QUEUE)])
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/queues/default/orders/?from={iso(T)}&until={iso(T + 3 * HOUR)}")
    await expect(page.locator("#resolution")).to_contain_text("one point per minute")
    for chart, line in (("#chart", "messages"), ("#rates", "rate_in")):
        gaps, points = await page.evaluate(
            """async ([chart, line, start]) => {
                const named = (meta) => document.querySelector(chart).data.find((trace) => trace.meta === meta);
                const [bars, shown] = [named("unwatched"), named(line)];
                const ms = (x) => new Date(x.replace(" ", "T")).getTime();
                const gaps = bars.x.map((x, i) => [-1, 1].map((side) => ms(x) + (side * bars.width[i]) / 2 - start));
                return [gaps, shown.x.map((x, i) => [ms(x) - start, shown.y[i]])];
            }""",
            [chart, line, T],
        )
        assert gaps == [[90 * SECOND, 30 * MINUTE], [60 * MINUTE, 180 * MINUTE]]
        value = points[0][1]
        first_run = [[0, value], [MINUTE, value], [90 * SECOND, value], [90 * SECOND, None]]
        assert points[:5] == [*first_run, [30 * MINUTE, value]]
    await expect(page.locator("#chart .ytitle")).to_have_text("Depth, messages")
    await expect(page.locator("#rates .xtitle")).to_have_text("Time")
    await page.goto(f"/history/?from={iso(T)}&until={iso(T + HOUR)}")
    await expect(page.locator("#heat .heatmaplayer image")).to_have_count(1)
    widths = await page.evaluate(
        """() => document.querySelector("#heat").data.find((trace) => trace.meta === "unwatched").width"""
    )
    assert widths == [30 * MINUTE - 90 * SECOND]


async def test_moments_being_entered_survive_the_refresh_of_a_range_that_ends_now(people: People, url: str) -> None:
    now = int(time.time() * 1000)
    write(url, "coverage", [coverage(now - 2 * HOUR, now)])
    write(url, "events", [event(now - HOUR, "queue-overfull", 1, **QUEUE)])
    people.expected.append("404 (Not Found)")  # most tables do not exist yet
    page = await people.page("ada", "viewers", timezone_id="UTC")
    await page.clock.install()
    await page.goto("/history/?range=1h")
    start, end = page.locator("#range [name=from]"), page.locator("#range [name=until]")
    shown = await end.input_value()
    await start.fill("2026-03-01T14:00:10")
    for _ in range(2):  # the page moves the end of its range to now, and requests its data again
        async with page.expect_response(lambda answer: "/history/episodes/" in answer.url):
            await page.clock.fast_forward(61_000)
    await expect(start).to_have_value("2026-03-01T14:00:10")
    await expect(end).to_have_value(shown)
    await end.fill("2026-03-01T14:05:10")
    await page.locator("#range").get_by_role("button", name="Show").click()
    await expect(page).to_have_url(re.compile("from=2026-03-01T14.*00.*10.*until=2026-03-01T14.*05.*10"))
    await page.get_by_role("button", name="1 h", exact=True).click()
    await expect(start).not_to_have_value("2026-03-01T14:00:10")


async def test_end_that_was_not_recorded_is_the_last_known_moment_in_words(people: People, url: str) -> None:
    write(url, "coverage", [coverage(T, T + 40 * MINUTE)])
    write(url, "samples", [sample(T + m * MINUTE, 1) for m in range(40)])
    restarted = episode(T + 5 * MINUTE, T + 10 * MINUTE, released_by="restart")
    unrecorded = episode(T + 45 * MINUTE, T + 46 * MINUTE, id="unrecorded", blocked_ms=0)
    write(url, "episodes", [restarted, episode(T + 30 * MINUTE, None), unrecorded])
    write(url, "events", [event(T, "queue-overfull", 1, **QUEUE)])
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/queues/default/orders/?{WHOLE}")
    rows = page.locator(".episodes-table tbody tr")
    await expect(rows.nth(0).locator("[data-label='Blocked producer time']")).to_have_text("\u2013")
    await expect(rows.nth(1)).to_contain_text(re.compile(r"10 min 0 s\s*last known at .*, not recorded since"))
    await expect(rows.nth(2)).to_contain_text(re.compile(r"5 min 0 s\s*last known at .*, before the broker restarted"))
    await page.goto(f"/history/incident/?{WHOLE}&broker=local&virtualhost=default&queue=orders")
    await expect(page.locator("#charts .card-head")).to_contain_text("last known at")


async def test_most_blocked_queue_links_to_its_charts_and_a_shorter_range_shows_samples(
    people: People, recorded_hour: str
) -> None:
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/?{WHOLE}")
    await expect(page.get_by_role("link", name="History", exact=True)).to_have_attribute("aria-current", "page")
    await expect(page.locator("#top-queues .ranked")).to_contain_text(["orders"])
    await expect(page.locator("#top-queues .ranked-value")).to_have_text("3 min 0 s")
    await expect(page.locator("#heat .heatmaplayer image")).to_have_count(1)
    await expect(page.locator(".episodes-table tbody tr")).to_have_count(2)
    await page.get_by_role("searchbox", name="Search episodes").fill("deployment")
    await expect(page.locator(".episodes-table tbody tr")).to_have_count(1)
    await page.locator("#top-queues a").click()
    await expect(page.locator(".crumbs")).to_have_text("History / Local broker / default")
    await expect(page.locator("#resolution")).to_contain_text("as recorded")
    await expect(page.locator("#chart .legend")).to_contain_text("Overfull")
    await expect(page.locator("#chart .legend")).to_contain_text("No data")
    await expect(page.locator("#actions li")).to_contain_text(["Producers stopped", "Policy changed"])
    await expect(page.locator("#facts")).to_contain_text("1 min 0 s")
    async with page.expect_response(lambda answer: "/history/series/" in answer.url):
        await page.get_by_role("button", name="Twice as long").click()
    await expect(page.locator("#resolution")).to_contain_text("Depth as recorded")
    async with page.expect_response(lambda answer: "/history/series/" in answer.url):
        await page.get_by_role("button", name="Twice as long").click()
    await expect(page.locator("#resolution")).to_contain_text("one point per minute")
    await page.go_back()
    await expect(page.locator("#resolution")).to_contain_text("as recorded")


async def test_dragging_over_the_chart_zooms_to_a_finer_resolution(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers", timezone_id="Asia/Kolkata")
    await page.goto(f"/history/queues/default/orders/?from={iso(T - 2 * HOUR)}&until={iso(T + 2 * HOUR)}")
    await expect(page.locator("#resolution")).to_contain_text("one point per minute")
    box = await page.locator("#chart .nsewdrag").first.bounding_box()
    assert box is not None
    left, width, middle = box["x"], box["width"], box["y"] + box["height"] / 2
    await page.mouse.move(left + width * 0.5, middle)
    await page.mouse.down()
    await page.mouse.move(left + width * 0.6, middle, steps=4)
    await page.mouse.move(left + width * 0.75, middle, steps=4)
    async with page.expect_response(lambda answer: "/history/series/" in answer.url) as response:
        await page.mouse.up()
    found = await (await response.value).json()
    assert abs(found["from"] - T) < 3 * MINUTE  # the dragged half, in any time zone
    assert abs(found["until"] - (T + HOUR)) < 3 * MINUTE
    await expect(page.locator("#resolution")).to_contain_text("as recorded")
    # 10:00 to 11:00 UTC are 15:30 to 16:30 there.
    await expect(page.locator("#chart .xtick text").filter(has_text="16:00").first).to_be_visible()
    # The zoom is in the address: it survives a reload, Back undoes it, and Forward restores it.
    async with page.expect_response(lambda answer: "/history/series/" in answer.url) as response:
        await page.reload()
    reloaded = await (await response.value).json()
    assert [abs(reloaded[end] - found[end]) < SECOND for end in ("from", "until")] == [True, True]
    await page.go_back()
    await expect(page.locator("#resolution")).to_contain_text("one point per minute")
    await expect(page).to_have_url(re.compile(re.escape(f"from={iso(T - 2 * HOUR)}")))
    await page.go_forward()
    await expect(page.locator("#resolution")).to_contain_text("as recorded")


async def test_charts_of_a_fixed_range_fit_a_resized_window(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers")
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.goto(f"/history/queues/default/orders/?{WHOLE}")
    for width, height in ((1440, 900), (1440, 1600), (1000, 900), (390, 844), (1440, 900)):
        await page.set_viewport_size({"width": width, "height": height})
        for chart, least in (("#chart", 400), ("#rates", 220)):
            fits = """([chart, least]) => {
                const [outer, inner] = [chart, `${chart} .main-svg`].map((one) => document.querySelector(one));
                if (!inner) return false;
                const [box, svg] = [outer.getBoundingClientRect(), inner.getBoundingClientRect()];
                return svg.height >= least && box.height >= svg.height && Math.abs(box.width - svg.width) < 40;
            }"""
            await page.wait_for_function(fits, arg=[chart, least])


async def test_incident_shows_the_depth_of_a_queue_that_was_not_overfull(people: People, url: str) -> None:
    write(url, "coverage", [coverage(T, T + HOUR)])
    write(url, "samples", [sample(T + m * MINUTE, m) for m in range(60)])
    write(url, "events", [event(T, "queue-created", 1, **QUEUE)])
    write(url, "episodes", [episode(T, T + MINUTE, "another")])
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/incident/?{WHOLE}&broker=local&virtualhost=default&queue=orders")
    await expect(page.locator("#charts .chart .main-svg").first).to_be_visible()
    await expect(page.locator("#charts")).not_to_contain_text("No data in this range")


async def test_incident_lists_events_in_order_with_operator_and_reason(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/incident/?{WHOLE}&broker=local&virtualhost=default&queue=orders")
    lines = page.locator("#timeline li")
    await expect(lines).to_contain_text(
        ["Queue overfull", "Producer blocked", "Queue underfull", "Policy changed", "Producers stopped"]
    )
    await expect(lines.nth(1)).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(lines.nth(3)).to_contain_text("Capacity messages: 500 → 1,000")
    await expect(lines.nth(4)).to_contain_text("olga")
    await expect(lines.nth(4)).to_contain_text("“deployment”")
    await expect(page.locator("#charts .chart .legend")).to_contain_text("Stopped by an operator")
    await page.locator(".chip", has_text="Producers").click()
    await expect(lines).to_have_count(4)
    assert "group=" in page.url


async def test_more_events_of_an_incident_follow_without_a_gap_however_often_the_button_is_clicked(
    people: People, url: str
) -> None:
    people.expected += ["status of 404"]  # of the chart: there are no samples
    write(url, "coverage", [coverage(T, T + HOUR)])
    write(
        url,
        "events",
        [event(T + n * SECOND, "queue-overfull", n + 1, **QUEUE, text=f"QUE-1003 : {n}.") for n in range(450)],
    )
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/incident/?{WHOLE}&broker=local&virtualhost=default&queue=orders")
    lines, more = page.locator("#timeline li"), page.locator("#more")
    await expect(lines).to_have_count(200)
    await more.evaluate("(button) => { button.click(); button.click(); }")
    await expect(lines).to_have_count(400)
    await more.click()
    await expect(lines).to_have_count(450)
    await expect(more).to_be_hidden()
    assert len(set(await lines.all_text_contents())) == 450


def spoil(url: str, table: str) -> None:
    for path in Path(table_url(url, table)).rglob("*.parquet"):
        path.write_bytes(b"broken")


def failed_run(error: str) -> None:
    began = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=30)
    HistoryRun.objects.create(
        holder="host:7:1", started=began, finished=began + dt.timedelta(seconds=3), step="starting Spark", error=error
    )
    connections.close_all()


def went_well(url: str) -> None:
    began = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=10)
    HistoryRun.objects.create(
        holder="host:7:1",
        started=began,
        finished=began + dt.timedelta(seconds=3),
        files=2,
        rows={"events": 3, "samples": 1200},
        seconds={"landing": 0.4, "minutes": 1.25},
        newest=began,
        lag_ms=7000,
    )
    connections.close_all()
    Landing(url).publish("coverage", table("coverage", Story("local").watch(0, 1).rows["coverage"]), "recorder~local~1")


async def test_failed_pipeline_is_shown_on_history_pages_and_the_status_page_shows_the_remedy(
    people: People, recorded_hour: str
) -> None:
    await asyncio.to_thread(failed_run, "NoJava: Spark needs Java 17 or newer")
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/?{WHOLE}")
    await expect(page.locator("#pipeline")).to_contain_text("The last run failed while starting Spark: NoJava")
    await page.locator("#pipeline a").click()
    first = page.locator("#findings .condition").first
    await expect(first).to_contain_text("NoJava")
    await expect(first).to_contain_text("Install Java 17 or newer")
    await expect(page.locator("#condition")).to_have_text("Action required")
    await expect(page.locator("#failures tr")).to_contain_text(["Starting Spark"])
    await expect(page.locator("#actions")).to_have_count(0)  # a viewer does not run it
    await asyncio.to_thread(went_well, recorded_hour)
    await expect(page.locator("#condition")).to_have_text("OK")  # the page refreshes
    await expect(page.locator("#findings")).to_be_hidden()
    await expect(page.locator("#last")).to_contain_text("3 events, 1,200 samples in 2 files")
    await expect(page.locator("#last")).to_contain_text("7 s")
    await expect(page.locator("#steps .ranked")).to_contain_text(["Landing", "Minutes"])
    await expect(page.locator("#brokers tr")).to_contain_text(["recording"])
    await expect(page.locator("#tables tr").filter(has_text="minutes")).to_contain_text("50")


async def test_status_page_states_when_and_why_the_next_run_is_due_and_the_last_gap(people: People, url: str) -> None:
    now = time.time_ns() // 1_000_000
    rows = Story("local").watch(0, 1).rows["coverage"]
    Landing(url).publish("coverage", table("coverage", rows), recorder_file("local", time.time_ns()))
    write(url, "coverage", [coverage(now - HOUR, now - 20 * MINUTE), coverage(now - 11 * MINUTE, now)])
    page = await people.page("ada", "viewers")
    await page.goto("/history/status/")
    await expect(page.locator("#now")).to_contain_text(
        re.compile(r"Next run(in \d+ \w+.*|now)at the end of the recorded hour; until then charts have the open hour")
    )
    await expect(page.locator("#now")).not_to_contain_text("[object")
    gap = page.locator("#brokers [data-label='Last gap']")
    await expect(gap).to_have_text(re.compile(r"\d\d:\d\d.* . .*\d\d:\d\d.*no recorder was connected to the broker"))


async def test_status_page_during_a_run_states_what_follows(people: People) -> None:
    now = time.time_ns() // 1_000_000
    run: dict[str, Any] = {"id": 1, "work": "run", "broker": "local", "state": "running", "holder": "here:7"}
    run |= {"started": now - 8000, "finished": None, "step": "starting Spark", "files": 0, "rows": {}, "seconds": {}}
    run |= {"newest": None, "lag_ms": None, "error": ""}
    request = {"work": "advise", "state": "queued", "requested_by": "olga", "requested": now, "attempts": 0}
    request |= {"started": None, "finished": None, "error": ""}
    due = {"broker": "local", "files": 2, "oldest": now - MINUTE, "at": now - 1000, "reason": "late"}

    async def during_a_run(route: Route) -> None:
        answer = await route.fetch()
        status = await answer.json() | {"running": run, "requests": [request], "next_runs": [due]}
        for job in status["maintenance"]:
            job["request"] = request if job["work"] == "advise" else None
        await route.fulfill(response=answer, json=status)

    page = await people.page("ada", "viewers")
    await page.route("**/api/v1/history/status/", during_a_run)
    await page.goto("/history/status/")
    now_card = page.locator("#now")
    await expect(now_card).to_contain_text("Pipeline: Starting Spark for")
    await expect(now_card).to_contain_text("Next runafter the current run")
    await expect(now_card).to_contain_text("Sparkstarting")
    await expect(now_card).to_contain_text("Recommendations: after the current run")
    jobs = page.locator("#maintenance")
    await expect(jobs).to_contain_text(
        re.compile(r"Queued; starts after the current run\. Requested by olga at \d\d:\d\d:\d\d\.")
    )


async def test_operator_runs_the_pipeline_now(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: sent.append(name))
    page = await people.page("olga")
    await page.goto("/history/status/")
    await expect(page.locator("#findings")).to_contain_text("headgate recorder")
    await page.get_by_role("button", name="Run now").click()
    await expect(page.locator("#toasts")).to_contain_text("Queued; starts shortly")
    assert sent == ["history.run"]


async def test_notice_about_the_pipeline_does_not_move_what_is_shown_below(people: People, recorded_hour: str) -> None:
    page = await people.page("ada", "viewers")
    await page.clock.install()
    await page.clock.pause_at(dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))  # however slow this machine: no time-out
    order: list[str] = []
    page.on("response", lambda answer: order.append("status") if "/history/status/" in answer.url else None)
    page.on("request", lambda sent: order.append("charts") if "/history/top/" in sent.url else None)
    await page.goto(f"/history/?{WHOLE}")
    await expect(page.locator("#top-queues a")).to_be_visible()
    await expect(page.locator("#pipeline")).to_be_visible()
    assert order[0] == "status"


async def test_unreadable_table_is_an_error_only_in_its_part_of_the_page(people: People, recorded_hour: str) -> None:
    people.expected.append("503")  # Chromium logs the failed requests
    spoil(recorded_hour, "minutes")
    page = await people.page("ada", "viewers")
    await page.goto(f"/history/?{WHOLE}")
    await expect(page.locator("#top-queues .trouble")).to_contain_text("Loading failed.")
    await expect(page.locator(".episodes-table tbody tr")).to_have_count(2)  # these are in another table
    await expect(page.locator("#top-queues").get_by_role("button", name="Try again")).to_be_visible()
