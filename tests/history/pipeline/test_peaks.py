"""The peak of an episode counts all depths within it, also those that arrived before it was known to be so long."""

from __future__ import annotations

import pytest

from tests.history.rows import Story
from tests.history.runs import History

pytestmark = pytest.mark.timeout(600)


def test_depths_after_the_recorded_or_known_end_of_an_episode_count_once_it_has_become_longer(history: History) -> None:
    """The depth of 500 is later than the coverage of the first run, or than the end that a restart gave the episode;
    and earlier than all rows of the second run."""
    history.land(
        Story("open").watch(0, 100).overfull(10).sample(150, 500, state="OVERFULL"),
        Story("restarted").watch(0, 300).overfull(10).event(100, "broker-ready").sample(150, 500),
    )
    history.run()
    history.land(
        Story("open", numbers_from=10).watch(160, 300).underfull(200),
        Story("restarted", numbers_from=10).watch(300, 400).underfull(310),
    )
    history.run()
    for broker in ("open", "restarted"):
        assert history.one("episodes", broker)["peak_messages"] == 500, broker
