"""What becomes of a message that a producer has sent: at once (a verdict), or later (an outcome)."""

from __future__ import annotations

#: Why a message was given up by those who consume it.
MAXIMUM, REJECTED = "maximum-deliveries", "rejected"
