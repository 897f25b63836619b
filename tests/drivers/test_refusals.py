"""Each error of the broker arrives at the console as the same error."""

from __future__ import annotations

import pytest
from proton import Message

from brokers import admin
from brokers.drivers.bundled import _raise_for_status
from brokers.server.management_draft import refusal


@pytest.mark.parametrize(
    "error",
    [
        admin.TryAgain("the stored messages of queue a cannot be read now: try again"),
        admin.NotFound("there is no queue a"),
        admin.AlreadyExists("queue a exists already"),
        admin.NotAllowed("ann may not do that"),
        admin.BrokerUnreachable("no answer"),
        admin.AdminError("the store refused it"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_refusal_has_kind_and_sentence_at_the_other_end(error: admin.AdminError) -> None:
    status, more, body = refusal(error)
    with pytest.raises(admin.AdminError) as found:
        _raise_for_status(Message(properties={"statusCode": status, **more}, body=body))
    assert (type(found.value), str(found.value)) == (type(error), str(error))
