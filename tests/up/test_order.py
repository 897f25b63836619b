"""The order in which `manage.py up` starts the processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from console.up import main
from console.up.supervisor import Service, Supervisor


class Starts:
    """Stands in for the supervisor, and notes what is started."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.first: list[tuple[str, ...]] = []
        self.shown = ""

    async def run_once(self, service: Service) -> None:
        assert self.names == []
        self.first.append(service.command)

    async def keep(self, service: Service) -> bool:
        self.names.append(service.name)
        return True

    def keep_once(self, needed: Callable[[], bool], service: Service) -> None:
        assert service.name == "adapters"
        assert not needed()

    async def complete(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> str:
        self.names.append(name)
        return ""

    def show(self, text: str) -> None:
        self.shown += text


async def test_recorder_starts_beside_the_console_so_that_the_first_page_has_numbers(tmp_path: Path) -> None:
    starts = Starts()
    options = main._parser().parse_args(["--demo", "--data", str(tmp_path)])
    await main._start(cast(Supervisor, starts), options)
    assert set(starts.names[:2]) == {"broker", "migrate"}
    assert starts.names[2:] == ["recorder", "web", "history", "worker", "beat", "demo", "ensure_admin"]
    assert "Headgate is ready" in starts.shown
    assert starts.first == []


async def test_stores_of_the_release_before_are_converted_before_the_broker_has_a_minute_to_start(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "broker" / "messages"
    folder.mkdir(parents=True)
    (folder / "default-37a8eec1.sqlite3").touch()
    starts = Starts()
    await main._start(cast(Supervisor, starts), main._parser().parse_args(["--data", str(tmp_path)]))
    [command] = starts.first
    assert command[-4:] == ("store", "convert", "--data", str(tmp_path / "broker"))
    assert "broker" in starts.names
