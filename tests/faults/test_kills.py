"""The command that kills the broker many times: a short run passes, and it detects a broken promise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.faults import kills
from tests.faults.kills import Broken, Epoch


@pytest.mark.timeout(300)
def test_short_run_keeps_all_promises_and_resumes_at_the_end_of_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "EPOCH_KILLS", 4)
    log = tmp_path / "kills.jsonl"
    command = ["--seed", "short", "--log", str(log), "--kills"]
    assert kills.main([*command, "4"]) == 0
    assert kills.main([*command, "8"]) == 0
    epochs = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(epoch["seed"], epoch["kills"]) for epoch in epochs] == [("short:0", 4), ("short:1", 4)]
    total = kills.add_up(kills.logged([log, log]).values())
    assert (total["kills"], total["sent"]) == (8, sum(epoch["sent"] for epoch in epochs))
    capsys.readouterr()
    kills.main(["--sum", str(log)])
    assert f"{'kills':32} {8:12}\n" in capsys.readouterr().out


@pytest.mark.timeout(300)
def test_store_restored_to_an_earlier_state_is_detected(tmp_path: Path) -> None:
    class Forgetful(Epoch):
        def _round(self, pid: int, port: int) -> None:
            """Make the disk lose a round's writes."""
            shutil.rmtree(tmp_path / "earlier", ignore_errors=True)
            shutil.copytree(self.data, tmp_path / "earlier")
            super()._round(pid, port)
            shutil.rmtree(self.data / "messages")
            shutil.copytree(tmp_path / "earlier" / "messages", self.data / "messages")

    with pytest.raises(Broken, match=r"gone|there again|is there by half|is there still"):
        Forgetful(tmp_path / "data", "forgetful", kills=1000).run()
