"""What the command line prints of brokers that report less: unknown is "-", never 0 and never an error."""

from __future__ import annotations

import pytest

from console.cli import output

KNOWN = {
    "depth_messages": 1200,
    "effective_capacity_messages": 5000,
    "blocked_producers": 0,
    "producers": 3,
    "consumers": 1,
    "rate_in": 1.4,
    "rate_out": 0.0,
}


def printed(capsys: pytest.CaptureFixture[str], **values: object) -> list[str]:
    output.queues([{"virtualhost": "v", "name": "orders", "state": "NORMAL", **values}])
    return capsys.readouterr().out.splitlines()[1].split()


def test_known_numbers_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, **KNOWN) == ["v/orders", "normal", "1,200", "5,000", "0/3", "1", "1", "0"]


@pytest.mark.parametrize("name", KNOWN)
def test_one_unknown_number_leaves_the_others(capsys: pytest.CaptureFixture[str], name: str) -> None:
    cells = printed(capsys, **{**KNOWN, name: None})
    assert len(cells) == 8
    assert sum("-" in cell for cell in cells) == 1


def test_queue_of_which_nothing_is_known_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, state=None) == ["v/orders", "-", "-", "-", "-/-", "-", "-", "-"]
