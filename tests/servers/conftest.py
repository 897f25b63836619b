"""One PostgreSQL and one Redis for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.servers import postgresql, redis_server


@pytest.fixture(scope="package")
def database_url() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture(scope="package")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url
