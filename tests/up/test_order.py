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
        self.shown = ""

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
