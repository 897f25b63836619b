"""The command that fuzzes the broker: a short run passes, its inputs follow from the seed, and it detects a bug."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from brokers.amqp.incoming_link import IncomingLink
from tests.amqp.broker_thread import BrokerThread
from tests.faults import fuzz, mutation, recordings
from tests.faults.fuzz import Run, plan, play


@pytest.mark.timeout(300)
async def test_a_broker_takes_mutated_conversations_and_gives_all_back(tmp_path: Path) -> None:
    run = Run("suite", inputs=1500)
    await run.go(tmp_path, chapter=800)
    assert run.count["inputs"] >= 1500
    assert run.count["messages of the calm client"] > 0


def test_the_same_seed_and_number_give_the_same_inputs() -> None:
    for number in range(40):
        assert plan("s", number) == plan("s", number)
    assert plan("s", 1) != plan("t", 1)
    assert {plan("s", number).name for number in range(200)} == set(recordings.read_all())


def test_recordings_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    data = b"AMQP\x00\x01\x00\x00" + b"\x00\x00\x00\x30\x02" + bytes(20) + b"x" * 23
    recordings.write("odd", "A remark.", data)
    assert recordings.read(tmp_path / "odd.hex") == [data[:8], data[8:]]


def test_values_are_parsed_and_encoded_back() -> None:
    frames = [each for some in recordings.read_all().values() for each in some]
    parsed = [(each, mutation.parsed(each)) for each in frames if each[:4] != b"AMQP" and len(each) > 8]
    assert len(parsed) > 150
    for frame, parts in parsed:
        assert parts is not None, frame.hex()
        again = mutation.parsed(mutation.framed(parts.head, mutation.encode(parts.body) + parts.payload))
        assert again is not None
        assert (again.body, again.payload) == (parts.body, parts.payload)


def test_most_mutated_frames_are_others_and_no_mutation_fails() -> None:
    frames = [each for some in recordings.read_all().values() for each in some]
    mutator = mutation.Mutator(random.Random(1), frames)
    changed = sum(mutator.mutated(frame) != frame for frame in frames * 30)
    assert changed > 25 * len(frames)


async def test_internal_error_of_the_broker_is_reported_with_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: IncomingLink, delivery: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(IncomingLink, "receive", fail)
    planned = next(p for n in range(100) if (p := plan("s", n)).name == "work" and len(p.prefix) > 7)
    with BrokerThread(tmp_path / "broker") as broker:
        frames = [each.replace(b"\xa1\x04fuzz", b"\xa1\x04defa") for each in planned.prefix]
        played = await play(broker.port, fuzz.Plan("work", frames, planned.inputs, 0, "half"))
    assert f"connection from 127.0.0.1:{played.port} closed after an internal error" in caplog.text
