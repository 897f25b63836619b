"""Guessing passwords: a growing pause after some failures, for one user from one address only."""

from __future__ import annotations

from brokers.amqp.sign_in_attempts import (
    CHECKED,
    FIRST_PAUSE_MS,
    FORGOTTEN_MS,
    FREE,
    FREE_OF_ADDRESS,
    LONGEST_PAUSE_MS,
    MOST,
    SignInAttempts,
)

HERE, THERE = "127.0.0.1", "203.0.113.9"


def failed(attempts: SignInAttempts, count: int, *, address: str = THERE, user: str = "anna", now: int = 0) -> None:
    for _ in range(count):
        attempts.failed(address, user, now)


def test_some_failures_are_free_and_then_the_pause_doubles_up_to_a_limit() -> None:
    attempts = SignInAttempts()
    failed(attempts, FREE - 1, address=HERE)
    assert attempts.wait_ms(HERE, "anna", 0) == 0
    pauses = []
    now = 0
    for _ in range(12):
        attempts.failed(HERE, "anna", now)
        pauses.append(attempts.wait_ms(HERE, "anna", now))
        assert attempts.wait_ms(HERE, "anna", now + pauses[-1] - 1) == 1
        now += pauses[-1]
        assert attempts.wait_ms(HERE, "anna", now) == 0
    assert pauses[:4] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS, 8 * FIRST_PAUSE_MS]
    assert pauses[-1] == LONGEST_PAUSE_MS
    failed(attempts, 1000, address=HERE, now=now)
    assert attempts.wait_ms(HERE, "anna", now) == LONGEST_PAUSE_MS


def test_pause_applies_to_no_other_address_and_no_other_user() -> None:
    attempts = SignInAttempts()
    failed(attempts, 2 * FREE)
    assert attempts.wait_ms(THERE, "anna", 0) > 0
    assert attempts.wait_ms(HERE, "anna", 0) == 0
    assert attempts.wait_ms(THERE, "bert", 0) == 0


def test_failures_of_many_users_pause_their_address_but_not_loopback() -> None:
    attempts = SignInAttempts()
    for address in (HERE, THERE):
        for n in range(FREE_OF_ADDRESS):
            failed(attempts, 1, address=address, user=f"user-{n}")
    assert attempts.wait_ms(THERE, "console", 0) == FIRST_PAUSE_MS
    assert attempts.wait_ms(HERE, "console", 0) == 0


def test_success_and_time_forgive() -> None:
    attempts = SignInAttempts()
    failed(attempts, FREE)
    attempts.succeeded(THERE, "anna")
    assert attempts.wait_ms(THERE, "anna", 0) == 0
    failed(attempts, FREE, user="bert")
    assert attempts.wait_ms(THERE, "bert", 0) == FIRST_PAUSE_MS
    failed(attempts, 1, user="bert", now=FORGOTTEN_MS)
    assert attempts.wait_ms(THERE, "bert", FORGOTTEN_MS) == 0


def test_number_of_counters_is_bounded_and_the_newest_stay() -> None:
    attempts = SignInAttempts()
    for n in range(MOST + 100):
        attempts.failed(f"2001:db8::{n:x}", "x" * 100_000, 0)
    failed(attempts, FREE, user="y" * 500)
    assert len(attempts) == MOST
    assert attempts.wait_ms(THERE, "y" * 400, 0) == FIRST_PAUSE_MS  # names that long count as one


def test_a_user_with_a_generated_secret_never_waits_and_is_not_counted() -> None:
    attempts = SignInAttempts()
    attempts.exempt.add("console")
    for address in (HERE, THERE):
        failed(attempts, 10_000, address=address, user="console")
        for n in range(FREE_OF_ADDRESS):
            failed(attempts, 1, address=address, user=f"user-{n}")
        assert (attempts.wait_ms(address, "console", 0), attempts.check_wait_ms(address, "console", 0)) == (0, 0)
    assert attempts.wait_ms(THERE, "anna", 0) == FIRST_PAUSE_MS


def test_wrong_passwords_per_address_and_second_are_bounded_without_delaying_other_addresses() -> None:
    attempts = SignInAttempts()
    for second in range(3):
        now = second * 1_000
        for n in range(CHECKED):
            assert attempts.check_wait_ms(HERE, f"user-{n}", now + n) == 0
            failed(attempts, 1, address=HERE, user=f"user-{second}-{n}", now=now + n)
        assert attempts.check_wait_ms(HERE, "anna", now + CHECKED) == 1_000 - CHECKED
        assert attempts.check_wait_ms(HERE, "anna", now + 999) == 1
        assert attempts.check_wait_ms(HERE, "anna", now + 1_000) == 0
        assert attempts.check_wait_ms(THERE, "anna", now + CHECKED) == 0
