"""Lists of queues that change while they are read, and events that are lost: nothing is missed silently."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from console.cli.client import Client
from console.cli.main import cli

ENV = {"HEADGATE_URL": "http://127.0.0.1:1", "HEADGATE_TOKEN": "headgate_x", "XDG_CONFIG_HOME": "/nonexistent"}


class Server:
    """Answers as `/api/v1/queues/` does, for queues that `change` changes after each answer."""

    def __init__(self, count: int) -> None:
        self.rows = {f"q{n:05}": self.row(f"q{n:05}", n) for n in range(count)}
        self.change: Callable[[], None] = lambda: None
        self.sorts: list[str] = []

    def row(self, name: str, depth: int | None) -> dict[str, Any]:
        return {
            "object": f"type=Queue,virtualhost=default,name={name}",
            "virtualhost": "default",
            "name": name,
            "depth_messages": depth,
            "blocked_producers": 0,
        }

    def request(self, method: str, path: str, query: dict[str, Any], body: Any) -> Any:
        assert (method, path) == ("GET", "queues/")
        self.sorts.append(query["sort"])
        found = sorted(self.rows.values(), key=lambda row: row["name"])
        for word in reversed(query["sort"].split(",")):
            attribute = word.lstrip("-")
            if attribute not in ("virtualhost", "name"):
                found.sort(key=lambda row: -1 if (n := row[attribute]) is None else n, reverse=word.startswith("-"))
        size, number = query["page_size"], query["page"]
        page = {"count": len(found), "results": found[(number - 1) * size : number * size]}
        answer = json.loads(json.dumps(page))
        self.change()
        return answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(1200)
    monkeypatch.setattr(Client, "_request", staticmethod(made.request))
    return made


def listed(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner(env=ENV).invoke(cli, ["list", "--json", *arguments], prog_name="headgate")
    assert result.exit_code == 0, result.output
    return list(json.loads(result.output))


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


def test_queues_that_move_between_pages_are_listed_once_each(server: Server) -> None:
    def rotate() -> None:
        for row in server.rows.values():
            row["depth_messages"] = (row["depth_messages"] + 500) % 1200

    server.change = rotate
    rows = listed()
    assert sorted(names(rows)) == sorted(server.rows)
    depths = [row["depth_messages"] for row in rows]
    assert depths == sorted(depths, reverse=True)


def test_queue_that_is_deleted_meanwhile_hides_no_other(server: Server) -> None:
    gone = iter(["q00003", "q00004"])
    server.change = lambda: server.rows.pop(next(gone, ""), None) and None
    found = names(listed("--sort", "name"))
    assert sorted(found) == sorted(server.rows)
    assert len(server.rows) == 1198


def test_queues_that_are_deleted_at_each_request_hide_no_other(server: Server) -> None:
    server.change = lambda: server.rows.pop(min(server.rows)) and None
    found = names(listed())
    assert len(found) == len(set(found))
    assert set(server.rows) <= set(found)


def test_unknown_values_are_the_lowest_and_names_break_ties(server: Server) -> None:
    for row in server.rows.values():
        row["depth_messages"] = None
    server.rows["q00700"]["depth_messages"] = 0
    assert names(listed())[:3] == ["q00700", "q00000", "q00001"]
    assert names(listed("--sort", "depth_messages"))[-1] == "q00700"


def test_a_limit_of_one_page_is_one_request_in_the_order_of_the_broker(server: Server) -> None:
    assert names(listed("--limit", "2")) == ["q01199", "q01198"]
    assert server.sorts == ["-blocked_producers,-depth_messages"]
    assert names(listed("--limit", "700")) == [f"q{n:05}" for n in range(1199, 499, -1)]


# -- watch ------------------------------------------------------------------------------------------------------------


def event(number: int) -> dict[str, Any]:
    return {"number": number, "at": 0, "kind": "queue-created", "text": "text", "object": "type=Broker",
            "attributes": {}}  # fmt: skip


def answering(monkeypatch: pytest.MonkeyPatch, pages: list[dict[str, Any]]) -> list[int]:
    """Answer requests for events with these pages, one after the other; return the positions that were requested."""
    positions: list[int] = []

    def request(client: Client, method: str, path: str, query: dict[str, Any], body: Any) -> Any:
        positions.append(query["after"])
        return pages[len(positions) - 1]

    monkeypatch.setattr(Client, "_request", request)
    monkeypatch.setattr("console.cli.queries._PAUSE", 0)
    return positions


@pytest.fixture
def gap(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A broker that retains its events from 8 on, and later from 20 on; the positions that were requested."""
    pages = [
        {"newest": 9, "last": 9, "expired_before": 8, "events": [event(8), event(9)]},
        {"newest": 30, "last": 9, "expired_before": 20, "events": []},
        {"newest": 30, "last": 30, "expired_before": None, "events": [event(30)]},
    ]
    return answering(monkeypatch, pages)


def watched(*arguments: str) -> list[str]:
    result = CliRunner(env=ENV).invoke(cli, ["watch", "--after", "3", "-n", "3", *arguments], prog_name="headgate")
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_watch_reports_events_that_are_lost(gap: list[int]) -> None:
    lines = watched()
    assert lines[0] == "! events 4 to 7 are no longer retained by the broker, and not shown"
    assert lines[3] == "! events 10 to 19 are no longer retained by the broker, and not shown"
    assert len(lines) == 5
    assert gap == [3, 9, 19]


def test_watch_reports_lost_events_as_objects(gap: list[int]) -> None:
    found = [json.loads(line) for line in watched("--json")]
    assert [each.get("lost", each.get("number")) for each in found] == [
        {"first": 4, "last": 7}, 8, 9, {"first": 10, "last": 19}, 30
    ]  # fmt: skip


def test_watch_continues_with_a_broker_that_counts_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        {"newest": 2, "last": 2, "expired_before": 1, "events": [event(1), event(2)]},
        {"newest": 3, "last": 3, "expired_before": None, "events": [event(3)]},
    ]
    positions = answering(monkeypatch, pages)
    lines = watched()
    assert lines[0] == "! the broker counts its events from the beginning: those after 3 are lost"
    assert len(lines) == 4
    assert positions == [3, 2]
