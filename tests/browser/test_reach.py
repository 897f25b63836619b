"""RabbitMQ and Artemis of an operator's own: added by mouse, blocks explained, stopped, started, in the history, and
other limits simulated. Both are real (`own_brokers.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import Browser

from tests.browser.chromium import MISSING, PATH
from tests.browser.own_brokers import Site, add_control_and_review, running_site, signed_in
from tests.interop.artemis_node import artemis_libraries

pytestmark = [
    pytest.mark.browser,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assert request.config.cache is not None
    classes = artemis_libraries("2.55", request.config.cache)
    with running_site(classes, tmp_path_factory.mktemp("reach")) as site:
        yield site


async def test_brokers_of_two_kinds_are_added_explained_stopped_started_recorded_and_simulated(
    site: Site, browser: Browser
) -> None:
    async with signed_in(browser, site) as page:
        await add_control_and_review(site, page, step=lambda _done: None)
