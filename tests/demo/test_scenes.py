"""The demo's script, played by its own clock against queues that are only counted."""

from __future__ import annotations

from collections import Counter

from brokers.demo.clients import Consumer, Producer
from brokers.demo.scenes import MINUTE, QUEUES, cast

DEAD_LETTERS = {policy["dead_letter_queue"] for policy in QUEUES.values() if "dead_letter_queue" in policy}
PICTURE = 800 * 256
LIMITS = {
    name: policy.get("capacity_messages") or policy["capacity_bytes"] // PICTURE for name, policy in QUEUES.items()
}


def play(seconds: float) -> tuple[list[tuple[float, str, int]], list[str]]:
    """(time, queue, depth in messages) for every tenth of a second, with producers that stop at the capacity."""
    said: list[str] = []
    stage = cast(said.append)
    depth: Counter[str] = Counter()
    seen = []
    for tenth in range(int(seconds * 10)):
        stage.advance(0.1)
        for client in stage.clients:
            if not client.wanted:
                continue
            if isinstance(client, Producer):
                depth[client.address] = min(depth[client.address] + client.rate / 10, LIMITS[client.address] + 1)
            else:
                depth[client.address] = max(0, depth[client.address] - client.rate / 10)
        seen += [(tenth / 10, name, depth[name]) for name in QUEUES]
    return seen, said


def test_within_a_minute_each_of_the_three_causes_fills_its_queue_and_it_recovers() -> None:
    seen, _ = play(MINUTE)
    for queue in ("orders", "prices.audit", "images.resize"):
        full = [at for at, name, depth in seen if name == queue and depth > LIMITS[queue]]
        assert full, f"{queue} is never overfull"
        assert full[-1] - full[0] > 5, f"{queue} is overfull too briefly to be seen"
        assert any(name == queue and at > full[-1] and depth < 1 for at, name, depth in seen), f"{queue} stays full"


def test_the_other_queues_never_fill() -> None:
    seen, _ = play(2 * MINUTE)
    healthy = {name for name in QUEUES if name not in ("orders", "prices.audit", "images.resize")}
    assert len(healthy) == 5
    assert max(depth / LIMITS[name] for _, name, depth in seen if name in healthy) < 0.1


def test_the_scenes_repeat_every_minute_with_one_line_for_each_change() -> None:
    _, said = play(3 * MINUTE)
    _, once = play(MINUTE)
    assert len(once) == 6
    assert len(said) == 3 * len(once)
    assert said[:6] == said[6:12] == said[12:]


def test_some_payments_are_rejected_and_their_dead_letters_are_taken_once_a_minute() -> None:
    stage = cast(lambda _line: None)
    [gateway] = [client for client in stage.clients if client.address == "payments" and isinstance(client, Consumer)]
    [clerk] = [client for client in stage.clients if client.address == "payments.declined"]
    arriving = sum(client.rate for client in stage.clients if client.address == "payments" and client is not gateway)
    assert 0 < arriving * MINUTE / gateway.rejected < 500
    there = 0.0
    for _ in range(int(2 * MINUTE * 10)):
        stage.advance(0.1)
        there += 0.1 if clerk.wanted else 0
    assert arriving * 2 * MINUTE / gateway.rejected < clerk.rate * there


def test_every_queue_has_producers_and_a_consumer() -> None:
    stage = cast(lambda _line: None)
    for queue in QUEUES:
        if queue not in DEAD_LETTERS:
            assert any(isinstance(client, Producer) and client.address == queue for client in stage.clients)
        assert any(isinstance(client, Consumer) and client.address == queue for client in stage.clients)
    names = [client.name for client in stage.clients]
    assert len(names) == len(set(names))
