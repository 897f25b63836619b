"""The history over HTTP: figures, time without data, errors that name the parameter, exports."""

from __future__ import annotations

import csv
import datetime as dt
import io
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from rest_framework.test import APIClient

from console.access.models import RoleGrant
from console.api.history_downloads import download
from console.audit.models import AuditEntry
from console.history.storage.layout import table_url
from console.permissions.rights import Role
from tests.console.recorded_hour import BASE, T, query
from tests.console.recorded_hour import recorded_hour as recorded_hour  # noqa: PLC0414 -- a fixture
from tests.console.recorded_hour import url as url  # noqa: PLC0414 -- a fixture
from tests.history.delta import (
    DAY,
    HOUR,
    MINUTE,
    coverage,
    episode,
    event,
    rollup,
    write,
)
from tests.history.rows import Story, land

pytestmark = pytest.mark.django_db

# -- nothing, and broken tables -----------------------------------------------------------------------------------


def test_signed_out_is_refused(recorded_hour: str) -> None:
    assert APIClient().get(BASE).status_code == 401
    assert APIClient().get(f"{BASE}episodes/file/").status_code == 401


def test_missing_tables_differ_from_an_empty_range(url: str, as_viewer: APIClient) -> None:
    known = as_viewer.get(BASE).json()
    assert (known["recorded"], known["landed"], known["brokers"]) == (False, False, [])
    for what in ("top", "heat", "episodes", "events", "queues"):
        assert "no table" in query(as_viewer, what, 404)["detail"]


def test_blocked_producer_time_is_that_within_the_range_and_recorded(recorded_hour: str, as_viewer: APIClient) -> None:
    """Of blocks that begin before the range, end after it, last through a gap, are ongoing, or are of others."""

    def hold(start: int, end: int | None, producer: str, queue: str = "orders", broker: str = "local") -> Any:
        times = {"start": T + start * MINUTE, "end": None if end is None else T + end * MINUTE}
        return {"broker": broker, "virtualhost": "default", "queue": queue, "producer": producer, **times}

    write(
        recorded_hour,
        "holds",
        [
            hold(-45 * 24 * 60, 11, "a"),
            hold(10, 12, "b"),
            hold(38, 47, "c"),
            hold(58, None, "d"),
            hold(0, 60, "e", "invoices"),
            hold(0, 60, "f", broker="other"),
        ],
    )

    def blocked(begin: float, end: float) -> Any:
        given = {"queue": "orders", "from": int(T + begin * MINUTE), "until": int(T + end * MINUTE)}
        return query(as_viewer, "series", virtualhost="default", broker="local", **given)["total_blocked_ms"]

    assert blocked(10.5, 11.5) == 1.5 * MINUTE
    assert blocked(0, 60) == (11 + 2 + 2 + 2 + 2) * MINUTE
    assert blocked(39, 46) == 2 * MINUTE, "five minutes of it were not recorded"
    assert blocked(41, 44) == 0
    assert blocked(30, 35) == 0
    assert blocked(58.5, 120) == 1.5 * MINUTE, "nothing is known after the last recorded moment"
    old = T - 500 * DAY
    write(recorded_hour, "hours", [rollup(old, blocked_ms=MINUTE), rollup(old + HOUR, blocked_ms=None)])
    given = {"queue": "orders", "virtualhost": "default", "broker": "local", "from": old, "until": old + 2 * HOUR}
    assert query(as_viewer, "series", resolution="hour", **given)["total_blocked_ms"] == MINUTE, "blocks are deleted"
    assert query(as_viewer, "series", **(given | {"queue": "none"}))["total_blocked_ms"] is None


def test_unprocessed_landing_files_differ_from_no_recording(url: str, as_viewer: APIClient) -> None:
    story = Story("local").watch(0, 60)
    land(url, story.rows)
    known = as_viewer.get(BASE).json()
    assert (known["recorded"], known["landed"]) == (False, True)


def test_unreadable_table_is_an_error_that_names_it(recorded_hour: str, as_viewer: APIClient) -> None:
    assert query(as_viewer, "episodes")["count"] == 5
    log = Path(table_url(recorded_hour, "episodes")) / "_delta_log"
    (log / f"{len(list(log.glob('*.json'))):020}.json").write_text("{not json")
    from console.api.history_reading import whole_history

    whole_history()._tables["episodes"]._refreshed_at = float("-inf")  # the list of files is cached for a second
    assert "episodes" in query(as_viewer, "episodes", 503)["detail"]


def test_missing_file_is_an_error_with_a_message(recorded_hour: str, as_viewer: APIClient) -> None:
    for path in Path(table_url(recorded_hour, "minutes")).rglob("*.parquet"):
        path.unlink()
    assert "cannot be read" in query(as_viewer, "top", 503)["detail"]


def test_recorded_brokers_have_their_first_and_last_moment(recorded_hour: str, as_viewer: APIClient) -> None:
    write(recorded_hour, "coverage", [coverage(T - DAY, T - DAY + HOUR, "old-log", source="log")])
    brokers = {one["broker"]: one for one in as_viewer.get(BASE).json()["brokers"]}
    assert (brokers["local"]["first"], brokers["local"]["last"], brokers["local"]["imported"]) == (T, T + HOUR, False)
    assert brokers["old-log"]["imported"] is True


# -- series -------------------------------------------------------------------------------------------------------


def test_raw_series_extends_each_sample_and_has_a_gap_where_nothing_was_recorded(
    recorded_hour: str, as_viewer: APIClient
) -> None:
    found = query(as_viewer, "series", queue="orders")
    assert (found["resolution"], found["broker"], found["virtualhost"]) == ("raw", "local", "default")
    assert found["unwatched"] == [[T + 40 * MINUTE, T + 45 * MINUTE]]
    points = list(zip(found["at"], found["messages"], strict=True))
    assert points[0] == (T, 0)
    gap = [point for point in points if T + 40 * MINUTE <= point[0] < T + 45 * MINUTE]
    assert gap == [(T + 40 * MINUTE, 597), (T + 40 * MINUTE, None)]  # the last sample applies up to there
    assert (T + 10 * MINUTE, 1001) in points  # an event's
    assert found["capacity_messages"][points.index((T + 10 * MINUTE, 1001))] == 1000  # the last sample's


@pytest.mark.parametrize("resolution", ["minute", "hour", "day"])
def test_gap_shorter_than_a_step_is_named_in_every_resolution(
    recorded_hour: str, as_viewer: APIClient, resolution: str
) -> None:
    found = query(as_viewer, "series", queue="orders", resolution=resolution)
    assert found["unwatched"] == [[T + 40 * MINUTE, T + 45 * MINUTE]]


def test_ongoing_episode_is_known_up_to_the_last_recorded_moment(recorded_hour: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "episodes", queue="orders", kind="overfull")["results"]
    assert {(each["end"], each["known_until"]) for each in found} == {
        (T + 12 * MINUTE, T + 12 * MINUTE),
        (None, T + HOUR),
    }


def test_heat_map_names_the_unrecorded_time_of_each_broker(recorded_hour: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "heat")
    assert found["queues"]
    assert found["unwatched"] == {"local": [[T + 40 * MINUTE, T + 45 * MINUTE]]}


def test_log_entry_applies_only_at_its_moment(url: str, as_viewer: APIClient) -> None:
    write(url, "coverage", [coverage(T, T + HOUR, source="log")])
    about = {"queue": "orders", "source": "log"}
    write(url, "events", [event(T + m * MINUTE, "queue-overfull", m, **about, depth_messages=5) for m in (1, 2)])
    found = query(as_viewer, "series", queue="orders")
    assert found["messages"] == [5, None, 5, None]
    assert found["continuous"] == [False, True, False, True]
    assert found["held"] == found["continuous"]  # deprecated name
    assert found["unwatched"] == []


def test_rolled_up_series_has_null_where_nothing_was_recorded(recorded_hour: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "series", queue="orders", resolution="minute")
    assert found["step_ms"] == MINUTE
    assert found["messages"][39:46] == [39.0, None, None, None, None, None, 45.0]
    assert found["overfull_ms"][9:13] == [0, MINUTE, MINUTE, 0]


@pytest.mark.parametrize(
    ("span", "resolution"), [(15 * MINUTE, "raw"), (24 * HOUR, "minute"), (30 * DAY, "hour"), (365 * DAY, "day")]
)
def test_length_of_the_range_selects_the_resolution(
    recorded_hour: str, as_viewer: APIClient, span: int, resolution: str
) -> None:
    for name, step in (("hours", HOUR), ("days", DAY)):
        write(recorded_hour, name, [rollup(T - T % step, messages_mean=4.0)])
    found = query(as_viewer, "series", queue="orders", **{"from": T + HOUR - span, "until": T + HOUR})
    assert found["resolution"] == resolution
    assert found["known"] > 0
    assert len(found["at"]) <= 2200


def test_range_beyond_the_retention_of_samples_has_minutes(url: str, as_viewer: APIClient) -> None:
    write(url, "coverage", [coverage(T, T + HOUR)])
    write(url, "minutes", [rollup(T, messages_mean=4.0)])
    assert query(as_viewer, "series", queue="orders")["resolution"] == "minute"
    assert query(as_viewer, "series", queue="orders", resolution="raw")["known"] == 0


def test_unknown_queue_and_unrecorded_range_have_no_data_and_no_error(recorded_hour: str, as_viewer: APIClient) -> None:
    assert query(as_viewer, "series", queue="nowhere")["known"] == 0
    begin = T - 9 * DAY
    before = query(as_viewer, "series", queue="orders", **{"from": begin, "until": begin + HOUR})
    assert (before["known"], before["unwatched"]) == (0, [[begin, begin + HOUR]])


# -- parameters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "parameters", "field"),
    [
        ("series", {}, "queue"),
        ("series", {"queue": "orders", "from": "yesterday"}, "from"),
        ("series", {"queue": "orders", "from": "2026-03-14T12:00:00"}, "from"),
        ("series", {"queue": "orders", "until": T - 1}, "from"),
        ("series", {"queue": "orders", "from": T + 90 * DAY, "until": T + 91 * DAY}, "from"),
        ("series", {"queue": "orders", "from": 0}, "from"),
        ("series", {"queue": "orders", "from": "-5"}, "from"),
        ("series", {"queue": "orders", "resolution": "year"}, "resolution"),
        ("series", {"queue": "orders", "resolution": "raw", "from": T - 30 * DAY}, "resolution"),
        ("top", {"of": "cats"}, "of"),
        ("top", {"measure": "size"}, "measure"),
        ("top", {"count": 0}, "count"),
        ("heat", {"count": 101}, "count"),
        ("episodes", {"sort": "colour"}, "sort"),
        ("episodes", {"kind": "odd"}, "kind"),
        ("episodes", {"page_size": 501}, "page_size"),
        ("events", {"group": "odd"}, "group"),
        ("events", {"order": "random"}, "order"),
        ("episodes/file", {"as": "exe"}, "as"),
    ],
)
def test_invalid_parameter_is_refused_by_name(
    recorded_hour: str, as_viewer: APIClient, what: str, parameters: dict[str, Any], field: str
) -> None:
    assert list(query(as_viewer, what, 400, **parameters)) == [field]


def test_time_with_a_zone_is_accepted(recorded_hour: str, as_viewer: APIClient) -> None:
    iso = dt.datetime.fromtimestamp(T / 1000, dt.timezone(dt.timedelta(hours=2))).isoformat()
    found = query(as_viewer, "series", queue="orders", **{"from": iso})
    assert found["from"] == T


def test_quotes_and_braces_in_names_are_data(recorded_hour: str, as_viewer: APIClient) -> None:
    assert query(as_viewer, "series", queue="x' OR '1'='1")["known"] == 0
    assert query(as_viewer, "episodes", search="%' OR 1=1 --")["count"] == 0
    assert query(as_viewer, "episodes", search="{minutes}")["count"] == 0


# -- top lists and heat map ---------------------------------------------------------------------------------------


def test_top_lists_the_most_blocked_queues_and_producers(recorded_hour: str, as_viewer: APIClient) -> None:
    rows = query(as_viewer, "top")["rows"]
    assert [(row["name"], row["blocked_ms"]) for row in rows] == [("orders", 24 * MINUTE), ("invoices", MINUTE)]
    assert [row["name"] for row in query(as_viewer, "top", count=1)["rows"]] == ["orders"]
    [producer] = query(as_viewer, "top", of="producers")["rows"]
    assert (producer["name"], producer["queues"], producer["blocks"]) == ("shop link-1", "orders", 1)
    assert query(as_viewer, "top", measure="stopped")["rows"] == []
    assert query(as_viewer, "top", broker="other")["rows"] == []


def test_heat_map_has_zero_for_recorded_and_null_for_unrecorded_time(recorded_hour: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "heat")
    assert found["bucket_ms"] == MINUTE
    assert [queue["name"] for queue in found["queues"]] == ["orders", "invoices"]
    orders = found["values"][0]
    assert orders[9:13] == [0, 2 * MINUTE, 2 * MINUTE, 0]
    assert orders[39:46] == [0, None, None, None, None, None, 0]


# -- totals of brokers --------------------------------------------------------------------------------------------


@pytest.fixture
def two_brokers(url: str) -> str:
    """Ten minutes of the broker `local`, with two virtual hosts, and the last five of `other`."""
    other = coverage(T + 5 * MINUTE, T + 10 * MINUTE, broker="other")
    write(url, "coverage", [coverage(T, T + 10 * MINUTE), other])
    values = {"messages_in": 120, "messages_out": 60, "messages_mean": 10.0, "bytes_mean": 1000.0}
    rows = []
    for m in range(10):
        for host in ("default", "blue"):
            at = T + m * MINUTE
            rows.append(rollup(at, host, "virtualhost", virtualhost=host, blocked_ms=MINUTE if m == 3 else 0, **values))
            rows.append(rollup(at, "a queue", virtualhost=host, **values))  # part of the virtual host's sums
        if m >= 5:
            unknown = {"messages_in": None, "messages_out": None}
            rows.append(
                rollup(T + m * MINUTE, "default", "virtualhost", broker="other", blocked_ms=0, **(values | unknown))
            )
    write(url, "minutes", rows)
    return url


def test_totals_are_sums_over_virtual_hosts_and_brokers(two_brokers: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "totals", until=T + 10 * MINUTE)
    assert (found["step_ms"], len(found["at"])) == (MINUTE, 10)
    assert found["rate_in"] == [4.0] * 10  # that of the other broker is not known
    assert found["rate_out"] == [2.0] * 10
    assert found["messages"] == [20.0] * 5 + [30.0] * 5
    assert found["blocked_ms"] == [0, 0, 0, 2 * MINUTE, 0, 0, 0, 0, 0, 0]
    assert found["unwatched"] == {"local": [], "other": [[T, T + 5 * MINUTE]]}


def test_totals_of_unrecorded_time_are_unknown_and_not_zero(two_brokers: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "totals", until=T + 10 * MINUTE, broker="other")
    assert found["rate_in"] == [None] * 10
    assert found["messages"] == [None] * 5 + [10.0] * 5
    assert found["blocked_ms"] == [None] * 5 + [0] * 5
    nothing = query(as_viewer, "totals", until=T + 10 * MINUTE, broker="nowhere")
    assert nothing["messages"] == [None] * 10
    assert nothing["unwatched"] == {"nowhere": [[T, T + 10 * MINUTE]]}


def test_totals_are_unknown_before_anything_is_recorded(url: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "totals", until=T + 2 * MINUTE, broker="local")
    assert (found["messages"], found["blocked_ms"]) == ([None, None], [None, None])
    assert found["unwatched"] == {"local": [[T, T + 2 * MINUTE]]}


def test_totals_of_a_user_of_one_virtual_host_have_no_other(two_brokers: str) -> None:
    user = User.objects.create_user("nina", password="a long password")
    RoleGrant.objects.create(user=user, role=Role.VIEWER.value, broker="local", virtualhost="blue")
    client = APIClient()
    client.force_login(user)
    found = query(client, "totals", until=T + 10 * MINUTE)
    assert found["messages"] == [10.0] * 10
    assert found["blocked_ms"][3] == MINUTE
    assert set(found["unwatched"]) == {"local"}


# -- episodes -----------------------------------------------------------------------------------------------------


def test_episodes_are_searched_sorted_and_paged(recorded_hour: str, as_viewer: APIClient) -> None:
    assert query(as_viewer, "episodes", search="LEAK")["results"][0]["id"] == "stop"
    by_peak = query(as_viewer, "episodes", kind="overfull", sort="peak_messages")["results"]
    assert by_peak[0]["queue"] == "invoices"
    second = query(as_viewer, "episodes", sort="start", page=2, page_size=2)
    assert (second["count"], [one["id"] for one in second["results"]]) == (5, ["stop", "stop-all"])
    assert query(as_viewer, "episodes", page=9)["results"] == []
    assert query(as_viewer, "episodes", page=9)["count"] == 5


def test_ongoing_episode_has_no_end_and_sorts_as_longest(recorded_hour: str, as_viewer: APIClient) -> None:
    first = query(as_viewer, "episodes", sort="-duration")["results"][0]
    assert (first["start"], first["end"], first["duration_ms"]) == (T + 50 * MINUTE, None, None)


def test_order_by_duration_counts_an_ongoing_episode_up_to_its_last_known_moment(
    recorded_hour: str, as_viewer: APIClient
) -> None:
    write(recorded_hour, "episodes", [episode(T + MINUTE, T + 12 * MINUTE, "longest", id="longest")])
    longest, ongoing, *_ = query(as_viewer, "episodes", sort="-duration")["results"]
    assert (longest["id"], longest["duration_ms"]) == ("longest", 11 * MINUTE)
    assert ongoing["known_until"] - ongoing["start"] == 10 * MINUTE  # days ago: recorded for an hour only
    shortest_first = query(as_viewer, "episodes", sort="duration")["results"]
    assert shortest_first[-2]["id"] == ongoing["id"]


def test_episodes_of_a_queue_include_the_stops_that_covered_it(recorded_hour: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "episodes", queue="orders", sort="start")["results"]
    assert [one["kind"] for one in found] == ["overfull", "stopped", "overfull"]
    assert found[1]["id"] == "stop-all"  # ord.> does not cover orders


def test_csv_export_has_times_and_escapes_formulas(recorded_hour: str, as_viewer: APIClient) -> None:
    answer = as_viewer.get(f"{BASE}episodes/file/", {"from": T, "until": T + HOUR, "sort": "start"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert 'filename="episodes.csv"' in answer.headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert len(rows) == 5
    assert rows[0]["start"].startswith(dt.datetime.fromtimestamp(T / 1000, dt.UTC).strftime("%Y-%m-%d %H:10"))
    assert rows[3]["actor"] == "'=1+1"


def test_parquet_export_has_the_same_rows(recorded_hour: str, as_viewer: APIClient) -> None:
    answer = as_viewer.get(f"{BASE}episodes/file/", {"from": T, "until": T + HOUR, "as": "parquet", "search": "orders"})
    table = pq.read_table(io.BytesIO(b"".join(answer.streaming_content)))
    assert table.column("queue").to_pylist() == ["orders", "orders"]


async def test_export_is_streamed_under_asgi() -> None:
    schema = pa.schema([("queue", pa.string())])
    batches = [pa.RecordBatch.from_pydict({"queue": [name]}, schema=schema) for name in ("a", "b")]
    request = ASGIRequest({"type": "http", "method": "GET", "path": "/", "headers": []}, io.BytesIO())
    answer = download(request, pa.RecordBatchReader.from_batches(schema, batches), "csv", "episodes")
    assert answer.is_async
    parts = [part async for part in answer.streaming_content]
    assert parts[0] == b'"queue"\n"a"\n'
    assert parts[1] == b'"b"\n'


# -- events -------------------------------------------------------------------------------------------------------


def test_events_of_a_queue_are_in_order_and_include_changes_of_its_scopes(
    recorded_hour: str, as_viewer: APIClient
) -> None:
    found = query(as_viewer, "events", queue="orders")
    assert [one["number"] for one in found["results"]] == [1, 2, 3, 4, 6]
    assert found["groups"] == {"flow": 2, "producers": 1, "operators": 2, "broker": 0}
    assert query(as_viewer, "events")["count"] == 8
    newest = query(as_viewer, "events", order="descending", page_size=1)
    assert (newest["count"], newest["results"][0]["number"]) == (8, 8)


def test_group_filters_events_and_counts_cover_all_groups(recorded_hour: str, as_viewer: APIClient) -> None:
    found = query(as_viewer, "events", group="producers")
    assert (found["count"], found["groups"]["flow"]) == (1, 2)
    assert [one["kind"] for one in found["results"]] == ["producer-blocked"]


def test_edit_has_its_values_and_the_reason_from_the_audit_trail(recorded_hour: str, as_viewer: APIClient) -> None:
    for user, reason in (("olga", "the consumers need an hour"), ("otto", "no")):
        row = AuditEntry(
            user_name=user,
            broker="local",
            object="type=Queue,virtualhost=default,name=orders",
            operation="update",
            outcome="done",
            reason=reason,
        )
        at = dt.datetime.fromtimestamp((T + 15 * MINUTE + 800) / 1000, dt.UTC)
        with mock.patch("django.utils.timezone.now", return_value=at):  # audit rows cannot be changed
            row.save()
    [edit] = query(as_viewer, "events", kind="policy-changed", queue="orders")["results"]
    assert (edit["before"], edit["after"]) == ({"capacity_messages": 500}, {"capacity_messages": 1000})
    assert edit["reason"] == "the consumers need an hour"
