"""Scopes of stops: parsing, containment, covered queues."""

from __future__ import annotations

import subprocess
import sys

import pytest

from console.history.storage.stop_scopes import Scope, covers

QUOTED = 'virtualhost "a b/c" orders.>'


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("broker", Scope()),
        ("broker orders.>", Scope(pattern="orders.>")),
        ("virtualhost default", Scope("default")),
        (QUOTED, Scope("a b/c", pattern="orders.>")),
        ("queue default/a/b c", Scope("default", queue="a/b c")),
        ("exchange default/news", Scope("default", exchange="news")),
        ("", None),
        ("queue default/", None),
        ("exchange default/", None),
        ('virtualhost "a', None),
        ('virtualhost "\\x"', None),
        ("moon base", None),
    ],
)
def test_text_is_parsed_to_its_scope_or_none(text: str, scope: Scope | None) -> None:
    found = Scope.parse(text)
    assert found == scope


@pytest.mark.parametrize(
    ("outer", "inner", "lifts"),
    [
        ("broker", "queue default/a", True),
        ("broker", "exchange default/a", True),
        ("virtualhost default", "queue default/a", True),
        ("virtualhost default", "queue other/a", False),
        ("virtualhost default", "broker", False),
        ("virtualhost default orders.>", "queue default/orders.eu", True),
        ("virtualhost default orders.>", "virtualhost default orders.*", True),
        ("virtualhost default orders.*", "virtualhost default orders.>", False),
        ("queue default/a", "queue default/a", True),
        ("queue default/a", "queue default/b", False),
        ("exchange default/a", "queue default/a", False),
    ],
)
def test_start_lifts_the_stops_that_its_scope_contains(outer: str, inner: str, lifts: bool) -> None:
    one, other = Scope.parse(outer), Scope.parse(inner)
    assert one is not None
    assert other is not None
    assert one.contains(other) is lifts


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("broker", True),
        ("broker orders.>", True),
        ("broker invoices.>", False),
        ("virtualhost default", True),
        ("virtualhost other", False),
        ("virtualhost default orders.*", True),
        ("queue default/orders.eu", True),
        ("queue default/orders", False),
        ("queue other/orders.eu", False),
        ("exchange default/orders.eu", False),
        ("queue default/", False),
        ("nonsense", False),
    ],
)
def test_stop_covers_the_queues_of_its_scope(text: str, covered: bool) -> None:
    assert covers(text, "default", "orders.eu") is covered


def test_module_does_not_import_spark() -> None:
    code = "import sys, console.history.storage.stop_scopes; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
